// Package archtest holds the rules of the house that a compiler does not: which room may import which, and that
// the world (files, time, randomness) comes in only through internal/vfs and internal/clock. Its tests are the rules;
// this file reads the tree.
package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const module = "grete"

// source is one Go file that is not a test.
type source struct {
	path string // relative to the root, slash-separated
	fset *token.FileSet
	file *ast.File
}

func (s source) room() string { return filepath.ToSlash(filepath.Dir(s.path)) }

// load parses every non-test Go file of the module rooted at root; nested modules are left out.
func load(root string) ([]source, error) {
	var out []source
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, path)
		if d.IsDir() {
			if rel == "compat-tests" || d.Name() == "testdata" || (strings.HasPrefix(d.Name(), ".") && rel != ".") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		s := source{path: filepath.ToSlash(rel), fset: token.NewFileSet()}
		s.file, err = parser.ParseFile(s.fset, path, nil, parser.SkipObjectResolution)
		out = append(out, s)
		return err
	})
	return out, err
}

// layers orders the rooms from the bottom up; a room may import rooms of lower layers only, or of its own layer
// where siblings says so. The first matching prefix decides.
var layers = []struct {
	prefix string
	level  int
}{
	{"internal/sim", 5},
	{"internal", 0},
	{"protocol/batch", 0},
	{"cluster/metadata", 0},
	{"logstore", 1},
	{"protocol", 1},
	{"coordinator/", 2},
	{"coordinator", 1},
	{"cluster", 2},
	{"handlers", 3},
	{"cmd", 4},
}

func level(room string) (int, bool) {
	for _, l := range layers {
		if room == strings.TrimSuffix(l.prefix, "/") && !strings.HasSuffix(l.prefix, "/") ||
			strings.HasPrefix(room, strings.TrimSuffix(l.prefix, "/")+"/") {
			return l.level, true
		}
	}
	return 0, false
}

// narrow lists rooms that may import less than their layer may, with all that they may.
var narrow = map[string][]string{"cmd/broker/tool": {"internal/", "protocol/batch"}}

// fits tells whether a room that is narrow may import another one; any other room may.
func fits(from, to string) bool {
	allowed, isNarrow := narrow[from]
	return !isNarrow || slices.ContainsFunc(allowed, func(prefix string) bool { return strings.HasPrefix(to, prefix) })
}

// checkImports returns one line per import that points up or sideways.
func checkImports(sources []source) []string {
	var bad []string
	for _, s := range sources {
		from, known := level(s.room())
		if !known {
			bad = append(bad, fmt.Sprintf("%s: room %q has no layer", s.path, s.room()))
			continue
		}
		for _, imp := range s.file.Imports {
			target, _ := strconv.Unquote(imp.Path.Value)
			room, ours := strings.CutPrefix(target, module+"/")
			if !ours || room == s.room() {
				continue
			}
			to, known := level(room)
			if !known || to > from || to == from && !siblings(s.room(), room) || !fits(s.room(), room) {
				bad = append(bad, fmt.Sprintf("%s: %s may not import %s", s.path, s.room(), room))
			}
		}
	}
	return bad
}

// siblings tells whether two rooms of one layer may know each other: a room and what lies inside it, the
// internal packages among themselves, the controller, which drives its Raft node, and whoever has ids of Kafka's.
func siblings(from, to string) bool {
	switch {
	case strings.HasPrefix(from, "internal/") && strings.HasPrefix(to, "internal/"):
		return true
	case from == "cluster/controller" && to == "cluster/raftlog":
		return true
	case to == "internal/uuid":
		return true
	}
	return strings.HasPrefix(to, from+"/") || strings.HasPrefix(from, to+"/")
}

// world lists the functions that reach outside, by package path; "*" is all functions but those in except.
var world = map[string]struct{ names, except string }{
	"time":         {names: "Now Sleep After AfterFunc NewTimer NewTicker Tick Since Until"},
	"math/rand":    {names: "*", except: "New NewSource NewZipf Rand Source Source64 Zipf"},
	"math/rand/v2": {names: "*", except: "New NewPCG NewChaCha8 NewZipf Rand Source PCG ChaCha8 Zipf"},
	"os": {names: "Open OpenFile Create CreateTemp Remove RemoveAll Rename Mkdir MkdirAll MkdirTemp ReadDir ReadFile " +
		"WriteFile Stat Lstat Truncate Chmod Link Symlink Readlink"},
}

// checkWorld returns one line per call of a world function outside the rooms that are allowed to.
func checkWorld(sources []source, allowed func(room string) bool) []string {
	var bad []string
	for _, s := range sources {
		if allowed(s.room()) {
			continue
		}
		names := map[string]string{} // local name → import path
		for _, imp := range s.file.Imports {
			path, _ := strconv.Unquote(imp.Path.Value)
			if _, ok := world[path]; !ok {
				continue
			}
			local := strings.TrimSuffix(path, "/v2")
			local = local[strings.LastIndexByte(local, '/')+1:]
			if imp.Name != nil {
				local = imp.Name.Name
			}
			names[local] = path
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			x, ok := sel.X.(*ast.Ident)
			if ok && names[x.Name] != "" && reaches(names[x.Name], sel.Sel.Name) {
				bad = append(bad, fmt.Sprintf("%s: %s.%s", s.fset.Position(sel.Pos()), x.Name, sel.Sel.Name))
			}
			return true
		})
	}
	return bad
}

func reaches(path, name string) bool {
	w := world[path]
	in := func(list string) bool { return strings.Contains(" "+list+" ", " "+name+" ") }
	if w.names == "*" {
		return !in(w.except)
	}
	return in(w.names)
}
