package vfs

import (
	"errors"
	"math/rand/v2"
	"os"
	"syscall"
	"testing"
)

// What a volume's sync covers survives a crash, names included; what comes after does not count.
func TestVolumeSync(t *testing.T) {
	m := NewMem()
	disk := NewFaulty(m)
	must(t, disk.MkdirAll("/d/e", 0o755))
	f, err := disk.OpenFile("/d/e/f", os.O_RDWR|os.O_CREATE, 0o644)
	must(t, err)
	_, err = f.WriteAt([]byte("kept"), 0)
	must(t, err)
	v, err := OpenVolume(disk, "/d")
	must(t, err)
	disk.Inject(FailMatching(func(o Op) bool { return o.Kind == OpSync && o.Name == "/d" }, syscall.EIO))
	if err := v.Sync(); !errors.Is(err, syscall.EIO) {
		t.Errorf("a failed sync: %v", err)
	}
	disk.Inject(nil)
	must(t, v.Sync())
	for seed := range uint64(20) {
		clone := m.CrashClone(rand.New(rand.NewPCG(seed, 0)), 50)
		text, err := ReadFile(clone, "/d/e/f", 100)
		if err != nil || string(text) != "kept" {
			t.Fatalf("seed %d: %q, %v", seed, text, err)
		}
	}
	must(t, v.Close())
}

// The machine's own volume is synced, or there is none.
func TestVolumeOfTheMachine(t *testing.T) {
	v, err := OpenVolume(OS, t.TempDir())
	must(t, err)
	if v == nil {
		t.Skip("the file system of the tests' directory is not one of those")
	}
	must(t, v.Sync())
	must(t, v.Close())
}
