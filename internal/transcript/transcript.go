// Package transcript plays readable scripts of state machines in tests. A block is a command, "----", and everything
// that it led to; an empty line ends it. Lines above a command are its comment; a block whose last line starts with #
// is one, too.
package transcript

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write what happens into the transcripts")

// Nothing stands for a command that led to nothing, which is no line at all.
const Nothing = "nothing"

// Run plays every testdata/*.txt, of which there are at least min, each against a player of its own. A player is
// called with one command after another and returns what it led to: whole lines.
func Run(t *testing.T, min int, newPlayer func(*testing.T) func(command string) string) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) < min {
		t.Fatalf("%d transcripts, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) { playFile(t, file, newPlayer(t)) })
	}
}

func playFile(t *testing.T, file string, player func(string) string) {
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	now, differences := play(string(raw), player)
	if *update {
		if err := os.WriteFile(file, []byte(now), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	for _, d := range differences {
		t.Errorf("%s: %s", file, d)
	}
}

// play returns the script with what its commands lead to now, and where that is not what it says.
func play(script string, player func(string) string) (now string, differences []string) {
	var out strings.Builder
	for block := range strings.SplitSeq(strings.TrimSpace(script), "\n\n") {
		head, want, _ := strings.Cut(strings.Trim(block, "\n"), "\n----")
		out.WriteString(head)
		command := head[strings.LastIndexByte(head, '\n')+1:]
		if strings.HasPrefix(command, "#") {
			out.WriteString("\n\n")
			continue
		}
		got := strings.TrimRight(player(command), " \n")
		if got == "" {
			got = Nothing
		}
		fmt.Fprintf(&out, "\n----\n%s\n\n", got)
		if want = strings.TrimRight(strings.TrimPrefix(want, "\n"), " \n"); want != got {
			differences = append(differences, fmt.Sprintf("%s\ngot:\n%s\nwant:\n%s", command, got, want))
		}
	}
	return strings.TrimSpace(out.String()) + "\n", differences
}
