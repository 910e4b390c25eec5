package logstore

import (
	"errors"
	"os"
	"reflect"
	"slices"
	"testing"

	"grete/internal/vfs"
)

const noExpiry = int64(1 << 62)

// filled is a state with an ended and an open transaction and an idempotent producer, up to offset 7.
func filled(t *testing.T) testProducers {
	p := newTestProducers(t)
	p.mustAppend(producing{pid: 1, epoch: 2, txn: true, count: 2, ms: 10})
	p.update(marker(t, 2, 1, 2, false, 3))
	p.mustAppend(producing{pid: 2, epoch: 1, seq: 5, count: 3, ms: 20})
	p.mustAppend(producing{pid: 3, txn: true, ms: 30})
	return p
}

func (p testProducers) snapshots() []int64 {
	p.t.Helper()
	offsets, err := p.snapshotOffsets()
	if err != nil {
		p.t.Fatal(err)
	}
	return offsets
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestSnapshotRoundTrip(t *testing.T) {
	p := filled(t)
	must(t, p.takeSnapshot(true))
	must(t, p.takeSnapshot(true))
	if got := p.snapshots(); !slices.Equal(got, []int64{7}) {
		t.Fatalf("snapshots %v", got)
	}
	again := newProducerState(p.fs, p.dir)
	must(t, again.reload(0, 7, 100, noExpiry))
	p.producers[1].batches[0].timestampMs = 77 // the file has one time per producer, here the marker's
	if !reflect.DeepEqual(again.producers, p.producers) || !reflect.DeepEqual(again.ongoing, p.ongoing) {
		t.Fatalf("reloaded %v, want %v", again.producers, p.producers)
	}
	if again.end != 7 || again.snapshotEnd != 7 || again.firstUnstable() != 6 {
		t.Fatalf("end %d, snapshot %d, first unstable %d", again.end, again.snapshotEnd, again.firstUnstable())
	}
	dup, err := again.check(producing{pid: 2, epoch: 1, seq: 5, count: 3}.at(t, 9), AppendOptions{})
	if err != nil || dup == nil || dup.firstOffset() != 3 {
		t.Fatalf("a duplicate after a restart: %v, %v", dup, err)
	}
	must(t, again.reload(0, 7, 100, noExpiry))
	again.end = 0
	must(t, again.reload(0, 7, 1020, 1000))
	if again.producers[2] != nil || again.producers[3] == nil {
		t.Fatalf("loading expires: %v", again.producers)
	}
}

func TestCorruptSnapshotFallsBack(t *testing.T) {
	damages := map[string]func([]byte) []byte{
		"empty":         func([]byte) []byte { return nil },
		"cut":           func(d []byte) []byte { return d[:len(d)-1] },
		"version 0":     func(d []byte) []byte { d[1] = 0; return d },
		"version 2":     func(d []byte) []byte { d[1] = 2; return d },
		"flipped bit":   func(d []byte) []byte { d[len(d)-3] ^= 1; return d },
		"lying count":   func(d []byte) []byte { d[6] = 0x7f; return signSnapshot(d) },
		"negative size": func(d []byte) []byte { d[6] = 0xff; return signSnapshot(d) },
	}
	for name, damage := range damages {
		t.Run(name, func(t *testing.T) {
			p := newTestProducers(t)
			p.mustAppend(producing{pid: 1})
			must(t, p.takeSnapshot(true))
			p.mustAppend(producing{pid: 2})
			must(t, p.takeSnapshot(true))
			data, err := readFile(p.fs, p.snapshotPath(2))
			must(t, err)
			must(t, writeFile(p.fs, p.snapshotPath(2), damage(data), true))

			again := newProducerState(p.fs, p.dir)
			must(t, again.reload(0, 2, 0, noExpiry))
			if again.end != 1 || again.producers[1] == nil || again.producers[2] != nil {
				t.Fatalf("end %d, producers %v", again.end, again.producers)
			}
			if got := p.snapshots(); !slices.Equal(got, []int64{1}) {
				t.Fatalf("snapshots %v", got)
			}
		})
	}
}

func TestTruncate(t *testing.T) {
	p := newTestProducers(t)
	for i := range int32(4) {
		p.mustAppend(producing{pid: 1, seq: i})
		must(t, p.takeSnapshot(false))
	}
	must(t, p.reload(0, 4, 0, noExpiry)) // nothing to do
	if p.producers[1].batchCount != 4 {
		t.Fatal("a reload at the end of the state threw it away")
	}
	must(t, p.reload(1, 3, 0, noExpiry))
	if got := p.snapshots(); !slices.Equal(got, []int64{2, 3}) {
		t.Fatalf("snapshots %v", got)
	}
	if p.end != 3 || p.producers[1].lastSeq() != 2 {
		t.Fatalf("end %d, last sequence %d", p.end, p.producers[1].lastSeq())
	}
}

func TestReloadWithoutSnapshots(t *testing.T) {
	p := newTestProducers(t)
	must(t, p.reload(10, 20, 0, noExpiry))
	if p.end != 10 || p.firstUnstable() != -1 {
		t.Fatalf("end %d: the log is to be replayed from its start", p.end)
	}
}

func TestStraySnapshots(t *testing.T) {
	for name, c := range map[string]struct{ offsets, bases, want []int64 }{
		"one per segment":               {[]int64{0, 10}, []int64{0, 10}, []int64{0, 10}},
		"without a segment":             {[]int64{5, 10}, []int64{0, 10}, []int64{10}},
		"newest is of a clean stop":     {[]int64{5, 10, 15, 20}, []int64{0, 10}, []int64{10, 20}},
		"newest below the last segment": {[]int64{10, 15}, []int64{10, 20}, []int64{10}},
	} {
		p := newTestProducers(t)
		for _, offset := range c.offsets {
			must(t, writeFile(p.fs, p.snapshotPath(offset), encodeSnapshot(nil), false))
		}
		must(t, p.removeStraySnapshots(c.bases))
		if got := p.snapshots(); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestSnapshotErrorsSurface(t *testing.T) {
	p := newTestProducers(t)
	faulty := vfs.NewFaulty(p.fs)
	p.fs = faulty
	p.mustAppend(producing{pid: 1})
	faulty.Inject(vfs.FailMatching(func(o vfs.Op) bool { return o.Kind == vfs.OpSync }, os.ErrPermission))
	if err := p.takeSnapshot(true); !errors.Is(err, os.ErrPermission) {
		t.Fatalf("a failed sync: %v", err)
	}
	if p.snapshotEnd != 0 {
		t.Fatal("a snapshot that failed counts as taken")
	}
	faulty.Inject(vfs.FailMatching(func(o vfs.Op) bool { return o.Kind == vfs.OpRead }, os.ErrPermission))
	p.end = 0
	if err := p.reload(0, 1, 0, noExpiry); !errors.Is(err, os.ErrPermission) {
		t.Fatalf("a failed read must not pass for a corrupt file: %v", err)
	}
	if got := p.snapshots(); len(got) != 1 {
		t.Fatalf("snapshots %v", got)
	}
}

func FuzzSnapshot(f *testing.F) {
	f.Add(encodeSnapshot(nil))
	f.Add(encodeSnapshot(map[int64]*producerEntry{1: {id: 1, epoch: 2, txnFirstOffset: -1, batchCount: 1, batches: [5]batchMeta{{9, 5, 3, 2}}}}))
	f.Fuzz(func(t *testing.T, data []byte) {
		entries, err := decodeSnapshot(data)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Fatal(err)
			}
			if len(data) > snapshotHeaderBytes { // look behind the checksum too
				_, _ = decodeSnapshot(signSnapshot(data))
			}
			return
		}
		producers := map[int64]*producerEntry{}
		for _, e := range entries {
			producers[e.id] = e
		}
		again, err := decodeSnapshot(encodeSnapshot(producers))
		if err != nil || len(again) != len(producers) {
			t.Fatalf("%d entries, %v", len(again), err)
		}
	})
}
