package controller

import (
	"errors"

	"grete/cluster/metadata"
	"grete/cluster/raftlog"
	"grete/internal/clock"
	"grete/protocol/batch"
)

// encoded are records as the log gets them. What a client asks for is in one batch, which is committed whole or not at
// all; what a broker's coming and going makes of many partitions may be cut anywhere, as each change stands by itself.
type encoded struct {
	values [][]byte
	bytes  int
	cuts   []int // where a batch may end, in order, beside the end
}

func encode(records []metadata.Record) encoded {
	var e encoded
	for i, r := range records {
		value := metadata.AppendRecord(nil, r)
		e.values, e.bytes = append(e.values, value), e.bytes+len(value)
		if i > 0 && i%recordsPerOp == 0 { // no client's request makes more
			e.cuts = append(e.cuts, i)
		}
	}
	return e
}

func (e *encoded) add(more encoded) {
	at := len(e.values)
	if at > 0 && len(more.values) > 0 {
		e.cuts = append(e.cuts, at)
	}
	for _, cut := range more.cuts {
		e.cuts = append(e.cuts, at+cut)
	}
	e.values, e.bytes = append(e.values, more.values...), e.bytes+more.bytes
}

// batches are the values of each batch: as many as may be together up to recordsPerOp.
func (e *encoded) batches() (all [][][]byte) {
	first, last := 0, 0
	for _, cut := range append(e.cuts, len(e.values)) {
		if cut-first > recordsPerOp && last > first {
			all, first = append(all, e.values[first:last]), last
		}
		last = cut
	}
	return append(all, e.values[first:])
}

// append proposes the records that pending has already; before is pending without them. When some of them cannot be
// appended any more, this node begins anew with what was.
func (d *decider) append(before *metadata.Image, made encoded) error {
	if len(made.values) == 0 {
		return nil
	}
	for i, values := range made.batches() {
		end, err := d.write(values)
		if err != nil && i == 0 {
			d.retreat(before)
			return err
		}
		if err != nil {
			d.retire(ErrNotController)
			poke(d.n.leaders)
			return errors.Join(ErrNotController, err)
		}
		d.written = end
	}
	d.settle(d.written)
	d.sessions.appended(d.written)
	return nil
}

// propose decides nothing: it appends records of the controller's own and applies them to pending.
func (d *decider) propose(records []metadata.Record) error {
	before := d.pending
	if err := d.advance(records); err != nil {
		return err
	}
	return d.append(before, encode(records))
}

func (d *decider) settle(end int64) {
	d.pending, _, _ = d.pending.Apply(nil, end-1, d.lead.Epoch)
	d.touched = nil
}

// write appends values as one batch.
func (d *decider) write(values [][]byte) (end int64, err error) {
	nowMs := clock.Millis(d.n.o.Clock)
	records := make([]batch.Record, len(values))
	for i, value := range values {
		records[i] = batch.Record{TimestampMs: nowMs, Value: value}
	}
	b, err := raftlog.Batch(records)
	if err != nil {
		return 0, err
	}
	end, err = d.n.raft.Propose(d.n.ctx, d.lead.Epoch, b)
	switch {
	case errors.Is(err, raftlog.ErrNotLeader):
		return 0, ErrNotController
	case errors.Is(err, raftlog.ErrNoRoom):
		return 0, err
	case err != nil:
		return 0, errors.Join(ErrNotController, err)
	}
	return end, nil
}
