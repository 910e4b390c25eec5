package txn

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"grete/coordinator"
)

// overload holds the high watermark and lets more answers wait for it than the shard takes from clients.
func (r *rig) overload() {
	r.t.Helper()
	r.log.Hold()
	r.s.rt.Submit(0, op{Run: func(_ *shard, tx *coordinator.Tx) {
		tx.Append(recordKey("filler"), nil)
		for range 1 << 15 {
			tx.Reply(func(error) {})
		}
	}, Refuse: func(err error) { r.t.Error(err) }})
	for range 5000 {
		refused := make(chan error, 1)
		r.s.rt.Submit(0, op{Run: func(*shard, *coordinator.Tx) { refused <- nil }, Refuse: func(err error) { refused <- err }})
		if errors.Is(<-refused, coordinator.ErrOverloaded) {
			return
		}
		time.Sleep(time.Millisecond)
	}
	r.t.Fatal("not overloaded")
}

// init0 begins an id without waiting for the answer.
func (r *rig) init0(id string) {
	r.s.InitProducer(InitRequest{ID: id, TimeoutMs: 60_000}, func(ProducerEpoch, error) {})
}

// Whatever the coordinator sends itself to end a transaction arrives while the shard refuses its clients.
func TestOverloadedShardEndsItsTransactions(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(*rig, func())
	}{
		{"markers written", func(r *rig, end func()) {
			r.markers.hold = true
			end()
			r.overload()
			r.markers.let()
		}},
		{"markers failed", func(r *rig, end func()) {
			r.markers.hold = true
			r.markers.fail[Partition{"t", 0}] = kerr.NotLeaderForPartition
			end()
			r.overload()
			delete(r.markers.fail, Partition{"t", 0})
			r.markers.let()
		}},
		{"decision not committed in time", func(r *rig, end func()) {
			r.log.Hold()
			end()
			r.overload()
			r.clock.Advance(time.Duration(r.cfg.CommitTimeoutMs) * time.Millisecond)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, DefaultConfig())
			p := r.init("x")
			r.add("x", p, false, Partition{"t", 0})
			c.end(r, func() { _, _ = r.end("x", p, true) })
			r.log.Commit()
			for range 3 {
				r.rest()
				r.clock.Advance(time.Duration(r.cfg.MarkerRetryMs) * time.Millisecond)
			}
			r.rest()
			if got := r.states(); !strings.Contains(fmt.Sprint(got), "[x] CompleteCommit") {
				t.Errorf("%v", got)
			}
		})
	}
}

// A timed-out transaction whose abort needs a producer id is aborted in the same round, overloaded or not.
func TestOverloadedShardAbortsWithFreshID(t *testing.T) {
	r := newRig(t, DefaultConfig())
	p := r.init("x")
	r.add("x", p, false, Partition{"t", 0})
	ids := r.holdIDs()
	r.s.rt.Submit(0, op{Key: "x", Run: func(sh *shard, tx *coordinator.Tx) {
		e := sh.ids["x"]
		e.epoch = 1<<15 - 2
		sh.abort(tx, "x", e.producer(), noProducerID)
	}, Refuse: func(err error) { t.Error(err) }})
	r.overload()
	ids()
	r.log.Commit()
	r.rest()
	if got := r.states(); !strings.Contains(fmt.Sprint(got), "[x] CompleteAbort") {
		t.Errorf("%v", got)
	}
}

// Expiry ends its round when the log refuses tombstones: it does not try the same ids again and again.
func TestExpiryEndsWhenAppendsFail(t *testing.T) {
	r := newRig(t, DefaultConfig())
	for i := range maxTombstones + 1 {
		r.init0(fmt.Sprint(i))
	}
	r.rest()
	r.log.FailAppends(kerr.NotEnoughReplicas)
	r.clock.Advance(time.Duration(r.cfg.IDExpirationMs+r.cfg.ExpiryIntervalMs) * time.Millisecond)
	r.rest()
	if got := len(r.states()); got != maxTombstones+1 {
		t.Fatalf("%d ids", got)
	}
	r.log.FailAppends(nil)
	r.clock.Advance(time.Duration(r.cfg.ExpiryIntervalMs) * time.Millisecond)
	r.rest()
	if got := r.states(); len(got) != 0 {
		t.Errorf("%d ids are left", len(got))
	}
}
