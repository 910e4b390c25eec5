package logstore

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"grete/internal/uuid"
	"grete/internal/vfs"
	"grete/protocol/batch"
)

var partitionDir = path.Join(testDir, testID.String())

func segmentFile(base int64, suffix string) string {
	return path.Join(partitionDir, fileName(base, suffix))
}

// written is a closed log of n batches of two records in one segment or more.
func written(t *testing.T, n int, c Config) (*vfs.Mem, []batch.Batch) {
	t.Helper()
	mem := vfs.NewMem()
	s := openTest(t, testOptions(mem))
	l := createTest(t, s, c)
	var batches []batch.Batch
	for i := range n {
		b := plain(t, 2, 60, int64(1000+i))
		appendTest(t, l, b)
		batches = append(batches, b)
	}
	must(t, s.Close())
	return mem, batches
}

func makeUnclean(t *testing.T, fs vfs.FS) {
	t.Helper()
	for _, name := range []string{cleanShutdownFile, recoveryPointFile} {
		must(t, removeIfExists(fs, path.Join(testDir, name)))
	}
}

// TestLastBatchCutAtEveryByte: the log ends with the last whole batch, whatever is left of the next.
func TestLastBatchCutAtEveryByte(t *testing.T) {
	mem, batches := written(t, 4, testConfig())
	whole, err := readFile(mem, segmentFile(0, logSuffix))
	must(t, err)
	last := len(whole) - len(batches[3])
	for size := last; size < len(whole); size++ {
		for _, zeros := range []int{0, 200} {
			must(t, writeFile(mem, segmentFile(0, logSuffix), append(bytes.Clone(whole[:size]), make([]byte, zeros)...), true))
			makeUnclean(t, mem)
			s := openTest(t, testOptions(mem))
			want := int64(6)
			if zeros > 0 && len(bytes.Trim(whole[size:], "\x00")) == 0 {
				want = 8 // zeros are what was lost
			}
			if got := s.Log(testID).EndOffset(); got != want {
				t.Fatalf("cut at byte %d of the last batch (%d zeros follow): end %d", size-last, zeros, got)
			}
			must(t, s.Close())
		}
	}
}

// TestEveryFlippedByteIsFound: above the recovery point no bit may change unnoticed but in what the checksum does
// not cover.
func TestEveryFlippedByteIsFound(t *testing.T) {
	mem, batches := written(t, 3, testConfig())
	whole, err := readFile(mem, segmentFile(0, logSuffix))
	must(t, err)
	begin := len(batches[0])
	for at := begin; at < begin+len(batches[1]); at++ {
		if at-begin >= 12 && at-begin < 16 {
			continue // leader epoch
		}
		garbled := bytes.Clone(whole)
		garbled[at] ^= 0x10
		must(t, writeFile(mem, segmentFile(0, logSuffix), garbled, true))
		makeUnclean(t, mem)
		s := openTest(t, testOptions(mem))
		if got := s.Log(testID).EndOffset(); got != 2 {
			t.Fatalf("byte %d of the second batch flipped: end %d", at-begin, got)
		}
		must(t, s.Close())
	}
}

func TestDamageBelowRecoveryPointIsToldAndKept(t *testing.T) {
	mem, batches := written(t, 5, testConfig())
	whole, err := readFile(mem, segmentFile(0, logSuffix))
	must(t, err)
	at := len(batches[0]) + len(batches[1])
	whole[at+8] = 0xff // a length that no batch has
	must(t, writeFile(mem, segmentFile(0, logSuffix), whole, true))
	must(t, mem.Remove(path.Join(testDir, cleanShutdownFile))) // the recovery point stays
	var told bytes.Buffer
	o := testOptions(mem)
	o.Log = zerolog.New(&told)
	s := openTest(t, o)
	if got := s.Log(testID).EndOffset(); got != 4 {
		t.Fatalf("end %d", got)
	}
	if !strings.Contains(told.String(), `"level":"error"`) || !strings.Contains(told.String(), "synced records are lost") {
		t.Fatalf("nothing was told: %s", &told)
	}
	aside, err := readFile(mem, segmentFile(0, logSuffix)+damagedSuffix)
	if err != nil || !bytes.Equal(aside, whole[at:]) {
		t.Fatalf("the bytes behind the damage were not kept: %d, %v", len(aside), err)
	}
	must(t, s.Close())
}

// TestDamagedSegmentIsNotServed: a batch header that makes no sense ends a read with ErrCorrupt.
func TestDamagedSegmentIsNotServed(t *testing.T) {
	mem, batches := written(t, 5, testConfig())
	f, err := mem.OpenFile(segmentFile(0, logSuffix), os.O_RDWR, 0)
	must(t, err)
	_, err = f.WriteAt([]byte{0xff}, int64(len(batches[0])+8))
	must(t, err)
	must(t, f.Close())
	s := openTest(t, testOptions(mem))
	l := s.Log(testID)
	if _, err := tryReadBatches(l, l.StartOffset(), 10); l.EndOffset() > 2 && err == nil {
		t.Fatalf("damage was served, end %d", l.EndOffset())
	}
	must(t, s.Close())
}

func TestRecoveryCutsAtAHole(t *testing.T) {
	c := testConfig()
	c.SegmentBytes = 500
	mem, _ := written(t, 12, c)
	makeUnclean(t, mem)
	l := reopened(t, mem)
	second := l.segments()[1].base
	must(t, l.store.Close())
	makeUnclean(t, mem)
	must(t, writeFile(mem, path.Join(testDir, recoveryPointFile), []byte("0\n0\n"), true)) // where it is lost, nothing is concluded
	must(t, mem.Remove(segmentFile(second, logSuffix)))
	l = reopened(t, mem)
	if l.EndOffset() != second {
		t.Fatalf("end %d, want %d", l.EndOffset(), second)
	}
	must(t, l.store.Close())
}

// TestGapsOfACompactedLeaderSurviveAKill: what a follower copies of a compacted log has gaps that its own cleaner did
// not make, and when it starts nobody knows what topic it is. A kill must not cut its log there.
func TestGapsOfACompactedLeaderSurviveAKill(t *testing.T) {
	mem := vfs.NewMem()
	s := openTest(t, testOptions(mem))
	c := compactConfig()
	c.SegmentBytes = 500
	l := createTest(t, s, c)
	offset := int64(0)
	for i := range 20 {
		b := plain(t, 2, 60, int64(1000+i))
		b.SetBaseOffset(offset)
		b.SetPartitionLeaderEpoch(0)
		must(t, l.AppendAsFollower(b))
		offset = b.LastOffset() + 1 + int64(i%3)*7
	}
	end, batches := l.EndOffset(), len(readBatches(t, l, 0, l.EndOffset()))
	killed := mem.CrashClone(rand.New(rand.NewPCG(1, 1)), 100)
	must(t, s.Close())
	l = reopened(t, killed) // with the configuration of no topic
	if got := len(readBatches(t, l, 0, l.EndOffset())); l.EndOffset() != end || got != batches {
		t.Fatalf("%d batches up to %d, want %d up to %d", got, l.EndOffset(), batches, end)
	}
	must(t, l.store.Close())
}

func reopened(t *testing.T, fs vfs.FS) *Log {
	t.Helper()
	l := openTest(t, testOptions(fs)).Log(testID)
	if l == nil {
		t.Fatal("log is gone")
	}
	return l
}

// TestInterruptedSwap: a .swap segment takes the place of the segments it covers; .cleaned and .deleted files go.
func TestInterruptedSwap(t *testing.T) {
	c := testConfig()
	c.SegmentBytes = 500
	mem, _ := written(t, 8, c)
	l := reopened(t, mem)
	bases, end := l.bases(), l.EndOffset()
	must(t, l.store.Close())
	compacted := readBatchesOf(t, mem, bases[1])[1] // one batch is left of the second and third segment
	must(t, writeFile(mem, segmentFile(bases[1], logSuffix+swapSuffix), compacted, true))
	must(t, writeFile(mem, segmentFile(bases[0], logSuffix+deletedSuffix), []byte("x"), true))
	o := testOptions(mem)
	o.Defaults.Compact = true
	s := openTest(t, o)
	l = s.Log(testID)
	if l.EndOffset() != end || len(readBatches(t, l, bases[1], bases[2])) != 1 {
		t.Fatalf("end %d, want %d; %d batches", l.EndOffset(), end, len(readBatches(t, l, bases[1], bases[2])))
	}
	if there, _ := exists(mem, segmentFile(bases[0], logSuffix+deletedSuffix)); there {
		t.Fatal("a .deleted file was left")
	}
	must(t, s.Close())
	must(t, writeFile(mem, segmentFile(bases[0], logSuffix+cleanedSuffix), []byte("x"), true))
	must(t, writeFile(mem, segmentFile(bases[1], logSuffix+swapSuffix), []byte("x"), true))
	s = openTest(t, o)
	if got := s.Log(testID).EndOffset(); got != end {
		t.Fatalf("end %d, want %d", got, end)
	}
	for _, name := range []string{segmentFile(bases[0], logSuffix+cleanedSuffix), segmentFile(bases[1], logSuffix+swapSuffix)} {
		if there, _ := exists(mem, name); there {
			t.Fatalf("%s was left", name)
		}
	}
	must(t, s.Close())
}

func readBatchesOf(t *testing.T, fs vfs.FS, base int64) []batch.Batch {
	t.Helper()
	raw, err := readFile(fs, segmentFile(base, logSuffix))
	must(t, err)
	var batches []batch.Batch
	for len(raw) > 0 {
		b, rest, err := batch.Next(raw)
		must(t, err)
		batches, raw = append(batches, b), rest
	}
	return batches
}

func TestDirectorySuffixes(t *testing.T) {
	mem, _ := written(t, 2, testConfig())
	for _, name := range []string{"t-0.0123-delete", "t-1.0123-future", "t-2.0123-stray", "lost+found"} {
		must(t, mem.MkdirAll(path.Join(testDir, name), 0o755))
	}
	s := openTest(t, testOptions(mem))
	if n := len(s.Logs()); n != 1 {
		t.Fatalf("%d logs", n)
	}
	for name, want := range map[string]bool{"t-0.0123-delete": false, "t-1.0123-future": true, "t-2.0123-stray": true, "lost+found": true} {
		if there, err := exists(mem, path.Join(testDir, name)); err != nil || there != want {
			t.Errorf("%s: %v, %v", name, there, err)
		}
	}
	must(t, s.Close())
}

// TestRebuiltFromNothing takes away each derived file in turn; a retry of the last batch is still recognised.
func TestRebuiltFromNothing(t *testing.T) {
	for _, ruin := range []string{"remove", "empty", "garble"} {
		mem := vfs.NewMem()
		s := openTest(t, testOptions(mem))
		c := testConfig()
		c.SegmentBytes = 700
		l := createTest(t, s, c)
		for i := range 12 {
			must2(t)(l.Append(producing{pid: 7, seq: int32(2 * i), count: 2, ms: int64(100 * i)}.at(t, 0), int32(i/4)))
		}
		want := answers(t, l)
		must(t, s.Close())
		ruinDerived(t, mem, ruin)
		l = reopened(t, mem)
		if got := answers(t, l); got != want {
			t.Errorf("%s: answers %+v, want %+v", ruin, got, want)
		}
		info, err := l.Append(producing{pid: 7, seq: 22, count: 2, ms: 1}.at(t, 0), 3)
		if err != nil || !info.Duplicate || info.BaseOffset != 22 {
			t.Errorf("%s: the last batch again: %+v, %v", ruin, info, err)
		}
		must(t, l.store.Close())
	}
}

func must2(t *testing.T) func(AppendInfo, error) {
	return func(_ AppendInfo, err error) { t.Helper(); must(t, err) }
}

type answered struct {
	byTime, newest TimestampOffset
	epochEnd       int64
	epochAt        int32
	batches        int
}

func answers(t *testing.T, l *Log) (a answered) {
	t.Helper()
	var err error
	a.byTime, err = l.OffsetForTimestamp(550)
	must(t, err)
	a.newest, err = l.MaxTimestampOffset()
	must(t, err)
	_, a.epochEnd = l.EpochEnd(1)
	a.epochAt = l.EpochAt(9)
	a.batches = len(readBatches(t, l, 0, l.EndOffset()))
	return a
}

func ruinDerived(t *testing.T, fs vfs.FS, how string) {
	t.Helper()
	entries, err := fs.ReadDir(partitionDir)
	must(t, err)
	for _, e := range entries {
		name := path.Join(partitionDir, e.Name())
		if strings.HasSuffix(name, logSuffix) {
			continue
		}
		switch how {
		case "remove":
			must(t, fs.Remove(name))
		case "empty":
			must(t, writeFile(fs, name, nil, true))
		case "garble":
			must(t, writeFile(fs, name, bytes.Repeat([]byte{0xa5, 0x5a, 3}, 40), true))
		}
	}
}

func TestTxnIndexIsFoundAgain(t *testing.T) {
	for _, ruin := range []string{"remove", "empty", "garble"} {
		mem := vfs.NewMem()
		s := openTest(t, testOptions(mem))
		c := testConfig()
		c.SegmentBytes = 700
		l := createTest(t, s, c)
		for i := range 12 {
			must2(t)(l.Append(producing{pid: 7, seq: int32(i), count: 1, txn: true, ms: 5}.at(t, 0), 0))
			must2(t)(l.Append(marker(t, 0, 7, 0, i%2 == 0, 0), 0))
		}
		l.SetHighWatermark(l.EndOffset())
		want := aborted(t, l)
		if len(want) == 0 || l.LastStableOffset() != l.EndOffset() {
			t.Fatalf("%d aborted, stable below %d", len(want), l.LastStableOffset())
		}
		must(t, s.Close())
		ruinDerived(t, mem, ruin)
		l = reopened(t, mem)
		if got := aborted(t, l); len(got) != len(want) {
			t.Errorf("%s: %v, want %v", ruin, got, want)
		}
		must(t, l.store.Close())
	}
}

// TestGarbledIndexHidesNoAbortedTransaction: the index file passes what is looked at when it is loaded, for most of its
// entries are never read; what bounds the aborted transactions of a fetch is.
func TestGarbledIndexHidesNoAbortedTransaction(t *testing.T) {
	mem := vfs.NewMem()
	s := openTest(t, testOptions(mem))
	c := testConfig()
	c.SegmentBytes, c.IndexIntervalBytes = 1<<20, 1
	l := createTest(t, s, c)
	for i := range 20 {
		must2(t)(l.Append(producing{pid: 7, seq: int32(i), count: 1, txn: true, ms: 5}.at(t, 0), 0))
		must2(t)(l.Append(marker(t, 0, 7, 0, i != 15, 0), 0))
	}
	l.SetHighWatermark(l.EndOffset())
	index := l.active().path(indexSuffix)
	must(t, s.Close())
	data, err := readFile(mem, index)
	must(t, err)
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 0))
		for i := range data {
			data[i] = byte(rng.Uint32())
		}
		must(t, writeFile(mem, index, data, true))
		l := reopened(t, mem)
		span, err := l.Read(0, ReadOptions{MaxBytes: 1 << 20, Bound: l.EndOffset(), Aborted: true})
		must(t, err)
		span.Release()
		if len(span.AbortedTxns) != 1 {
			t.Errorf("seed %d: %v", seed, span.AbortedTxns)
		}
		must(t, l.store.Close())
	}
}

func aborted(t *testing.T, l *Log) (all []AbortedTxn) {
	t.Helper()
	for _, base := range l.bases() {
		if base == l.EndOffset() {
			continue
		}
		span, err := l.Read(base, ReadOptions{MaxBytes: 1 << 20, Bound: l.EndOffset(), Aborted: true})
		must(t, err)
		span.Release()
		all = append(all, span.AbortedTxns...)
	}
	return all
}

func TestMetaProperties(t *testing.T) {
	mem := vfs.NewMem()
	random := func(p []byte) { copy(p, "0123456789abcdef") }
	id, err := PrepareDirs(mem, []string{"/a", "/b"}, MetaProperties{NodeID: 3}, random, nil)
	must(t, err)
	again, err := PrepareDirs(mem, []string{"/a", "/b"}, MetaProperties{NodeID: 3}, random, nil)
	if err != nil || again != id {
		t.Fatalf("cluster %q became %q, %v", id, again, err)
	}
	a, err := ReadMetaProperties(mem, "/a")
	must(t, err)
	if a.DirectoryID == ([16]byte{}) || a.NodeID != 3 || a.ClusterID != id {
		t.Fatalf("%+v", a)
	}
	if _, err := PrepareDirs(mem, []string{"/a", "/b"}, MetaProperties{NodeID: 4}, random, nil); !errors.Is(err, ErrMetaProperties) {
		t.Fatalf("another node's directory: %v", err)
	}
	if _, err := PrepareDirs(mem, []string{"/a"}, MetaProperties{NodeID: 3, ClusterID: "other"}, random, nil); !errors.Is(err, ErrMetaProperties) {
		t.Fatalf("another cluster's directory: %v", err)
	}
	must(t, writeFile(mem, "/b/"+MetaPropertiesFile, []byte("garbage"), true))
	if _, err := PrepareDirs(mem, []string{"/b"}, MetaProperties{NodeID: 3}, random, nil); !errors.Is(err, ErrCorrupt) {
		t.Fatalf("garbled file: %v", err)
	}
	golden, err := ReadMetaProperties(goldenFS(t), testDir)
	if err != nil || golden.NodeID != 1 || golden.ClusterID != "xuvXomW0TTyhvkl85SqkeA" || uuid.UUID(golden.DirectoryID).String() != "GCtX80NfRdyna2YKZFyhjQ" {
		t.Fatalf("Kafka's file: %+v, %v", golden, err)
	}
}

// TestCleanStopMakesMissingIndexes: a log that nobody wrote to since its index vanished, and whose start has moved,
// still closes cleanly.
func TestCleanStopMakesMissingIndexes(t *testing.T) {
	c := testConfig()
	c.SegmentBytes = 1 << 20
	mem, _ := written(t, 8, c)
	for _, suffix := range []string{indexSuffix, timeIndexSuffix} {
		must(t, mem.Remove(segmentFile(0, suffix)))
	}
	l := reopened(t, mem)
	l.SetHighWatermark(l.EndOffset())
	must(t, l.AdvanceStart(3))
	must(t, l.store.Close())
	for _, name := range []string{segmentFile(0, indexSuffix), segmentFile(0, timeIndexSuffix), testDir + "/" + cleanShutdownFile} {
		if there, err := exists(mem, name); err != nil || !there {
			t.Errorf("%s: %v, %v", name, there, err)
		}
	}
	must(t, reopened(t, mem).store.Close())
}

// TestRecoveryForgetsDeletedProducers: batches below the log start say nothing of producers, though they are still in
// the segment that recovery walks.
func TestRecoveryForgetsDeletedProducers(t *testing.T) {
	mem := vfs.NewMem()
	s := openTest(t, testOptions(mem))
	l := createTest(t, s, testConfig())
	must2(t)(l.Append(producing{pid: 7, count: 1}.at(t, 0), 0))
	must2(t)(l.Append(producing{pid: 8, count: 1}.at(t, 0), 0))
	l.SetHighWatermark(2)
	must(t, l.AdvanceStart(1))
	must(t, s.Close())
	must(t, mem.Remove(segmentFile(2, snapshotSuffix)))
	makeUnclean(t, mem)
	l = reopened(t, mem)
	if p := l.producers.producers; p[7] != nil || p[8] == nil {
		t.Errorf("producers %v", p)
	}
	must(t, l.store.Close())
}
