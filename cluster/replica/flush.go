package replica

import (
	"errors"

	"grete/logstore"
)

// flushState follows flush.messages on a leader: from the first append that is due for a flush until it is durable,
// neither the high watermark nor acknowledgements pass it. Guarded by Partition.mu.
type flushState struct {
	running bool
	floor   int64 // base offset of the first due append; everything below is as good as durable
	due     int64 // end of the last due append
	// era counts leaderships, truncations and logs: the end of a flush that was started in another one says nothing.
	era int
}

// reset begins a new era, without a flush.
func (f *flushState) reset() { *f = flushState{era: f.era + 1} }

// flush is one to be started after p.mu is released.
type flush struct {
	log *logstore.Log
	end int64
	era int
}

// flushDue notes an append that must be durable before it counts; the flush that it returns, if any, is the caller's to
// start. While one runs, further appends gather for the next: a group commit. p.mu is held.
func (p *Partition) flushDue(log *logstore.Log, base, end int64) *flush {
	p.flush.due = end
	if p.flush.running {
		return nil
	}
	p.flush.running, p.flush.floor = true, base
	return &flush{log, end, p.flush.era}
}

// owesFlush says whether flush.messages wants what the log has above its durable end to be fsynced.
func (s *state) owesFlush() bool {
	return s.log.EndOffset()-s.log.DurableOffset() >= max(s.config.Log.FlushMessages, 1)
}

// durableEnd is the end of what may be acknowledged; p.mu is held.
func (p *Partition) durableEnd(log *logstore.Log) int64 {
	end := log.EndOffset()
	if p.flush.running {
		end = min(end, p.flush.floor)
	}
	return end
}

func (p *Partition) startFlush(f *flush) {
	if f != nil {
		f.log.FlushAsync(f.end, func(err error) { p.flushed(f, err) })
	}
}

// flushed ends one flush: what it covered is released, and what gathered meanwhile is flushed next. Only a log that
// cannot be used any more makes the partition unusable; after any other error the flush is tried again, and nothing is
// released until then.
func (p *Partition) flushed(f *flush, err error) {
	switch {
	case errors.Is(err, logstore.ErrOffline), errors.Is(err, logstore.ErrClosed):
		p.flushImpossible(f, err)
		return
	case err != nil:
		p.clock.AfterFunc(retryEvery, func() { p.startFlush(p.nextFlush(f)) })
		return
	}
	next := p.nextFlush(f)
	p.wake()
	p.startFlush(next)
}

func (p *Partition) flushImpossible(f *flush, err error) {
	p.mu.Lock()
	current := p.flush.era == f.era
	p.mu.Unlock()
	if current {
		p.markOffline(offlineError(err))
	}
}

// nextFlush takes note of how far the log is durable after f, and returns the flush of what is due beyond, nil when
// nothing is.
func (p *Partition) nextFlush(f *flush) *flush {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.flush.era != f.era {
		return nil
	}
	durable, due := f.log.DurableOffset(), min(p.flush.due, f.log.EndOffset())
	again := durable < due
	if again {
		p.flush.floor = max(p.flush.floor, durable)
	} else {
		p.flush.running, p.flush.due = false, 0
	}
	p.advance(p.state.Load())
	if !again {
		return nil
	}
	return &flush{f.log, due, f.era}
}
