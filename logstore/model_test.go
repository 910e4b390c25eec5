package logstore

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"grete/internal/vfs"
	"grete/protocol/batch"
)

// model is what a log must be: its batches, and the offsets around them.
type model struct {
	batches []batch.Batch
	start   int64
	end     int64
	epoch   int32
}

func (m *model) append(b batch.Batch) {
	m.batches = append(m.batches, bytes.Clone(b))
	m.end = b.LastOffset() + 1
}

// truncate keeps the batches that lie wholly below offset.
func (m *model) truncate(offset int64) {
	for len(m.batches) > 0 && m.batches[len(m.batches)-1].LastOffset() >= offset {
		last := m.batches[len(m.batches)-1]
		m.batches, m.end = m.batches[:len(m.batches)-1], min(m.end, last.BaseOffset())
	}
	m.start = min(m.start, m.end)
}

// modelRun drives a log and its model by one random sequence.
type modelRun struct {
	t     *testing.T
	rng   *rand.Rand
	fs    *vfs.Mem
	store *Store
	log   *Log
	cfg   Config
	model model
	ms    int64
}

// TestModel compares a log with its model over random sequences of operations (GRETE_LONG=1: many more).
func TestModel(t *testing.T) {
	runs := 60
	if os.Getenv("GRETE_LONG") != "" {
		runs = 5000
	}
	for seed := range runs {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { runModel(t, uint64(seed)) })
	}
}

func runModel(t *testing.T, seed uint64) {
	r := &modelRun{t: t, rng: rand.New(rand.NewPCG(seed, 7)), fs: vfs.NewMem(), ms: 1000}
	r.cfg = testConfig()
	r.cfg.SegmentBytes = int32(900 + r.rng.IntN(4000))
	r.cfg.IndexIntervalBytes = int32(r.rng.IntN(600))
	r.cfg.SegmentMs = int64(50 + r.rng.IntN(100_000))
	r.open()
	for range 120 {
		r.step()
		r.check()
	}
	must(t, r.store.Close())
}

func (r *modelRun) open() {
	o := testOptions(r.fs)
	o.Defaults, o.MaxOpenFiles = r.cfg, 4
	r.store = openTest(r.t, o)
	if r.log = r.store.Log(testID); r.log == nil {
		r.log = createTest(r.t, r.store, r.cfg)
	}
}

func (r *modelRun) step() {
	switch p := r.rng.IntN(100); {
	case p < 70:
		r.appendOne()
	case p < 75:
		r.appendFollower()
	case p < 80:
		flushTest(r.t, r.log)
	case p < 84:
		offset := r.model.start + r.rng.Int64N(r.model.end-r.model.start+1)
		must(r.t, r.log.TruncateTo(offset))
		if offset < r.model.end {
			r.model.truncate(offset)
		}
	case p < 88:
		r.log.SetHighWatermark(r.model.end)
		offset := r.model.start + r.rng.Int64N(r.model.end-r.model.start+1)
		must(r.t, r.log.AdvanceStart(offset))
		r.model.start = max(r.model.start, offset)
	case p < 94:
		must(r.t, r.store.Close())
		r.open()
	case p < 97:
		r.kill()
	default:
		r.damageIndexes()
	}
}

func (r *modelRun) batch() batch.Batch {
	r.ms += int64(r.rng.IntN(40) - 8)
	return plain(r.t, 1+r.rng.IntN(4), r.rng.IntN(120), r.ms)
}

func (r *modelRun) appendOne() {
	if r.rng.IntN(20) == 0 {
		r.model.epoch++
	}
	b := r.batch()
	_, err := r.log.Append(b, r.model.epoch)
	must(r.t, err)
	r.model.append(b)
}

func (r *modelRun) appendFollower() {
	var raw []byte
	for range 1 + r.rng.IntN(5) {
		b := r.batch()
		b.SetBaseOffset(r.model.end)
		b.SetPartitionLeaderEpoch(r.model.epoch)
		raw = append(raw, b...)
		r.model.append(b)
	}
	must(r.t, r.log.AppendAsFollower(raw))
}

// kill is kill -9: everything written stays, nothing in memory does.
func (r *modelRun) kill() {
	clone := r.fs.CrashClone(r.rng, 100)
	must(r.t, r.store.Close())
	r.fs = clone
	r.open()
}

func (r *modelRun) damageIndexes() {
	must(r.t, r.store.Close())
	entries, err := r.fs.ReadDir(testDir + "/" + testID.String())
	must(r.t, err)
	for _, e := range entries {
		name := testDir + "/" + testID.String() + "/" + e.Name()
		if base, ok := offsetOfFile(e.Name()); !ok || e.Name() == fileName(base, logSuffix) {
			continue
		}
		damage(r.t, r.fs, name, r.rng)
	}
	r.open()
}

// damage removes, empties or garbles a file, or leaves it.
func damage(t *testing.T, fs vfs.FS, name string, rng *rand.Rand) {
	data, err := readFile(fs, name)
	must(t, err)
	switch rng.IntN(4) {
	case 0:
		must(t, fs.Remove(name))
	case 1:
		must(t, writeFile(fs, name, nil, true))
	case 2:
		for i := range data {
			if rng.IntN(3) == 0 {
				data[i] ^= byte(rng.IntN(256))
			}
		}
		must(t, writeFile(fs, name, data, true))
	}
}

// check compares the offsets, a read from a random offset, and a search by time.
func (r *modelRun) check() {
	r.t.Helper()
	m, l := &r.model, r.log
	if l.EndOffset() != m.end || l.StartOffset() != m.start {
		r.t.Fatalf("log is [%d, %d), want [%d, %d)", l.StartOffset(), l.EndOffset(), m.start, m.end)
	}
	if m.end == m.start {
		return
	}
	offset := m.start + r.rng.Int64N(m.end-m.start)
	r.checkRead(offset)
	r.checkTime()
}

func (r *modelRun) checkRead(offset int64) {
	r.t.Helper()
	i := r.index(offset)
	want := r.model.batches[i]
	bound := r.model.batches[i+r.rng.IntN(len(r.model.batches)-i)].LastOffset() + 1
	span, err := r.log.Read(offset, ReadOptions{MaxBytes: 1 << 20, Bound: bound, MinOneBatch: true})
	must(r.t, err)
	defer span.Release()
	raw, err := span.ReadAll()
	must(r.t, err)
	if !bytes.HasPrefix(raw, want) {
		r.t.Fatalf("read at %d does not begin with batch %d-%d", offset, want.BaseOffset(), want.LastOffset())
	}
	for n := i; len(raw) > 0; n++ {
		b, rest, err := batch.Next(raw)
		must(r.t, err)
		if b.BaseOffset() >= bound || !bytes.Equal(b, r.model.batches[n]) {
			r.t.Fatalf("read at %d, bound %d: batch %d-%d instead of %d", offset, bound, b.BaseOffset(), b.LastOffset(), r.model.batches[n].BaseOffset())
		}
		raw = rest
	}
}

// index is that of the model's batch which holds offset.
func (r *modelRun) index(offset int64) int {
	for i, b := range r.model.batches {
		if b.LastOffset() >= offset {
			return i
		}
	}
	r.t.Fatalf("the model has no offset %d", offset)
	return 0
}

func (r *modelRun) checkTime() {
	r.t.Helper()
	target := r.ms - int64(r.rng.IntN(400))
	want, largest := int64(-1), int64(-1)
	for _, b := range r.model.batches {
		for record, err := range b.Records() {
			must(r.t, err)
			if record.Offset >= r.model.start && record.TimestampMs >= target && want < 0 {
				want = record.Offset
			}
		}
		largest = max(largest, b.MaxTimestamp())
	}
	found, err := r.log.OffsetForTimestamp(target)
	must(r.t, err)
	if found.Offset != want {
		r.t.Fatalf("offset for timestamp %d is %+v, want %d", target, found, want)
	}
	newest, err := r.log.MaxTimestampOffset()
	must(r.t, err)
	if newest.TimestampMs > largest || newest.TimestampMs < 0 {
		r.t.Fatalf("largest timestamp %+v, want %d", newest, largest)
	}
}
