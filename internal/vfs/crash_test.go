package vfs

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"strings"
	"syscall"
	"testing"
)

func rng(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

func TestCrashKeepsWhatWasSynced(t *testing.T) {
	m := newMemWithDir(t)
	must(t, m.SyncDir("/"))
	f := create(t, m, "/d/f", strings.Repeat("s", 10_000))
	must(t, f.Sync())
	must(t, m.SyncDir("/d"))
	if _, err := f.WriteAt([]byte(strings.Repeat("u", 10_000)), 10_000); err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(200) {
		got := content(t, m.CrashClone(rng(seed), 50), "/d/f")
		if len(got) < 10_000 || got[:8192] != strings.Repeat("s", 8192) {
			t.Fatalf("seed %d lost synced data: %d bytes", seed, len(got))
		}
		if strings.Trim(got[8192:10_000], "s") != "" {
			t.Fatalf("seed %d changed synced bytes in a page half synced", seed)
		}
		if strings.Trim(got[10_000:], "u\x00") != "" {
			t.Fatalf("seed %d invented data", seed)
		}
	}
	if got := content(t, m.CrashClone(rng(1), 0), "/d/f"); strings.Trim(strings.TrimRight(got, "\x00"), "s") != "" {
		t.Fatal("keepPercent 0 kept unsynced data")
	}
	if got := content(t, m.CrashClone(rng(1), 100), "/d/f"); got != content(t, m, "/d/f") {
		t.Fatal("keepPercent 100 is not the whole")
	}
}

// TestCrashShowsEveryOutcome is the generator's own test: each kind of damage must occur among a few hundred clones.
func TestCrashShowsEveryOutcome(t *testing.T) {
	m := newMemWithDir(t)
	must(t, m.SyncDir("/"))
	f := create(t, m, "/d/f", "")
	must(t, f.Sync())
	must(t, m.SyncDir("/d"))
	if _, err := f.WriteAt(bytes.Repeat([]byte("u"), 3*memPageBytes), 0); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for seed := range uint64(400) {
		got := content(t, m.CrashClone(rng(seed), 50), "/d/f")
		switch {
		case got == "":
			seen["nothing"] = true
		case len(got) == 3*memPageBytes && !strings.Contains(got, "\x00"):
			seen["all"] = true
		case strings.HasPrefix(got, "\x00") && strings.HasSuffix(got, "u"):
			seen["out of order"] = true
		case strings.Trim(got, "\x00") == "":
			seen["zeros"] = true
		case len(got)%memPageBytes != 0:
			seen["odd size"] = true
		case strings.TrimRight(got, "\x00") != got && len(strings.TrimRight(got, "\x00"))%memPageBytes != 0:
			seen["torn page"] = true
		}
	}
	for _, want := range []string{"nothing", "all", "out of order", "zeros", "odd size", "torn page"} {
		if !seen[want] {
			t.Errorf("never saw %s", want)
		}
	}
}

func TestCrashNames(t *testing.T) {
	m := newMemWithDir(t)
	must(t, m.SyncDir("/"))
	must(t, create(t, m, "/d/old", "old").Close())
	must(t, m.SyncDir("/d"))
	// The classic mistake: neither the data nor the name of the replacement was synced.
	must(t, create(t, m, "/d/tmp", "new").Close())
	must(t, m.Rename("/d/tmp", "/d/old"))
	outcomes := map[string]bool{}
	for seed := range uint64(200) {
		c := m.CrashClone(rng(seed), 50)
		old, tmp := content(t, c, "/d/old"), content(t, c, "/d/tmp")
		outcomes[strings.TrimRight(old, "\x00")+","+strings.TrimRight(tmp, "\x00")] = true
		if old == "<absent>" {
			t.Fatalf("seed %d: a rename is atomic, the old name cannot vanish", seed)
		}
	}
	for _, want := range []string{"old,<absent>", "new,<absent>", "old,new", ",<absent>"} {
		if !outcomes[want] {
			t.Errorf("never saw old,tmp = %q among %v", want, outcomes)
		}
	}
	must(t, m.SyncDir("/d"))
	if got := content(t, m.CrashClone(rng(1), 0), "/d/tmp"); got != "<absent>" {
		t.Fatalf("a synced rename was undone: %q", got)
	}
}

func TestCrashUndoesTruncation(t *testing.T) {
	m := newMemWithDir(t)
	must(t, m.SyncDir("/"))
	f := create(t, m, "/d/f", strings.Repeat("a", 9000))
	must(t, f.Sync())
	must(t, m.SyncDir("/d"))
	must(t, f.Truncate(10))
	for seed := range uint64(100) {
		got := content(t, m.CrashClone(rng(seed), 0), "/d/f")
		if len(got) < 10 || strings.Trim(got, "a") != "" {
			t.Fatalf("seed %d: %d bytes, not a prefix of the synced data", seed, len(got))
		}
	}
}

func TestMemCapacity(t *testing.T) {
	m := newMemWithDir(t)
	m.SetCapacity(100)
	f := create(t, m, "/d/f", strings.Repeat("x", 80))
	if n, err := f.WriteAt(make([]byte, 30), 80); n != 20 || !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("write past the volume's end: %d, %v", n, err)
	}
	if _, err := f.WriteAt(make([]byte, 30), 0); err != nil {
		t.Fatalf("overwriting needs no room: %v", err)
	}
	must(t, m.Remove("/d/f"))
	if _, usable, _ := m.Usage("/d"); usable != 0 {
		t.Fatalf("an open file keeps its space: %d", usable)
	}
	must(t, f.Close())
	if _, usable, _ := m.Usage("/d"); usable != 100 {
		t.Fatalf("usable %d", usable)
	}
	if _, err := m.OpenFile("/d/f", os.O_RDONLY, 0); err == nil {
		t.Fatal("opened a removed file")
	}
}
