package archtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestThreadsAreDocumented: every goroutine, timer and lock of the broker stands in docs/THREADS.md.
func TestThreadsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/THREADS.md")
	if err != nil {
		t.Fatal(err)
	}
	var broker []source
	for _, s := range tree(t) {
		// The test worlds of the file system and the clock, and logs made for tests, are no part of a broker.
		if room := s.room(); room != "internal/vfs" && room != "internal/clock" && room != "internal/history" && !strings.HasSuffix(room, "test") {
			broker = append(broker, s)
		}
	}
	for _, line := range checkThreads(broker, string(text)) {
		t.Error(line)
	}
}

// TestNamedFilesExist: a page does not name files that are gone.
func TestNamedFilesExist(t *testing.T) {
	var pages []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/adr/*.md"} {
		found, err := filepath.Glob("../../" + pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, page := range found {
			pages = append(pages, strings.TrimPrefix(filepath.ToSlash(page), "../../"))
		}
	}
	bad, err := checkNamedFiles("../..", pages)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range bad {
		t.Error(line)
	}
}

func TestDocumentRulesCanFail(t *testing.T) {
	src := `package a
import "sync"
type T[K any] struct { mu, other sync.Mutex; rw *sync.RWMutex }
func (t *T[K]) start() { go t.run(); t.group.Go(t.run) }
func arm() { clock.AfterFunc(1, nil) }
`
	if got := checkThreads(fake(t, "logstore/a.go", src), "| logstore | `T.mu` |\n| protocol | `T.start` |\n`arm`"); len(got) != 5 {
		t.Errorf("want 5 lines, got %v", got)
	}
	all := "| logstore | `T.mu` `T.other` `T.rw` | `T.start` `arm` |"
	if got := checkThreads(fake(t, "logstore/a.go", src), all); len(got) != 0 {
		t.Error(got)
	}
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "page.md"), []byte("`page.md`, `./page.md`, `gone.go`, `not a file`"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got, err := checkNamedFiles(root, []string{"page.md"}); err != nil || len(got) != 1 || !strings.Contains(got[0], "gone.go") {
		t.Error(got, err)
	}
}
