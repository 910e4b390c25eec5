package main

import (
	"io"
	"math"
	"runtime/debug"
	"testing"

	"grete/internal/vfs"
)

func TestPaceFitsWhatIsLive(t *testing.T) {
	for _, c := range []struct {
		live int64
		want int
	}{{0, gcMost}, {20 * mib, gcMost}, {100 * mib, 275}, {256 * mib, 100}, {4096 * mib, gcLeast}} {
		if got := gcPercent(256*mib, c.live); got != c.want {
			t.Errorf("%d bytes are live: %d %%, want %d", c.live, got, c.want)
		}
	}
}

// A control group's limit is the ledger's, and nine tenths of it the runtime's, unless GOMEMLIMIT is set.
func TestLedgerOfTheProcess(t *testing.T) {
	before := debug.SetMemoryLimit(math.MaxInt64)
	defer debug.SetMemoryLimit(before)
	files := vfs.NewMem()
	for name, text := range map[string]string{
		"proc/self/cgroup": "0::/\n", "proc/self/mountinfo": "35 31 0:32 / /sys rw - cgroup2 cgroup rw\n", "sys/memory.max": "1000000000\n",
	} {
		writeFile(t, files, name, text)
	}
	if l := openLedger(files, []string{"GOMEMLIMIT=1TiB"}, 0); l.LimitBytes() != 1_000_000_000 || debug.SetMemoryLimit(-1) != math.MaxInt64 {
		t.Errorf("ledger of %d, the runtime's limit %d", l.LimitBytes(), debug.SetMemoryLimit(-1))
	}
	if l := openLedger(files, nil, 5000); l.LimitBytes() != 1_000_000_000 || debug.SetMemoryLimit(-1) != 900_000_000 || l.Requests.ShareBytes() != 5000 {
		t.Errorf("ledger of %d, the runtime's limit %d, requests %d", l.LimitBytes(), debug.SetMemoryLimit(-1), l.Requests.ShareBytes())
	}
}

func writeFile(t *testing.T, files vfs.FS, name, text string) {
	t.Helper()
	for _, dir := range []string{"proc/self", "sys"} {
		if err := files.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := vfs.WriteFile(files, name, false, func(w io.Writer) error { _, err := io.WriteString(w, text); return err }); err != nil {
		t.Fatal(err)
	}
}
