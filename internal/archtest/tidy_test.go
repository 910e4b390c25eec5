package archtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestTidy: make lint fails for a module that is not tidy, and not for a module proxy that is out of reach.
func TestTidy(t *testing.T) {
	const nowhere = "https://127.0.0.1:1"
	for _, tt := range []struct {
		what, mod, code string
		fails           bool
		said            string
	}{
		{"tidy", "module m\n\ngo 1.26.0\n", "package m\n", false, ""},
		{"a requirement that nobody needs", "module m\n\ngo 1.26.0\n\nrequire example.com/a v1.0.0\n\nreplace example.com/a => ./a\n", "package m\n", true, "-require example.com/a v1.0.0"},
		{"a proxy out of reach", "module m\n\ngo 1.26.0\n\nrequire example.com/b v1.0.0\n", "package m\n\nimport _ \"example.com/b\"\n", false, "the module proxy is not in reach"},
		{"a go.mod that is none", "modul m\n", "package m\n", true, "unknown directive: modul"},
	} {
		dir := t.TempDir()
		files := map[string]string{"go.mod": tt.mod, "m.go": tt.code, "a/go.mod": "module example.com/a\n\ngo 1.26.0\n", "a/a.go": "package a\n"}
		for name, text := range files {
			name = filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		cmd := exec.CommandContext(t.Context(), "bash", "../../scripts/tidy.sh", dir)
		cmd.Env = append(os.Environ(), "GOPROXY="+nowhere, "GOFLAGS=-mod=mod", "GOSUMDB=off", "GOTOOLCHAIN=local")
		said, err := cmd.CombinedOutput()
		if (err != nil) != tt.fails || !strings.Contains(string(said), tt.said) || tt.said == "" && len(said) > 0 {
			t.Errorf("%s: %v, %s", tt.what, err, said)
		}
	}
}
