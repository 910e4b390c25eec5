package controller

import (
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"grete/cluster/metadata"
	"grete/cluster/raftlog"
	"grete/internal/clock"
	"grete/logstore"
	"grete/protocol/batch"
)

// applier turns the committed log into images, on one goroutine of every broker, and writes snapshots beside it.
type applier struct {
	n     *Node
	image *metadata.Image
	end   int64 // everything below is applied

	snapshotBytes int64 // metadata.log.max.record.bytes.between.snapshots
	snapshotEvery time.Duration
	pendingBytes  int64 // applied since the last snapshot
	lastSnapshot  time.Time
	snapshotting  sync.WaitGroup
	idle          chan struct{} // holds one while no snapshot is being written
}

// newApplier loads the newest snapshot.
func newApplier(n *Node) (*applier, error) {
	a := &applier{
		n: n, image: n.image.Load(), lastSnapshot: n.o.Clock.Now(), idle: make(chan struct{}, 1),
		snapshotBytes: n.o.Config.Int("metadata.log.max.record.bytes.between.snapshots"),
		snapshotEvery: time.Duration(n.o.Config.Int("metadata.log.max.snapshot.interval.ms")) * time.Millisecond,
	}
	a.idle <- struct{}{}
	if s, ok := n.raft.TakeSnapshot(); ok {
		return a, a.load(s)
	}
	return a, nil
}

// load replaces the image by a snapshot's.
func (a *applier) load(s raftlog.Snapshot) error {
	b := metadata.NewBuilder(&metadata.Image{})
	if _, _, err := applyBatches(b, s.Raw); err != nil {
		return fmt.Errorf("loading the metadata snapshot at %d: %w", s.End, err)
	}
	b.Replaces(a.image)
	a.publish(b, s.End, s.Epoch)
	return nil
}

func (a *applier) run() {
	defer a.snapshotting.Wait()
	for {
		select {
		case <-a.n.ctx.Done():
			return
		case <-a.n.commits:
		}
		if err := a.catchUp(); err != nil {
			a.n.o.Logger.Error().Err(err).Msg("the metadata log cannot be applied: this broker follows it no further")
			a.n.fail(err)
			a.n.raft.Stop() // who cannot apply must not lead
			return
		}
	}
}

// readAgainAfter is how soon the log is read again for which there was no descriptor.
const readAgainAfter = 200 * time.Millisecond

// catchUp applies everything committed, a chunk at a time.
func (a *applier) catchUp() error {
	for a.n.ctx.Err() == nil {
		if s := a.n.received.Swap(nil); s != nil {
			if err := a.load(*s); err != nil {
				return err
			}
		}
		raw, err := a.n.raft.ReadCommitted(a.end, applyChunkBytes)
		switch {
		case err != nil && a.n.received.Load() != nil:
			continue // the log went because a snapshot came
		case logstore.Heals(err):
			_ = clock.Pause(a.n.ctx, a.n.o.Clock, readAgainAfter)
			continue
		case err != nil:
			return err
		case len(raw) == 0:
			a.nameController()
			return nil
		}
		if err := a.apply(raw); err != nil {
			return err
		}
	}
	return nil
}

func (a *applier) apply(raw []byte) error {
	b := metadata.NewBuilder(a.image)
	end, epoch, err := applyBatches(b, raw)
	if err != nil {
		return fmt.Errorf("applying the metadata log at %d: %w", a.end, err)
	}
	if end <= a.end {
		return fmt.Errorf("no whole batch of the metadata log at %d", a.end)
	}
	a.pendingBytes += int64(len(raw))
	a.publish(b, end, epoch)
	a.maybeSnapshot()
	return nil
}

// publish makes the builder's image the current one: first to the appliers, then to readers, then to who waits for it.
func (a *applier) publish(b *metadata.Builder, end int64, epoch int32) {
	next, delta := b.Build(end-1, epoch)
	next = next.WithController(a.n.lead.Load().NodeID)
	a.n.o.OnImage(a.image, next, delta)
	a.image, a.end = next, end
	a.n.image.Store(next)
	a.n.waiting.release(end)
	a.n.arrivals.release(end)
	poke(a.n.leaders)
}

// nameController republishes the image when another node leads now.
func (a *applier) nameController() {
	if id := a.n.lead.Load().NodeID; id != a.image.ControllerID() {
		next := a.image.WithController(id)
		a.n.o.OnImage(a.image, next, metadata.Delta{})
		a.image = next
		a.n.image.Store(next)
	}
}

// applyBatches applies the whole batches of raw and returns the offset after the last of them, and its epoch. Control
// batches are Raft's own.
func applyBatches(b *metadata.Builder, raw []byte) (end int64, epoch int32, err error) {
	for len(raw) > 0 {
		next, rest, err := batch.Next(raw)
		if errors.Is(err, batch.ErrShort) {
			break
		}
		if err == nil && !next.ChecksumOK() {
			err = fmt.Errorf("bad checksum of the batch at %d", next.BaseOffset())
		}
		if err == nil && !next.Control() {
			err = applyBatch(b, next)
		}
		if err != nil {
			return 0, 0, err
		}
		raw, end, epoch = rest, next.LastOffset()+1, next.PartitionLeaderEpoch()
	}
	return end, epoch, nil
}

func applyBatch(b *metadata.Builder, from batch.Batch) error {
	for r, err := range from.Records() {
		if err != nil {
			return err
		}
		record, err := metadata.DecodeRecord(r.Value)
		if err == nil {
			err = b.Apply(record)
		}
		if err != nil {
			return fmt.Errorf("offset %d: %w", r.Offset, err)
		}
	}
	return nil
}

// maybeSnapshot writes a snapshot on a goroutine of its own when enough has happened since the last one, and none is
// being written.
func (a *applier) maybeSnapshot() {
	now := a.n.o.Clock.Now()
	if a.pendingBytes < a.snapshotBytes && (a.snapshotEvery <= 0 || now.Sub(a.lastSnapshot) < a.snapshotEvery) {
		return
	}
	select {
	case <-a.idle:
	default:
		return
	}
	a.pendingBytes, a.lastSnapshot = 0, now
	image := a.image
	a.snapshotting.Go(func() {
		defer func() { a.idle <- struct{}{} }()
		err := a.n.raft.WriteSnapshot(image.Offset()+1, image.Epoch(), recordValues(image))
		if err != nil {
			a.n.o.Logger.Warn().Err(err).Msg("no metadata snapshot was written; the log is kept")
		}
	})
}

// recordValues encodes an image's records.
func recordValues(im *metadata.Image) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for r := range im.Records() {
			if !yield(metadata.AppendRecord(nil, r)) {
				return
			}
		}
	}
}
