package replica

import (
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"grete/cluster/metadata"
	"grete/coordinator"
	"grete/internal/clock"
	"grete/internal/sched"
	"grete/internal/vfs"
)

// bubble plays f where time passes at once, whoever holds a lock meanwhile.
func bubble(t *testing.T, f func(t *testing.T)) {
	sched.PauseOnContention(func() { time.Sleep(10 * time.Microsecond) })
	defer sched.PauseOnContention(nil)
	synctest.Test(t, f)
}

// TestFlushThatHeals: a flush that fails for want of descriptors or space releases nothing, costs no replica, and is
// tried again until it succeeds, whatever the metadata says meanwhile.
func TestFlushThatHeals(t *testing.T) {
	for _, why := range []error{syscall.EMFILE, syscall.ENOSPC} {
		t.Run(why.Error(), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				disk := vfs.NewFaulty(vfs.NewMem())
				b := newBench(t, disk)
				b.create("t", 1, "flush.messages", "1")
				p := b.partition("t", 0)
				disk.Lack("leader-epoch-checkpoint", why)
				a := produce(t, p, AckAll)
				var told []error
				p.AwaitAck(a, AckAll, func(err error) { told = append(told, err) })
				time.Sleep(3 * retryEvery)
				b.lead("t", node) // the epoch changes: the wait goes on
				time.Sleep(3 * retryEvery)
				synctest.Wait()
				if hw := p.Log().HighWatermark(); len(told) > 0 || hw != 0 || p.Offline() != nil {
					t.Fatalf("told %v, high watermark %d, offline %v", told, hw, p.Offline())
				}
				disk.Heal()
				time.Sleep(2 * retryEvery)
				synctest.Wait()
				if hw := p.Log().HighWatermark(); len(told) != 1 || told[0] != nil || hw != 1 {
					t.Fatalf("told %v, high watermark %d", told, hw)
				}
			})
		})
	}
}

// TestFlushesEndWithTheirLeadership: an fsync that is under way while the leader is replaced, and its log truncated
// below what was due, costs no replica.
func TestFlushesEndWithTheirLeadership(t *testing.T) {
	bubble(t, func(t *testing.T) {
		disk := vfs.NewMem()
		r := newReplicatedOn(t, vfs.NewFaulty(disk))
		r.apply(settings("t", "flush.messages", "1")...)
		p := r.replicate(1, 1, 2, 3)
		disk.SetPace(vfs.NewPace(clock.System, rand.NewPCG(1, 1), vfs.Delays{Sync: time.Minute}))
		for range 3 {
			produce(t, p, AckLeader)
			synctest.Wait()
		}
		if disk.Busy() == 0 {
			t.Fatal("no fsync is under way")
		}
		disk.SetPace(nil)
		r.elect(2, 1, 2, 3)
		if err := p.reconcile(p.LeaderEpoch(), EpochEnd{0, 0}); err != nil {
			t.Fatal(err)
		}
		r.append(p, 0, 1) // of the new leader
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if p.Offline() != nil {
			t.Fatalf("offline: %v", p.Offline())
		}
		r.elect(1, 1, 2, 3)
		time.Sleep(time.Minute)
		for _, id := range []int32{2, 3} {
			if err := r.follows(p, id, 1); err != nil {
				t.Fatal(err)
			}
		}
		requireHW(t, p, 1)
	})
}

// TestFollowerTellsOfDurableRecords: whatever keeps its flush from succeeding, a follower does not fetch from an end
// that is not durable.
func TestFollowerTellsOfDurableRecords(t *testing.T) {
	disk := vfs.NewFaulty(vfs.NewMem())
	r := newReplicatedOn(t, disk)
	r.apply(settings("t", "flush.messages", "1")...)
	p := r.replicate(2, 1, 2, 3)
	r.append(p, 0, 3)
	disk.Lack("leader-epoch-checkpoint", syscall.EMFILE)
	parts := map[partitionKey]*followedPartition{{p.TopicID, 0}: {Partition: p, epoch: p.LeaderEpoch()}}
	f := &fetcher{o: r.manager.o, parts: parts}
	if at := f.positions(parts); len(at) != 0 || p.Log().DurableOffset() != 0 {
		t.Fatalf("fetches from %v with a log that is durable up to %d", at, p.Log().DurableOffset())
	}
	disk.Heal()
	for _, at := range f.positions(parts) {
		if at.offset != 3 || p.Log().DurableOffset() != 3 {
			t.Fatalf("fetches from %d with a log that is durable up to %d", at.offset, p.Log().DurableOffset())
		}
		return
	}
	t.Fatal("does not fetch")
}

// TestAcknowledgementsAreOfTheirLeadership: what was appended under a leadership that ended is not acknowledged under a
// later one, whose log may hold other records at the same offsets.
func TestAcknowledgementsAreOfTheirLeadership(t *testing.T) {
	r := newReplicated(t)
	p := r.replicate(1, 1, 2, 3)
	a := produce(t, p, AckAll)
	r.elect(2, 1, 2, 3)
	if err := p.reconcile(p.LeaderEpoch(), EpochEnd{0, 0}); err != nil {
		t.Fatal(err)
	}
	r.append(p, 1, 2) // of others
	r.elect(1, 1, 2, 3)
	for _, id := range []int32{2, 3} {
		if err := r.follows(p, id, 2); err != nil {
			t.Fatal(err)
		}
	}
	requireHW(t, p, 2)
	if p.Committed(a) {
		t.Error("counts as committed")
	}
	var told error
	p.AwaitAck(a, AckAll, func(err error) { told = err })
	requireError(t, told, ErrNotLeader)
	p.wait.addAck(&ackWait{epoch: a.LeaderEpoch, end: a.LastOffset + 1, done: func(err error) { t.Errorf("told %v by a write of another leadership", err) }})
	p.releaseAcks() // as a later write does, between the two steps of a wait
}

// TestDirOfflineIsOrderedWithApply: an Apply under way would install the log of a directory that has failed meanwhile
// as one that can be used.
func TestDirOfflineIsOrderedWithApply(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var during func()
		b := newBenchWith(t, vfs.NewMem(), func(o *Options) {
			of := o.TopicConfig
			o.TopicConfig = func(im *metadata.Image, topic string) *TopicConfig {
				if during != nil {
					during()
				}
				return of(im, topic)
			}
		})
		b.create("t", 1)
		p := b.partition("t", 0)
		during = func() {
			during = nil
			go b.manager.DirOffline("/data", errors.New("dead"))
			time.Sleep(time.Second)
			if p.Offline() != nil {
				t.Error("went offline while metadata was applied")
			}
		}
		b.lead("t", node)
		time.Sleep(time.Second)
		if events := settledEvents(b); p.Offline() == nil || events[len(events)-1] != "resign t-0 1" {
			t.Errorf("offline: %v; %q", p.Offline(), events)
		}
	})
}

// TestReadersSeeNoOpenTransaction: whatever a producer does between two loads of a read_committed reader, nothing of
// its open transaction is below the last stable offset, and that is at most the high watermark.
func TestReadersSeeNoOpenTransaction(t *testing.T) {
	if !sched.Yields {
		t.Skip("needs the race detector's build")
	}
	for seed := range uint64(20) {
		bubble(t, func(t *testing.T) { playReaders(t, seed) })
	}
}

func playReaders(t *testing.T, seed uint64) {
	var drawn atomic.Uint64
	sched.OnYield(func() {
		rng := rand.New(rand.NewPCG(seed, drawn.Add(1)))
		time.Sleep(time.Duration(rng.IntN(200)) * time.Microsecond)
	})
	defer sched.OnYield(nil)
	b := newBench(t, vfs.NewMem())
	b.create("t", 1)
	p := b.partition("t", 0)
	var open atomic.Int64 // first offset of the transaction whose marker has not been begun, -1: none
	open.Store(-1)
	done := make(chan struct{})
	for range 3 {
		go func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				res, err := p.Read(ReadRequest{CurrentLeaderEpoch: NoEpoch, LastFetchedEpoch: NoEpoch, ReplicaID: -1, Isolation: ReadCommitted, MaxBytes: 1 << 20})
				first := open.Load()
				end := p.VisibleEnd(ReadCommitted)
				if err != nil || first >= 0 && res.LastStableOffset > first || res.LastStableOffset > res.HighWatermark {
					t.Errorf("seed %d: read %+v, %v with a transaction open from %d", seed, res, err, first)
					return
				}
				if still := open.Load(); still >= 0 && end > still {
					t.Errorf("seed %d: visible up to %d with a transaction open from %d", seed, end, still)
					return
				}
				if res.Span != nil {
					res.Span.Release()
				}
				time.Sleep(10 * time.Microsecond)
			}
		}()
	}
	for i := range int64(40) {
		guard, _, err := p.StartVerification(i, 0, 0, true)
		if err != nil {
			t.Error(err)
			break
		}
		a, err := p.Produce(ProduceRequest{Records: transactional(t, i, 0, 0), ProduceVersion: 12, Acks: AckAll, Guard: guard})
		if err != nil {
			t.Error(err)
			break
		}
		open.Store(a.BaseOffset)
		time.Sleep(300 * time.Microsecond)
		open.Store(-1)
		p.WriteMarker(coordinator.Marker{Producer: coordinator.Producer{ID: i, Epoch: 1}, TransactionVersion: 2}, func(error) {})
	}
	close(done)
	time.Sleep(time.Second)
}
