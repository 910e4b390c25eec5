package archtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCommentsFitTheScreen holds the comments of both modules to maxCommentColumns.
func TestCommentsFitTheScreen(t *testing.T) {
	bad, err := checkComments("../..", []string{
		"internal/security/", "cmd/broker/node/kerberos", "cmd/broker/node/oauth_login", "cmd/broker/node/sasl", "compat-tests/oracle/", "compat-tests/clients/",
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range bad {
		t.Error(line)
	}
}

func TestCommentRuleCanFail(t *testing.T) {
	root := t.TempDir()
	words := strings.Repeat("ö word", 20)
	lines := []string{
		"package a", "//" + words[:118], "// " + words, "\t\t// " + strings.Repeat("word ", 22) + "end.", "\t// " + strings.Repeat("x", 130),
		"//go:generate " + words, "var a = 1 // " + words, "// " + strings.Repeat("öö ", 39),
	}
	for name, text := range map[string]string{"a.go": strings.Join(lines, "\n"), "out.go": lines[2], "a.txt": lines[2]} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	bad, err := checkComments(root, []string{"out"})
	if err != nil || len(bad) != 2 || !strings.HasPrefix(bad[0], "a.go:3: ") || !strings.HasPrefix(bad[1], "a.go:4: ") {
		t.Errorf("%q, %v", bad, err)
	}
}
