package handlers

import (
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"grete/cluster/replica"
	"grete/internal/clock"
	"grete/internal/sched"
)

// ackWaits is what a Produce request still waits for.
type ackWaits struct {
	mu      sched.Mutex
	pending int
	waits   []ackOf
	timer   clock.Timer
}

// ackOf is one partition's wait.
type ackOf struct {
	entry  *produceEntry
	cancel replica.AckCancel
}

// awaitAll responds once every appended partition is acknowledged or the request's timeout has passed.
func (p *produce) awaitAll() {
	p.acked.pending = 1 // this goroutine, until all waits are set
	for i := range p.entries {
		if e := &p.entries[i]; e.ok && p.mustWait(e) {
			p.releaseRecords()
			p.await(e)
		}
	}
	if p.acked.waits == nil {
		p.finish()
		return
	}
	p.startTimer()
	p.arrived()
}

// releaseRecords gives back what the records lie in, once, before the first wait: they are in the log, and followers
// that the request waits for need the memory, too.
func (p *produce) releaseRecords() {
	if p.acked.waits != nil {
		return
	}
	for i := range p.entries {
		p.entries[i].records = nil
	}
	for i := range p.req.Topics {
		for j := range p.req.Topics[i].Partitions {
			p.req.Topics[i].Partitions[j].Records = nil
		}
	}
	p.r.ReleaseBody()
}

// finish responds to a request that waits for nothing.
func (p *produce) finish() {
	p.respond()
	p.recycle()
}

func (p *produce) await(e *produceEntry) {
	w := &p.acked
	w.mu.Lock()
	w.pending++
	w.mu.Unlock()
	cancel := e.partition.AwaitAck(e.appended, p.acks, func(err error) { p.acknowledged(e, err) })
	w.mu.Lock()
	w.waits = append(w.waits, ackOf{e, cancel})
	w.mu.Unlock()
}

// mustWait spares the common case its callback: nothing to flush, and committed by the append.
func (p *produce) mustWait(e *produceEntry) bool {
	switch p.acks {
	case replica.AckAll:
		return !e.partition.Committed(e.appended)
	case replica.AckLeader:
		return e.appended.FlushDue
	}
	return false
}

func (p *produce) startTimer() {
	w := &p.acked
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.pending > 1 {
		w.timer = p.b.Clock.AfterFunc(time.Duration(p.req.TimeoutMillis)*time.Millisecond, p.timeout)
	}
}

func (p *produce) acknowledged(e *produceEntry, err error) {
	if err != nil {
		p.acked.mu.Lock()
		p.errored = true
		a := p.answer(e)
		a.ErrorCode, a.BaseOffset, a.LogAppendTime, a.LogStartOffset = codeOf(err), -1, -1, -1
		a.ErrorMessage = storageTrouble(err)
		p.nameLeader(e, a)
		p.acked.mu.Unlock()
	}
	p.arrived()
}

// arrived counts one wait off; the last one responds.
func (p *produce) arrived() {
	w := &p.acked
	w.mu.Lock()
	w.pending--
	last := w.pending == 0
	if last && w.timer != nil {
		w.timer.Stop()
	}
	w.mu.Unlock()
	if last {
		p.respond()
	}
}

// timeout gives up what is still waited for; the batches stay written.
func (p *produce) timeout() {
	w := &p.acked
	w.mu.Lock()
	waits := w.waits
	w.mu.Unlock()
	for _, wait := range waits {
		if wait.cancel() {
			p.acknowledged(wait.entry, kerr.RequestTimedOut)
		}
	}
}
