// Package kgosuite runs franz-go's own tests of pkg/kgo, which its module zip holds, against the broker.
package kgosuite

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"grete/compat-tests/kafka"
)

// notYet lists what the suite asks of a broker that this one does not offer, with the reason.
var notYet = map[string]string{
	"TestConsumeRegex/share": "share groups",
	"TestShareGroup.*":       "share groups",
	"TestSCRAM.*":            "SASL",
	"TestOAuthAuth":          "SASL",
}

// records is how many records each ETL test moves: the suite's 500,000 take an hour on two cores.
const records = "20000"

func TestKgoSuite(t *testing.T) {
	b, err := kafka.StartTarget(context.Background(), kafka.Options{Dir: t.TempDir(), Properties: map[string]string{"group.initial.rebalance.delay.ms": "200"}})
	kafka.SkipOrFail(t, err)
	t.Cleanup(func() { _ = b.Stop() })

	var skip []string
	for name, why := range notYet {
		t.Logf("not run: %s (%s)", name, why)
		skip = append(skip, "^"+name+"$")
	}
	cmd := exec.Command("go", "test", "-count=1", "-timeout", "15m", "-v", "-skip", strings.Join(skip, "|"), "./pkg/kgo")
	cmd.Dir = suite(t)
	cmd.Env = append(os.Environ(), "KGO_SEEDS="+b.Addr, "KGO_TEST_RF=1", "KGO_TEST_RECORDS="+records, "KGO_LOG_LEVEL=none", "GOWORK=off", "GOFLAGS=-mod=mod")
	out, err := cmd.CombinedOutput()
	verdict := regexp.MustCompile(`(?m)^\s*--- (PASS|FAIL|SKIP)`)
	count := map[string]int{}
	for _, m := range verdict.FindAllSubmatch(out, -1) {
		count[string(m[1])]++
	}
	t.Logf("pkg/kgo: %v", count)
	if err != nil {
		t.Errorf("%v\n%s", err, failures(out))
	}
	if count["PASS"] < 100 {
		t.Errorf("only %d tests of the suite passed: it did not run", count["PASS"])
	}
}

// suite copies the module out of the read-only module cache.
func suite(t *testing.T) string {
	t.Helper()
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/twmb/franz-go").Output()
	if err != nil {
		t.Fatal(err)
	}
	to := t.TempDir()
	if err := os.CopyFS(to, os.DirFS(strings.TrimSpace(string(dir)))); err != nil {
		t.Fatal(err)
	}
	return to
}

const linesOfAFailure = 200

// failures keeps the lines about failed tests, and the end.
func failures(out []byte) string {
	var kept []string
	lines := strings.Split(string(bytes.TrimSpace(out)), "\n")
	for i, line := range lines {
		if strings.Contains(line, "--- FAIL") || strings.Contains(line, "_test.go:") || strings.Contains(line, "panic") || i > len(lines)-20 {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept[max(0, len(kept)-linesOfAFailure):], "\n")
}
