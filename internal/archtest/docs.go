package archtest

import (
	"fmt"
	"go/ast"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// checkThreads returns one line per goroutine, timer and lock that docs/THREADS.md, whose text is given, does not name
// in a row of its room: goroutines and timers by the function that starts them (`Type.method`), locks by their field
// (`Type.mu`).
func checkThreads(sources []source, text string) []string {
	named := map[string]bool{} // room and name
	for line := range strings.Lines(text) {
		if cells := strings.Split(line, "|"); len(cells) > 2 {
			for span := range codeSpans(line) {
				named[strings.TrimSpace(cells[1])+" "+span] = true
			}
		}
	}
	var bad []string
	for _, s := range sources {
		for _, d := range s.file.Decls {
			for _, found := range append(startsOf(d), locksOf(d)...) {
				if !named[s.room()+" "+found.name] {
					bad = append(bad, fmt.Sprintf("%s: docs/THREADS.md has no row of %s with `%s`", s.fset.Position(found.node.Pos()), s.room(), found.name))
				}
			}
		}
	}
	return bad
}

type finding struct {
	name string
	node ast.Node
}

// startsOf finds go statements and calls of a Go or AfterFunc (WaitGroup, errgroup, the clock) in a function.
func startsOf(d ast.Decl) []finding {
	f, ok := d.(*ast.FuncDecl)
	if !ok || f.Body == nil {
		return nil
	}
	var out []finding
	ast.Inspect(f.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			out = append(out, finding{funcName(f), n})
		case *ast.CallExpr:
			if sel, ok := n.Fun.(*ast.SelectorExpr); ok && (sel.Sel.Name == "Go" || sel.Sel.Name == "AfterFunc") {
				out = append(out, finding{funcName(f), n})
			}
		}
		return true
	})
	return out
}

// funcName is Type.method, without package, pointer and type parameters; a function's own name where there is no
// receiver.
func funcName(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return f.Name.Name
	}
	return typeName(f.Recv.List[0].Type) + "." + f.Name.Name
}

func typeName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return typeName(e.X)
	case *ast.IndexExpr:
		return typeName(e.X)
	case *ast.IndexListExpr:
		return typeName(e.X)
	case *ast.SelectorExpr:
		return typeName(e.X) + "." + e.Sel.Name
	case *ast.Ident:
		return e.Name
	}
	return ""
}

var mutexes = map[string]bool{"sync.Mutex": true, "sync.RWMutex": true, "sched.Mutex": true, "sched.RWMutex": true}

// checkMutexes returns one line per mutex of package sync in a room that rooms says needs those of internal/sched: a
// simulation whose disks take time would stand for ever.
func checkMutexes(sources []source, rooms []string) []string {
	var bad []string
	for _, s := range sources {
		if !slices.ContainsFunc(rooms, func(room string) bool { return strings.HasPrefix(s.room()+"/", room+"/") }) {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok && (typeName(sel) == "sync.Mutex" || typeName(sel) == "sync.RWMutex") {
				bad = append(bad, fmt.Sprintf("%s: %s, not internal/sched's", s.fset.Position(n.Pos()), typeName(sel)))
			}
			return true
		})
	}
	return bad
}

// locksOf finds the fields of a struct type that are mutexes.
func locksOf(d ast.Decl) []finding {
	var out []finding
	ast.Inspect(d, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok {
			return true
		}
		if st, ok := spec.Type.(*ast.StructType); ok {
			for _, field := range st.Fields.List {
				if !mutexes[typeName(field.Type)] {
					continue
				}
				for _, name := range field.Names {
					out = append(out, finding{spec.Name.Name + "." + name.Name, field})
				}
			}
		}
		return true
	})
	return out
}

var (
	codeSpan = regexp.MustCompile("`([^`\n]+)`")
	fileName = regexp.MustCompile(`^[A-Za-z0-9_./-]+\.(go|md|tsv|sh|mod)$`)
)

func codeSpans(text string) map[string]bool {
	out := map[string]bool{}
	for _, m := range codeSpan.FindAllStringSubmatch(text, -1) {
		out[m[1]] = true
	}
	return out
}

// checkNamedFiles returns one line per file that a page names and the tree does not have, under that path or under that
// name.
func checkNamedFiles(root string, pages []string) ([]string, error) {
	there := map[string]bool{}
	err := filepath.WalkDir(root, func(p string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() && (d.Name() == ".git" || d.Name() == ".cache") {
			return filepath.SkipDir
		}
		rel, _ := filepath.Rel(root, p)
		there[filepath.ToSlash(rel)], there[d.Name()] = true, true
		return err
	})
	if err != nil {
		return nil, err
	}
	var bad []string
	for _, page := range pages {
		text, err := os.ReadFile(filepath.Join(root, page))
		if err != nil {
			return nil, err
		}
		for span := range codeSpans(string(text)) {
			name := strings.TrimPrefix(path.Clean(span), "./")
			if fileName.MatchString(name) && !there[name] && !there[path.Join(path.Dir(page), name)] {
				bad = append(bad, fmt.Sprintf("%s: there is no %s", page, span))
			}
		}
	}
	return bad, nil
}
