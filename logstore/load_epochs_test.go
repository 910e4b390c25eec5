package logstore

import (
	"math/rand/v2"
	"path"
	"strings"
	"testing"

	"grete/internal/vfs"
)

// A leader epoch checkpoint that can be read, and is not the log's, is rebuilt: a follower that names an epoch that
// never was would be refused by its leader for ever.
func TestWrongEpochsAreRebuilt(t *testing.T) {
	mem, _ := written(t, 8, testConfig())
	l := reopened(t, mem)
	want, epoch := l.EndOffset(), l.LatestEpoch()
	must(t, l.store.Close())
	name := path.Join(testDir, testID.String(), leaderEpochFile)
	right, err := readFile(mem, name)
	must(t, err)
	for _, wrong := range []string{"0\n2\n0 0\n999 5\n", "0\n2\n0 0\n7 1\n", "0\n2\n0 0\n7 15\n", "0\n1\n999 0\n", "0\n0\n", string(right)} {
		must(t, writeFile(mem, name, []byte(wrong), true))
		l := reopened(t, mem)
		if l.EndOffset() != want || l.LatestEpoch() != epoch || l.EpochAt(want-1) != epoch || l.EpochAt(0) != 0 {
			t.Errorf("%q: end %d, latest epoch %d, of the last record %d, of the first %d", wrong, l.EndOffset(), l.LatestEpoch(), l.EpochAt(want-1), l.EpochAt(0))
		}
		must(t, l.store.Close())
		if got, err := readFile(mem, name); err != nil || string(got) != string(right) {
			t.Errorf("%q: %q is on disk, want %q; %v", wrong, got, right, err)
		}
	}
}

// A stop touches no file of a log to which leaders came and went, and nobody wrote: a cluster that stops moves every
// leader, and each move is an epoch.
func TestEpochWithoutRecordsIsNotWritten(t *testing.T) {
	mem, _ := written(t, 3, testConfig())
	disk := vfs.NewFaulty(mem)
	l := reopened(t, disk)
	must(t, l.AssignEpoch(5))
	var touched []string
	disk.Inject(func(o vfs.Op) error {
		if strings.HasPrefix(o.Name, path.Join(testDir, testID.String())) && (o.Kind == vfs.OpWrite || o.Kind == vfs.OpSync || o.Kind == vfs.OpRename) {
			touched = append(touched, string(o.Kind)+" "+o.Name)
		}
		return nil
	})
	must(t, l.store.Close())
	if len(touched) > 0 {
		t.Errorf("the stop touched %q", touched)
	}
}

// The first record of an epoch that a flush left out of the checkpoint brings it in with the next flush: after a crash,
// and after a clean stop, the log knows the epoch.
func TestEpochIsWrittenWithItsFirstRecord(t *testing.T) {
	mem, _ := written(t, 3, testConfig())
	l := reopened(t, mem)
	must(t, l.AssignEpoch(5))
	must(t, l.flushNow())
	start := l.EndOffset()
	for i := range 40 { // several segments: the recovery point passes the first record
		_, err := l.AppendWith(plain(t, 2, 60, int64(i)), 5, AppendOptions{})
		must(t, err)
	}
	must(t, l.flushNow())
	must(t, l.dir.writeCheckpoints())
	crashed := mem.CrashClone(rand.New(rand.NewPCG(1, 0)), 50)
	must(t, l.store.Close())
	for _, fs := range []vfs.FS{crashed, mem} {
		l := reopened(t, fs)
		if l.EpochAt(start) != 5 || l.EpochAt(start-1) != 0 || l.LatestEpoch() != 5 {
			t.Errorf("epochs %+v, want 5 from %d on", l.epochs.all(), start)
		}
		must(t, l.store.Close())
	}
}
