package replica

import "grete/internal/sched"

// Watcher is a parked request; it is told that something it may wait for has changed on the partition that it
// watches as number index: visible end, log start, low watermark or leadership. It must not block, and it may be told
// once more after Unwatch by a change that was under way.
type Watcher interface{ PartitionChanged(index int) }

// Watch is one registration. The zero value is ready for Partition.Watch.
type Watch struct {
	watcher    Watcher
	index      int
	partition  *Partition
	prev, next *Watch
}

// ackWait is a caller that waits until offset end is committed, or only durable.
type ackWait struct {
	epoch       int32 // leader epoch under which what lies below end was written
	end         int64
	durableOnly bool
	done        func(error)
	prev, next  *ackWait
}

// waiters are the requests parked on a partition. Its lock is a leaf: no callback runs under it.
type waiters struct {
	mu      sched.Mutex
	watches *Watch // head, in no order
	acks    *ackWait
	lastAck *ackWait
}

// Watch registers w until Unwatch. The caller looks at the partition again afterwards: what changed before is not told.
func (p *Partition) Watch(w *Watch, watcher Watcher, index int) {
	w.watcher, w.index, w.partition = watcher, index, p
	p.wait.mu.Lock()
	defer p.wait.mu.Unlock()
	w.next = p.wait.watches
	if w.next != nil {
		w.next.prev = w
	}
	p.wait.watches = w
}

// Unwatch ends the registration; it does nothing when there is none.
func (w *Watch) Unwatch() {
	if w.partition == nil {
		return
	}
	l := &w.partition.wait
	l.mu.Lock()
	defer l.mu.Unlock()
	if w.prev != nil {
		w.prev.next = w.next
	} else if l.watches == w {
		l.watches = w.next
	}
	if w.next != nil {
		w.next.prev = w.prev
	}
	w.prev, w.next, w.partition = nil, nil, nil
}

// wakeWatches tells every watcher, outside of all locks.
func (l *waiters) wakeWatches() {
	type call struct {
		watcher Watcher
		index   int
	}
	var few [8]call
	calls := few[:0]
	l.mu.Lock()
	for w := l.watches; w != nil; w = w.next {
		calls = append(calls, call{w.watcher, w.index})
	}
	l.mu.Unlock()
	for _, c := range calls {
		c.watcher.PartitionChanged(c.index)
	}
}

// addAck appends a: waits come nearly in order of their offsets, so that releasing looks at few.
func (l *waiters) addAck(a *ackWait) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a.prev = l.lastAck
	if l.lastAck != nil {
		l.lastAck.next = a
	} else {
		l.acks = a
	}
	l.lastAck = a
}

// removeAck reports whether a was still waiting: then its done is never called.
func (l *waiters) removeAck(a *ackWait) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.unlinkAck(a)
}

func (l *waiters) unlinkAck(a *ackWait) bool {
	if a.prev == nil && l.acks != a {
		return false
	}
	if a.prev != nil {
		a.prev.next = a.next
	} else {
		l.acks = a.next
	}
	if a.next != nil {
		a.next.prev = a.prev
	} else {
		l.lastAck = a.prev
	}
	a.prev, a.next = nil, nil
	return true
}

// takeAcks unlinks and returns the waits for which ready holds, in order.
func (l *waiters) takeAcks(ready func(*ackWait) bool) []*ackWait {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []*ackWait
	for a := l.acks; a != nil; {
		next := a.next
		if ready(a) {
			l.unlinkAck(a)
			out = append(out, a)
		}
		a = next
	}
	return out
}

// hasAcks says whether anybody waits for an acknowledgement.
func (l *waiters) hasAcks() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.acks != nil
}

// Waiting counts the requests parked on the partition: fetches and acknowledgements.
func (p *Partition) Waiting() int {
	p.wait.mu.Lock()
	defer p.wait.mu.Unlock()
	n := 0
	for w := p.wait.watches; w != nil; w = w.next {
		n++
	}
	for a := p.wait.acks; a != nil; a = a.next {
		n++
	}
	return n
}
