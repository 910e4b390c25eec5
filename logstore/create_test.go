package logstore

import (
	"fmt"
	"syscall"
	"testing"

	"grete/internal/vfs"
)

func manyLogs(count int) (wanted []NewLog) {
	for i := range count {
		wanted = append(wanted, NewLog{ID: ID{"many", int32(i)}, TopicID: [16]byte{1}, Config: testConfig()})
	}
	return wanted
}

// Many logs made at once are spread over the directories, and are there after a restart; those that exist stay as they
// are.
func TestCreateAll(t *testing.T) {
	fs := vfs.NewMem()
	o := testOptions(fs)
	o.Dirs = []string{"/a", "/b", "/c"}
	s := openTest(t, o)
	old, err := s.Create(ID{"many", 7}, [16]byte{1}, testConfig())
	must(t, err)
	appendTest(t, old, plain(t, 3, 10, 1))
	s.CreateAll(manyLogs(60))
	for round := range 2 {
		perDir := map[string]int{}
		for _, l := range s.Logs() {
			perDir[l.Dir()]++
		}
		if fmt.Sprint(perDir) != "map[/a:20 /b:20 /c:20]" {
			t.Errorf("round %d: %v", round, perDir)
		}
		if l := s.Log(ID{"many", 7}); l.EndOffset() != 3 || s.Log(ID{"many", 59}).TopicID() != [16]byte{1} {
			t.Errorf("round %d: the log of before ends at %d", round, l.EndOffset())
		}
		must(t, s.Close())
		s = openTest(t, o)
	}
	must(t, s.Close())
}

// What cannot be made for want of space is made later; an error of the disk takes the directory offline.
func TestCreateAllFails(t *testing.T) {
	faulty := vfs.NewFaulty(vfs.NewMem())
	s := openTest(t, testOptions(faulty))
	defer s.Close()
	fail := func(with error) {
		faulty.Inject(func(op vfs.Op) error {
			if op.Kind == vfs.OpMkdirAll {
				return with
			}
			return nil
		})
	}
	fail(syscall.ENOSPC)
	s.CreateAll(manyLogs(3))
	if len(s.Logs()) != 0 || s.Dirs()[0].Offline != nil {
		t.Fatalf("%d logs, %v", len(s.Logs()), s.Dirs()[0].Offline)
	}
	fail(nil)
	s.CreateAll(manyLogs(3))
	if len(s.Logs()) != 3 {
		t.Fatalf("%d logs", len(s.Logs()))
	}
	fail(syscall.EIO)
	s.CreateAll(manyLogs(5))
	if s.Dirs()[0].Offline == nil {
		t.Error("the directory serves on")
	}
	faulty.Inject(nil)
}
