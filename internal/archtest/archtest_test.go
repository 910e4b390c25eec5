package archtest

import (
	"go/parser"
	"go/token"
	"testing"
)

func tree(t *testing.T) []source {
	t.Helper()
	sources, err := load("../..")
	if err != nil {
		t.Fatal(err)
	}
	if len(sources) < 20 {
		t.Fatalf("only %d files found: the walk is wrong", len(sources))
	}
	return sources
}

// TestImportsPointDown holds DESIGN's order of the rooms.
func TestImportsPointDown(t *testing.T) {
	for _, line := range checkImports(tree(t)) {
		t.Error(line)
	}
}

// TestWorldIsInjected: only the packages that are the world's doors, the main that opens them, and helpers of tests
// touch it.
func TestWorldIsInjected(t *testing.T) {
	allowed := func(room string) bool {
		return room == "internal/vfs" || room == "internal/clock" || room == "internal/archtest" || room == "internal/transcript" || room == "internal/history" || room == "cmd/broker"
	}
	for _, line := range checkWorld(tree(t), allowed) {
		t.Error(line)
	}
}

// TestMutexesLetTimePass: rooms that write files, or are called by those, have the mutexes that a simulation with slow
// disks needs.
func TestMutexesLetTimePass(t *testing.T) {
	for _, line := range checkMutexes(tree(t), []string{"logstore", "cluster/replica", "cluster/raftlog", "cluster/controller", "coordinator", "handlers", "protocol"}) {
		t.Error(line)
	}
	src := "package a\nimport \"sync\"\nvar a sync.Mutex\nvar b *sync.RWMutex\n"
	if got := checkMutexes(fake(t, "logstore/a.go", src), []string{"logstore"}); len(got) != 2 {
		t.Errorf("want 2 lines, got %v", got)
	}
}

func fake(t *testing.T, path, src string) []source {
	t.Helper()
	s := source{path: path, fset: token.NewFileSet()}
	var err error
	if s.file, err = parser.ParseFile(s.fset, path, src, 0); err != nil {
		t.Fatal(err)
	}
	return []source{s}
}

func TestRulesCanFail(t *testing.T) {
	for _, c := range []struct{ path, imports string }{
		{"logstore/a.go", "grete/cluster/replica"},
		{"protocol/a.go", "grete/logstore"},
		{"cluster/metadata/a.go", "grete/protocol"},
		{"coordinator/a.go", "grete/coordinator/group"},
		{"cluster/replica/a.go", "grete/cluster/controller"},
		{"handlers/a.go", "grete/cmd/broker"},
		{"cmd/broker/tool/a.go", "grete/logstore"},
		{"elsewhere/a.go", "fmt"},
	} {
		src := "package a\nimport _ \"" + c.imports + "\"\n"
		if got := checkImports(fake(t, c.path, src)); len(got) != 1 {
			t.Errorf("%s importing %s: %v", c.path, c.imports, got)
		}
	}
	src := "package a\nimport (\"time\"; r \"math/rand/v2\"; \"os\")\nvar _, _, _, _ = time.Now(), r.IntN(1), os.Remove(\"\"), r.New(nil)\n"
	none := func(string) bool { return false }
	if got := checkWorld(fake(t, "logstore/a.go", src), none); len(got) != 3 {
		t.Errorf("want 3 lines, got %v", got)
	}
}
