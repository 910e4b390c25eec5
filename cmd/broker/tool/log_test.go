package tool

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Segments that a real Kafka wrote are read; one with a byte changed, cut off or followed by zeros is told.
func TestLogs(t *testing.T) {
	segments, err := filepath.Glob("../../../testdata/golden-logs/*/*/*.log")
	if err != nil {
		t.Fatal(err)
	}
	more, err := filepath.Glob("../../../testdata/golden-logs/*/*.log")
	if err != nil {
		t.Fatal(err)
	}
	segments = append(segments, more...)
	whole := 0
	for _, name := range segments {
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if len(raw) < 100 {
			continue
		}
		whole++
		for what, tt := range map[string]struct {
			raw  []byte
			code int
			says string
		}{
			"whole":   {raw, 0, "good: "},
			"changed": {append(append([]byte{}, raw[:len(raw)-1]...), raw[len(raw)-1]^1), 1, "the checksum is wrong"},
			"cut":     {raw[:len(raw)-1], 1, "bytes end before the batch does"},
			"zeros":   {append(append([]byte{}, raw...), make([]byte, 100)...), 1, "zeros, as after a crash"},
		} {
			r := newRig("")
			dir := "data/" + filepath.Base(filepath.Dir(name))
			if err := r.files.MkdirAll(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			r.write(t, dir+"/"+filepath.Base(name), string(tt.raw))
			var stdout, stderr bytes.Buffer
			if code := r.run(nil, &stdout, &stderr, "log", "verify", dir); code != tt.code || !strings.Contains(stdout.String(), tt.says) {
				t.Errorf("%s %s: %d, %s%s", name, what, code, stdout.String(), stderr.String())
			}
			if what == "whole" {
				lines := strings.Count(r.must(t, nil, "log", "dump", dir), "\n")
				if records := r.must(t, nil, "log", "dump", dir, "-r"); strings.Count(records, "\n") <= lines {
					t.Errorf("%s: %d batches and no records", name, lines)
				}
			}
		}
	}
	if whole < 2 {
		t.Errorf("%d segments", whole)
	}
}
