package compaction

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"grete/compat-tests/kafka"
)

// outcome is what a broker has after one round.
type outcome struct {
	headers []header
	records []string
}

// rounds are written and compacted one after the other.
var rounds = []struct {
	name              string
	batches           int
	deleteRetentionMs string
}{
	{"horizons in a day", 600, "86400000"},
	{"new horizons in a millisecond", 150, "1"},
	{"what the second round marked expires, what the first did stays", 150, "86400000"},
	{"once more", 20, "86400000"},
}

// TestCompactionAsKafka: after each compaction, batches on disk and records that a consumer sees are the same.
func TestCompactionAsKafka(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 8*time.Minute)
	defer cancel()
	want := run(t, ctx, kafka.StartApache)
	got := run(t, ctx, kafka.StartGrete)
	for i, r := range rounds {
		compare(t, r.name, want[i], got[i])
	}
}

func run(t *testing.T, ctx context.Context, startBroker func(context.Context, kafka.Options) (*kafka.Broker, error)) []outcome {
	t.Helper()
	s, err := start(ctx, startBroker, t.TempDir())
	if s != nil {
		defer s.stop()
	}
	kafka.SkipOrFail(t, err)
	w, err := newStream(s)
	defer w.close()
	must(t, err)
	var out []outcome
	for _, r := range rounds {
		must(t, w.round(ctx, r.batches))
		must(t, s.configure(ctx, map[string]string{"delete.retention.ms": r.deleteRetentionMs}))
		must(t, s.compact(ctx))
		var o outcome
		o.headers, err = s.headers()
		must(t, err)
		o.records, err = s.records(ctx)
		must(t, err)
		out = append(out, o)
		t.Logf("%s: %d offsets, %d batches, %d records", r.name, s.end, len(o.headers), len(o.records))
	}
	checkDump(t, ctx, s.dir())
	return out
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func compare(t *testing.T, round string, kafkas, ours outcome) {
	t.Helper()
	if len(kafkas.records) == 0 || len(kafkas.headers) == 0 {
		t.Fatalf("%s: Kafka has nothing left", round)
	}
	report(t, round+": batches", describe(kafkas.headers), describe(ours.headers))
	report(t, round+": records", kafkas.records, ours.records)
}

func describe(headers []header) []string {
	out := make([]string, len(headers))
	for i, h := range headers {
		out[i] = fmt.Sprintf("%+v", h)
	}
	return out
}

// report shows the first lines that one has and the other has not.
func report(t *testing.T, what string, kafkas, ours []string) {
	t.Helper()
	if slices.Equal(kafkas, ours) {
		return
	}
	missing := difference(kafkas, ours)
	extra := difference(ours, kafkas)
	t.Errorf("%s differ: Kafka has %d, we have %d\nKafka alone (%d):\n%s\nwe alone (%d):\n%s", what, len(kafkas), len(ours),
		len(missing), strings.Join(missing[:min(len(missing), 10)], "\n"), len(extra), strings.Join(extra[:min(len(extra), 10)], "\n"))
}

func difference(a, b []string) []string {
	has := map[string]bool{}
	for _, line := range b {
		has[line] = true
	}
	return slices.DeleteFunc(slices.Clone(a), func(line string) bool { return has[line] })
}

// checkDump lets Kafka's tool read what compaction left.
func checkDump(t *testing.T, ctx context.Context, dir string) {
	t.Helper()
	java, err := kafka.Java()
	must(t, err)
	libs, err := kafka.Libs(ctx)
	must(t, err)
	files, err := filepath.Glob(filepath.Join(dir, "0*"))
	must(t, err)
	files = slices.DeleteFunc(files, func(name string) bool { return strings.HasSuffix(name, ".deleted") })
	out, err := exec.CommandContext(ctx, java, "-Xmx128m", "-cp", filepath.Join(libs, "*"), "org.apache.kafka.tools.DumpLogSegments",
		"--deep-iteration", "--files", strings.Join(files, ",")).CombinedOutput()
	must(t, err)
	for _, word := range []string{"isvalid: false", "Mismatches in", "Exception", "out of order", "corrupt", "Error"} {
		if strings.Contains(string(out), word) {
			name := filepath.Join(os.TempDir(), "compaction-dump.txt")
			t.Errorf("kafka-dump-log says %q, see %s: %v", word, name, os.WriteFile(name, out, 0o644))
		}
	}
}
