package vfs

import (
	"errors"
	"io"
	"math/rand/v2"
	"syscall"
	"testing"
)

func text(s string) func(io.Writer) error {
	return func(w io.Writer) error { _, err := io.WriteString(w, s); return err }
}

func mustRead(t *testing.T, fs FS, name string) string {
	t.Helper()
	data, err := ReadFile(fs, name, 100)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// Whatever operation fails, and wherever the power goes, there is the old content or the new.
func TestReplaceFileIsAtomic(t *testing.T) {
	for n := int64(1); ; n++ {
		mem := NewMem()
		if err := ReplaceFile(mem, "/f", ".tmp", text("old")); err != nil {
			t.Fatal(err)
		}
		faulty := NewFaulty(mem)
		faulty.Inject(FailNth(n, syscall.EIO))
		err := ReplaceFile(faulty, "/f", ".tmp", text("the new"))
		for seed := range uint64(20) {
			clone := mem.CrashClone(rand.New(rand.NewPCG(seed, 1)), 50)
			if got := mustRead(t, clone, "/f"); got != "old" && got != "the new" || err == nil && got == "old" {
				t.Fatalf("operation %d fails with %v, and the file holds %q", n, err, got)
			}
		}
		if err == nil {
			if n < 5 {
				t.Errorf("only %d operations", n)
			}
			return
		}
		if !errors.Is(err, syscall.EIO) {
			t.Fatal(err)
		}
	}
}

func TestReadFileIsBounded(t *testing.T) {
	mem := NewMem()
	if err := WriteFile(mem, "/f", false, text("12345")); err != nil {
		t.Fatal(err)
	}
	if data, err := ReadFile(mem, "/f", 5); err != nil || string(data) != "12345" {
		t.Errorf("%q, %v", data, err)
	}
	if _, err := ReadFile(mem, "/f", 4); !errors.Is(err, ErrTooLarge) {
		t.Error(err)
	}
	if err := WriteFile(mem, "/f", false, text("1")); err != nil || mustRead(t, mem, "/f") != "1" {
		t.Errorf("%q, %v", mustRead(t, mem, "/f"), err)
	}
}
