package archtest

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"
)

// maxCommentColumns bounds a line of a comment; a tab counts as four columns.
const maxCommentColumns = 120

// checkComments returns one line per comment line of the Go files below root that is too long, tests and nested modules
// included. A line that cannot be broken (one word, or a directive) may be, and so may those of files with one of these
// prefixes.
func checkComments(root string, leftOut []string) ([]string, error) {
	var bad []string
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && d.Name() == ".git" {
			return filepath.SkipDir
		}
		if err != nil || d.IsDir() || !strings.HasSuffix(name, ".go") {
			return err
		}
		rel, _ := filepath.Rel(root, name)
		rel = filepath.ToSlash(rel)
		if slices.ContainsFunc(leftOut, func(prefix string) bool { return strings.HasPrefix(rel, prefix) }) {
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		number := 0
		for line := range strings.Lines(string(text)) {
			number++
			if columns := tooLong(line); columns > 0 {
				bad = append(bad, fmt.Sprintf("%s:%d: a comment of %d columns; %d are the most", rel, number, columns, maxCommentColumns))
			}
		}
		return nil
	})
	return bad, err
}

// tooLong is how many columns a line has that is a comment, is too long and can be broken; 0 for any other.
func tooLong(line string) int {
	line = strings.TrimRight(line, "\r\n")
	comment, ok := strings.CutPrefix(strings.TrimLeft(line, " \t"), "//")
	if !ok || !strings.HasPrefix(comment, " ") && !strings.HasPrefix(comment, "\t") || len(strings.Fields(comment)) < 2 {
		return 0
	}
	columns := utf8.RuneCountInString(line) + 3*strings.Count(line, "\t")
	if columns <= maxCommentColumns {
		return 0
	}
	return columns
}
