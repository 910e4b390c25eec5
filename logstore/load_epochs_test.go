package logstore

import (
	"path"
	"testing"
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
