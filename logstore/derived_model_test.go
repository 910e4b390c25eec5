package logstore

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"grete/internal/clock"
	"grete/internal/vfs"
	"grete/protocol/batch"
)

// derivedRun writes transactions over many segments, spoils files that are made again from the log, starts anew, and
// asks what a read_committed consumer sees from every offset.
type derivedRun struct {
	t     *testing.T
	rng   *rand.Rand
	mem   *vfs.Mem
	clock *clock.Manual
	cfg   Config
	store *Store
	log   *Log
	seqs  map[int64]int32
	epoch map[int64]int16
	open  map[int64][]int64 // base offsets of the batches of open transactions, by producer
	fate  map[int64]bool    // by base offset of a transaction's batch: aborted
	wrote []batch.Batch
	// compacted is where the log ended when it was compacted last: what was committed then is never cut.
	compacted int64
	old       map[string][]byte // files as they were some time
	told      []string          // what was done, for the failure
}

// TestDerivedFilesModel: whatever becomes of derived files, the aborted transactions of a read hide exactly the records
// that were aborted, from any offset and of any size (GRETE_LONG=1: many more runs).
func TestDerivedFilesModel(t *testing.T) {
	runs := 150
	if os.Getenv("GRETE_LONG") != "" {
		runs = 20_000
	}
	for seed := range runs {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { runDerived(t, uint64(seed)) })
	}
}

func runDerived(t *testing.T, seed uint64) {
	r := &derivedRun{t: t, rng: rand.New(rand.NewPCG(seed, 21)), mem: vfs.NewMem(), clock: clock.NewManual(time.UnixMilli(1_000_000)),
		old: map[string][]byte{}}
	r.forget()
	r.cfg = testConfig()
	if r.rng.IntN(3) == 0 {
		r.cfg = compactConfig()
	}
	r.cfg.SegmentBytes, r.cfg.IndexIntervalBytes = int32(600+r.rng.IntN(3000)), int32(r.rng.IntN(300))
	r.cfg.FileDeleteDelayMs = 0
	r.cfg.ProducerIDExpirationMs = int64(1000 + r.rng.IntN(3000))
	r.start()
	defer func() {
		if t.Failed() {
			t.Log(strings.Join(r.told, "\n"))
		}
	}()
	for range 4 {
		for range 60 {
			r.step()
		}
		r.check()
		r.spoil(r.stop())
		r.start()
		r.check()
	}
	must(t, r.store.Close())
}

func (r *derivedRun) tell(format string, a ...any) {
	r.told = append(r.told, fmt.Sprintf(format, a...))
}

func (r *derivedRun) start() {
	o := testOptions(r.mem)
	o.Clock, o.Defaults = r.clock, r.cfg
	s, err := Open(context.Background(), o)
	must(r.t, err)
	r.store = s
	if r.log = s.Log(testID); r.log == nil {
		r.log = createTest(r.t, s, r.cfg)
	}
	r.log.SetHighWatermark(r.log.EndOffset())
}

// stop is a clean one or a kill: then everything written is in the files.
func (r *derivedRun) stop() (killed bool) {
	if r.rng.IntN(2) == 0 {
		r.tell("clean stop")
		must(r.t, r.store.Close())
		return false
	}
	r.tell("kill at %d, recovery point %d", r.log.EndOffset(), r.log.recovery.Load())
	left := r.mem.CrashClone(r.rng, 100)
	must(r.t, r.store.Close())
	r.mem = left
	return true
}

func (r *derivedRun) step() {
	switch p := r.rng.IntN(100); {
	case p < 62:
		r.data()
	case p < 84:
		r.end(1 + int64(r.rng.IntN(4)))
	case p < 87:
		flushTest(r.t, r.log)
	case p < 90:
		rollTest(r.t, r.log)
	case p < 93:
		r.clock.Advance(time.Duration(r.rng.IntN(1500)) * time.Millisecond)
		r.log.expireProducers(r.log.nowMs())
	case p < 96:
		r.remember()
	case p < 97:
		r.truncate()
	case r.cfg.Compact:
		r.compacted = r.log.EndOffset()
		_, err := compactOnce(r.log)
		must(r.t, err)
	}
}

// truncate cuts the end, as a follower does.
func (r *derivedRun) truncate() {
	from := max(r.compacted, r.log.StartOffset())
	offset := from + r.rng.Int64N(r.log.EndOffset()-from+1)
	r.tell("truncated to %d of %d", offset, r.log.EndOffset())
	must(r.t, r.log.TruncateTo(offset))
	kept := slices.DeleteFunc(r.wrote, func(b batch.Batch) bool { return b.LastOffset() >= offset })
	r.forget()
	for _, b := range kept {
		r.note(b)
	}
}

func (r *derivedRun) forget() {
	r.wrote, r.seqs, r.epoch, r.open, r.fate = nil, map[int64]int32{}, map[int64]int16{}, map[int64][]int64{}, map[int64]bool{}
}

// data is of a transactional producer (1–4), an idempotent one (5–6) or nobody.
func (r *derivedRun) data() {
	pid := int64(r.rng.IntN(7))
	o := keyedOptions{pid: pid, epoch: r.epoch[pid], seq: r.seqs[pid], txn: pid < 5, ms: r.clock.Now().UnixMilli()}
	records := make([]keyed, 1+r.rng.IntN(3))
	for i := range records {
		records[i] = kv(fmt.Sprint("key", r.rng.IntN(30)), strings.Repeat("v", r.rng.IntN(80)))
	}
	r.append(keyedBatch(r.t, o, records...))
}

// end raises the producer's epoch, as KIP-890 wants it. It may end what was never begun, as a coordinator does whose
// partition got no data, and twice, as one does that came back.
func (r *derivedRun) end(pid int64) {
	if len(r.open[pid]) == 0 && r.rng.IntN(4) > 0 {
		return
	}
	commit, epoch := r.rng.IntN(2) == 0, r.epoch[pid]+1
	for range 1 + r.rng.IntN(5)/4 {
		r.append(markerAt(r.t, 0, pid, epoch, commit, 0, r.log.nowMs()))
	}
}

func (r *derivedRun) append(b batch.Batch) {
	appendTest(r.t, r.log, b)
	r.log.SetHighWatermark(r.log.EndOffset())
	r.note(b)
}

// note takes in a batch that is in the log.
func (r *derivedRun) note(b batch.Batch) {
	r.wrote = append(r.wrote, b)
	pid := b.ProducerID()
	if b.Control() {
		marker, err := parseEndMarker(b)
		must(r.t, err)
		for _, base := range r.open[pid] {
			r.fate[base] = !marker.commit
		}
		delete(r.open, pid)
		r.epoch[pid], r.seqs[pid] = b.ProducerEpoch(), 0
	} else if pid >= 0 {
		r.seqs[pid] = b.LastSequence() + 1
		if b.Transactional() {
			r.open[pid] = append(r.open[pid], b.BaseOffset())
		}
	}
}

// derivedFiles are those of the partition's directory that the log can make again.
func (r *derivedRun) derivedFiles() (all []string) {
	entries, err := r.mem.ReadDir(partitionDir)
	must(r.t, err)
	for _, e := range entries {
		for _, suffix := range []string{indexSuffix, timeIndexSuffix, txnIndexSuffix, snapshotSuffix, leaderEpochFile} {
			if strings.HasSuffix(e.Name(), suffix) {
				all = append(all, path.Join(partitionDir, e.Name()))
			}
		}
	}
	return all
}

func (r *derivedRun) remember() {
	for _, name := range r.derivedFiles() {
		if r.rng.IntN(3) == 0 {
			data, err := readFile(r.mem, name)
			must(r.t, err)
			r.old[name] = data
		}
	}
}

func (r *derivedRun) spoil(killed bool) {
	for _, name := range r.derivedFiles() {
		if r.rng.IntN(3) > 0 {
			continue
		}
		data, err := readFile(r.mem, name)
		must(r.t, err)
		how, spoilt := r.spoilt(name, data, killed)
		r.tell("%s %s", how, name)
		if how == "removed" {
			must(r.t, r.mem.Remove(name))
			continue
		}
		must(r.t, writeFile(r.mem, name, spoilt, true))
	}
}

// spoilt is what becomes of a file. Snapshots have a checksum, and nothing else would tell a whole one from another;
// what looks sane in a transaction index is believed after a clean stop.
func (r *derivedRun) spoilt(name string, data []byte, killed bool) (how string, spoilt []byte) {
	kinds := []string{"removed", "emptied", "garbled"}
	sane := strings.HasSuffix(name, txnIndexSuffix) && !killed
	if !sane && !strings.HasSuffix(name, leaderEpochFile) {
		kinds = append(kinds, "cut", "one bit of")
		if !strings.HasSuffix(name, snapshotSuffix) {
			kinds = append(kinds, "older", "another's content in")
		}
	}
	how, spoilt = kinds[r.rng.IntN(len(kinds))], bytes.Clone(data)
	switch old, any := r.old[name]; {
	case how == "removed" || how == "emptied":
		spoilt = nil
	case how == "cut":
		spoilt = spoilt[:r.rng.IntN(len(data)+1)]
	case how == "one bit of" && len(data) > 0:
		spoilt[r.rng.IntN(len(data))] ^= 1 << r.rng.IntN(8)
	case how == "older" && any:
		spoilt = old
	case how == "another's content in":
		for _, other := range slices.Sorted(maps.Keys(r.old)) {
			if other != name && path.Ext(other) == path.Ext(name) && r.rng.IntN(2) == 0 {
				spoilt = r.old[other]
			}
		}
	case how == "garbled":
		for i := range spoilt {
			spoilt[i] = byte(r.rng.Uint32())
		}
	}
	return how, spoilt
}

// check reads from every offset.
func (r *derivedRun) check() {
	r.t.Helper()
	bound := r.log.LastStableOffset()
	if want := r.stable(); bound != want {
		r.t.Fatalf("stable below %d, want %d", bound, want)
	}
	for offset := r.log.StartOffset(); offset < bound; offset++ {
		r.checkRead(offset, ReadOptions{MaxBytes: []int{1, 200, 1000, 1 << 20}[r.rng.IntN(4)], Bound: bound, MinOneBatch: true, Aborted: true})
	}
}

func (r *derivedRun) stable() int64 {
	stable := r.log.EndOffset()
	for _, bases := range r.open {
		stable = min(stable, bases[0])
	}
	return stable
}

func (r *derivedRun) checkRead(offset int64, o ReadOptions) {
	r.t.Helper()
	span, err := r.log.Read(offset, o)
	must(r.t, err)
	raw, err := span.ReadAll()
	span.Release()
	must(r.t, err)
	var batches []batch.Batch
	for b, rest, err := batch.Next(raw); err == nil; b, rest, err = batch.Next(rest) {
		batches = append(batches, b)
	}
	shown := consume(r.t, batches, slices.Clone(span.AbortedTxns)).records
	for _, b := range batches {
		if b.Control() || b.RecordCount() == 0 {
			continue
		}
		hidden := true
		for record, err := range b.Records() {
			must(r.t, err)
			if _, seen := shown[record.Offset]; seen {
				hidden = false
			}
		}
		if hidden != r.fate[b.BaseOffset()] {
			r.t.Fatalf("read of %d bytes at %d below %d: batch at %d of producer %d hidden %v, aborted %v; listed %+v",
				o.MaxBytes, offset, o.Bound, b.BaseOffset(), b.ProducerID(), hidden, r.fate[b.BaseOffset()], span.AbortedTxns)
		}
	}
}

// TestGarbledTxnIndexHidesNoAbortedTransaction: of a single entry Kafka's check sees too little; what it lets pass made
// aborted records visible.
func TestGarbledTxnIndexHidesNoAbortedTransaction(t *testing.T) {
	mem := vfs.NewMem()
	s := openTest(t, testOptions(mem))
	l := createTest(t, s, testConfig())
	must2(t)(l.Append(producing{pid: 7, count: 1, txn: true, ms: 5}.at(t, 0), 0))
	must2(t)(l.Append(marker(t, 0, 7, 0, false, 0), 0))
	rollTest(t, l)
	must2(t)(l.Append(producing{pid: 8, count: 1, ms: 5}.at(t, 0), 0))
	l.SetHighWatermark(l.EndOffset())
	must(t, s.Close())
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 0))
		garbage := make([]byte, txnEntryBytes)
		for i := range garbage {
			garbage[i] = byte(rng.Uint32())
		}
		must(t, writeFile(mem, segmentFile(0, txnIndexSuffix), garbage, true))
		l := reopened(t, mem)
		if got := aborted(t, l); len(got) != 1 || got[0].ProducerID != 7 {
			t.Errorf("seed %d: %v", seed, got)
		}
		must(t, l.store.Close())
	}
}
