package coordinator

import (
	"runtime"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"grete/coordinator/logtest"
	"grete/internal/clock"
	"grete/internal/memory"
	"grete/protocol/batch"
)

// lendingLog notes what is lent when it is read.
type lendingLog struct {
	*logtest.Log
	lends *memory.Account
	most  int64
}

func (l *lendingLog) Read(offset int64, maxBytes int) ([]byte, error) {
	l.most = max(l.most, l.lends.UsedBytes())
	return l.Log.Read(offset, maxBytes)
}

// A load borrows its buffer, and for a compressed batch what may be held of it. A record that inflates to more ends the
// load before it is held; it was read whole, up to a GiB.
func TestLoadBorrows(t *testing.T) {
	for name, c := range map[string]struct {
		sizeBytes int
		loads     bool
	}{
		"a record in bounds": {1 << 20, true},
		"a larger one":       {maxInflatedBytes + 1<<20, false},
	} {
		t.Run(name, func(t *testing.T) {
			lends := memory.New(0).Loads
			log := &lendingLog{Log: &logtest.Log{}, lends: lends}
			for _, value := range [][]byte{make([]byte, c.sizeBytes), []byte("last")} {
				built, err := batch.Build(batch.BuildOptions{Codec: batch.Zstd, ProducerID: batch.NoProducerID, BaseSequence: batch.NoSequence}, []batch.Record{{Key: []byte("k"), Value: value}})
				if err != nil {
					t.Fatal(err)
				}
				if _, err := log.Append(1, built); err != nil {
					t.Fatal(err)
				}
			}
			b := &bench{t: t, log: log.Log, clock: clock.NewManual(time.UnixMilli(1_000_000))}
			b.rt = NewRuntime(Options[*ledger]{Clock: b.clock, Log: zerolog.Nop(), New: newLedger, CommitTimeoutMs: 5000, LoadBufferBytes: 100, Loads: lends})
			t.Cleanup(b.rt.Close)
			took := allocatedBy(func() {
				b.rt.BecomeLeader(0, 1, log)
				b.await(0)
			})
			if err := b.do("k", func(l *ledger, _ *Tx) {
				if l.values["k"] != "last" {
					t.Errorf("the value is %.10q", l.values["k"])
				}
			}); (err == nil) != c.loads {
				t.Errorf("the shard answers %v", err)
			}
			if took > 16<<20 {
				t.Errorf("%d MiB were allocated", took>>20)
			}
			if log.most < 100 || c.loads && log.most < maxInflatedBytes {
				t.Errorf("at most %d bytes were lent while it was read", log.most)
			}
			for range 5000 {
				if lends.UsedBytes() == 0 {
					return
				}
				time.Sleep(time.Millisecond)
			}
			t.Errorf("%d bytes are lent after the load", lends.UsedBytes())
		})
	}
}

// allocatedBy is how many bytes were allocated meanwhile.
func allocatedBy(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}
