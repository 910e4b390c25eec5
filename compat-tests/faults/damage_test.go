package faults

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// furnish writes records to topic "kept" of several segments, kills the broker or stops it, and returns what it
// acknowledged.
func furnish(t *testing.T, dir string, clean bool) map[string]int64 {
	t.Helper()
	b := startIn(t, dir, properties{"log.segment.bytes": "1048576", "log.index.interval.bytes": "100"})
	createTopic(t, b, "kept", 1, nil)
	nc := dial(t, b)
	acked := map[string]int64{}
	for i := range 400 {
		value := fmt.Sprintf("%d %s", i, strings.Repeat("x", 8000))
		p := produceTo(t, nc, "kept", goodBatch([]byte(value)).bytes())
		if p.ErrorCode != 0 {
			t.Fatalf("record %d: error %d", i, p.ErrorCode)
		}
		acked[value] = p.BaseOffset
	}
	end := b.Kill
	if clean {
		end = b.Stop
	}
	if err := end(); err != nil {
		t.Fatal(err)
	}
	return acked
}

// Files beside the records are deleted, emptied and garbled: they are made anew, and nothing is lost.
func TestDamagedFilesBesideTheRecords(t *testing.T) {
	origin := t.TempDir()
	acked := furnish(t, origin, false)
	for _, pattern := range []string{"kept-0/*.index", "kept-0/*.timeindex", "kept-0/*.snapshot", "kept-0/leader-epoch-checkpoint", "recovery-point-offset-checkpoint", "replication-offset-checkpoint", "log-start-offset-checkpoint"} {
		for name, damage := range damages {
			t.Run(strings.ReplaceAll(pattern, "/", " ")+" "+name, func(t *testing.T) {
				dir := t.TempDir()
				if err := os.CopyFS(filepath.Join(dir, "data"), os.DirFS(filepath.Join(origin, "data"))); err != nil {
					t.Fatal(err)
				}
				files, err := filepath.Glob(filepath.Join(dir, "data", pattern))
				if err != nil {
					t.Fatal(err)
				}
				for _, file := range files {
					damage(t, file)
				}
				b := startIn(t, dir, nil)
				assertHolds(t, b, "kept", acked)
				assertServes(t, b)
			})
		}
	}
}

var damages = map[string]func(t *testing.T, file string){
	"deleted": func(t *testing.T, file string) { must(t, os.Remove(file)) },
	"emptied": func(t *testing.T, file string) { must(t, os.Truncate(file, 0)) },
	"garbled": func(t *testing.T, file string) { must(t, os.WriteFile(file, []byte("\xff\x00garbage\n-1 x"), 0o644)) },
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// The last segment is cut at many places after a kill: whole batches before the cut are there, and nothing else.
func TestCutTail(t *testing.T) {
	origin := t.TempDir()
	acked := furnish(t, origin, false)
	segments, err := filepath.Glob(filepath.Join(origin, "data", "kept-0", "*.log"))
	must(t, err)
	last := segments[len(segments)-1]
	info, err := os.Stat(last)
	must(t, err)
	for _, cut := range []int64{1, 7, 60, 61, 4000, 8000, 8100, 20_000} {
		dir := t.TempDir()
		must(t, os.CopyFS(filepath.Join(dir, "data"), os.DirFS(filepath.Join(origin, "data"))))
		must(t, os.Truncate(filepath.Join(dir, "data", "kept-0", filepath.Base(last)), info.Size()-cut))
		b := startIn(t, dir, nil)
		end := latest(t, b, "kept")
		if lost := int64(len(acked)) - end; lost < 1 || lost > cut/8000+1 {
			t.Errorf("%d bytes cut: %d records are gone", cut, lost)
		}
		left := map[string]int64{}
		for value, offset := range acked {
			if offset < end {
				left[value] = offset
			}
		}
		assertHolds(t, b, "kept", left)
		must(t, b.Kill())
	}
}

// refuses runs the broker on a data directory and fails unless it ends with code 1 and one line that has the words.
func refuses(t *testing.T, what string, words []string, args ...string) {
	t.Helper()
	code, out := runUntilExit(t, patience, args...)
	if code != 1 || lineCount(out) != 1 {
		t.Errorf("%s: exit code %d, %d lines:\n%s", what, code, lineCount(out), out)
	}
	for _, word := range words {
		if !strings.Contains(out, word) {
			t.Errorf("%s: no %q in\n%s", what, word, out)
		}
	}
}

// What the metadata cannot do without is damaged: the broker says which file and what to do, and deletes nothing.
func TestDamagedMetadataIsRefused(t *testing.T) {
	origin := t.TempDir()
	acked := furnish(t, origin, true)
	for _, file := range []string{"meta.properties", "__cluster_metadata-0/quorum-state"} {
		dir := t.TempDir()
		data := filepath.Join(dir, "data")
		must(t, os.CopyFS(data, os.DirFS(filepath.Join(origin, "data"))))
		good, err := os.ReadFile(filepath.Join(data, file))
		must(t, err)
		damages["garbled"](t, filepath.Join(data, file))
		before := entries(t, data)
		refuses(t, file, []string{filepath.Base(file)}, "--data-dir", data)
		if now := entries(t, data); len(now) < len(before) {
			t.Errorf("%s: %q, before %q", file, now, before)
		}
		must(t, os.WriteFile(filepath.Join(data, file), good, 0o644))
		b := startIn(t, dir, nil)
		assertHolds(t, b, "kept", acked)
		must(t, b.Kill())
	}
}

// Obstacles to a start are named in one line, exit code 1.
func TestRefusedStarts(t *testing.T) {
	b := start(t, nil)
	refuses(t, "directory in use", []string{"in use", b.DataDir}, "--data-dir", b.DataDir)
	refuses(t, "port in use", []string{"address already in use", b.Addr}, "--data-dir", t.TempDir(), "--listen", b.Addr)
	refuses(t, "a file for a directory", []string{b.LogPath}, "--data-dir", b.LogPath)
	refuses(t, "under /proc", []string{"/proc/nowhere"}, "--data-dir", "/proc/nowhere")
	refuses(t, "typo", []string{"num.partitionz", "num.partitions"}, "--data-dir", t.TempDir(), "--set", "num.partitionz=3")
	refuses(t, "wrong value", []string{"num.partitions", "many"}, "--data-dir", t.TempDir(), "--set", "num.partitions=many")
	refuses(t, "no such file", []string{"/no/such/server.properties"}, "--config", "/no/such/server.properties")
	refuses(t, "bad listener", []string{"listeners"}, "--data-dir", t.TempDir(), "--set", "listeners=PLAINTEXT:/nowhere")
	refuses(t, "no host to advertise", []string{"advertised.listeners"}, "--data-dir", t.TempDir(), "--set", "advertised.listeners=PLAINTEXT://0.0.0.0:9092")
	assertServes(t, b)
}

// An IPv6 listener, and an ephemeral directory that is gone afterwards.
func TestIPv6AndEphemeral(t *testing.T) {
	l, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Skipf("no IPv6: %v", err)
	}
	l.Close()
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	code, out := runUntilExit(t, time.Second, "--ephemeral", "--listen", "[::1]:0")
	if code != -1 || !strings.Contains(out, `"address":"[::1]:`) || !strings.Contains(out, `"advertised":"[::1]:`) {
		t.Errorf("code %d:\n%s", code, out)
	}
	if left := entries(t, tmp); len(left) != 0 {
		for _, name := range left {
			if strings.HasPrefix(name, "grete-") {
				t.Errorf("left behind: %q", left)
			}
		}
	}
}
