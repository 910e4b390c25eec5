package logstore

import (
	"strings"
	"testing"

	"grete/internal/vfs"
)

// A log that is set aside keeps its bytes, makes room for another of its name, and is not loaded again.
func TestSetAside(t *testing.T) {
	fs := vfs.NewMem()
	s := openTest(t, testOptions(fs))
	defer s.Close()
	id := ID{Topic: "t", Partition: 2}
	l, err := s.Create(id, [16]byte{1}, testConfig())
	must(t, err)
	appendTest(t, l, plain(t, 1, 10, 1000))
	must(t, s.SetAside(id))
	must(t, s.SetAside(id)) // nothing there: nothing to do
	if s.Log(id) != nil {
		t.Fatal("the log is still in the store")
	}
	again, err := s.Create(id, [16]byte{2}, testConfig())
	must(t, err)
	if again.EndOffset() != 0 {
		t.Errorf("the new log begins at %d", again.EndOffset())
	}
	entries, err := fs.ReadDir(testDir)
	must(t, err)
	aside := ""
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "t-2.") && strings.HasSuffix(e.Name(), "-stray") {
			aside = e.Name()
		}
	}
	info, err := fs.Stat(testDir + "/" + aside + "/00000000000000000000.log")
	if aside == "" || err != nil || info.Size() == 0 {
		t.Errorf("set aside as %q: %v", aside, err)
	}
}
