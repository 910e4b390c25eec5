// Package logtest has a partition in memory for tests of coordinators: appends can be made to fail, and the high
// watermark can be held back.
package logtest

import (
	"grete/internal/sched"
	"grete/protocol/batch"
)

// Log satisfies coordinator.PartitionLog. The zero Log is empty and commits at once.
type Log struct {
	mu      sched.Mutex
	batches []batch.Batch
	end     int64
	high    int64
	held    bool
	fail    error
	waiters []waiter
	appends int
}

type waiter struct {
	end  int64
	done func(error)
}

// Append puts b at the end, or fails as FailAppends says.
func (l *Log) Append(epoch int32, b batch.Batch) (int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fail != nil {
		return 0, l.fail
	}
	b.SetBaseOffset(l.end)
	b.SetPartitionLeaderEpoch(epoch)
	l.batches = append(l.batches, b)
	l.end = b.LastOffset() + 1
	l.appends++
	if !l.held {
		l.high = l.end
	}
	return l.end, nil
}

// AppendGuarded is Append: nothing here knows producers.
func (l *Log) AppendGuarded(epoch int32, b batch.Batch, _ uint64) (int64, error) {
	return l.Append(epoch, b)
}

// AppendMarker is Append: nothing here knows producers.
func (l *Log) AppendMarker(epoch int32, b batch.Batch, _ int8) (int64, error) {
	return l.Append(epoch, b)
}

// AwaitCommitted calls done when end is committed, or with the error of Drop.
func (l *Log) AwaitCommitted(_ int32, end int64, done func(error)) {
	l.mu.Lock()
	if l.high < end {
		l.waiters = append(l.waiters, waiter{end, done})
		l.mu.Unlock()
		return
	}
	l.mu.Unlock()
	done(nil)
}

// Read returns whole batches from offset, up to about maxBytes.
func (l *Log) Read(offset int64, maxBytes int) ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []byte
	for _, b := range l.batches {
		if b.LastOffset() < offset {
			continue
		}
		if len(out) > 0 && len(out)+len(b) > maxBytes {
			break
		}
		out = append(out, b...)
	}
	return out, nil
}

func (l *Log) StartOffset() int64 { return 0 }

func (l *Log) HighWatermark() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.high
}

func (l *Log) EndOffset() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.end
}

// Appends counts the batches.
func (l *Log) Appends() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.appends
}

// FailAppends makes every append fail with err; nil ends that.
func (l *Log) FailAppends(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fail = err
}

// Hold keeps the high watermark where it is until Commit.
func (l *Log) Hold() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held = true
}

// Commit moves the high watermark to the end and lets it follow again.
func (l *Log) Commit() {
	l.mu.Lock()
	l.held, l.high = false, l.end
	l.mu.Unlock()
	l.release(nil)
}

// Drop tells everyone who waits that leadership is lost.
func (l *Log) Drop(err error) { l.release(err) }

func (l *Log) release(err error) {
	l.mu.Lock()
	waiters := l.waiters
	l.waiters = nil
	l.mu.Unlock()
	for _, w := range waiters {
		w.done(err)
	}
}

// Records decodes everything appended.
func (l *Log) Records() ([]batch.Record, error) {
	raw, err := l.Read(0, 1<<30)
	var out []batch.Record
	for len(raw) > 0 && err == nil {
		var b batch.Batch
		if b, raw, err = batch.Next(raw); err != nil {
			break
		}
		for r, rerr := range b.Records() {
			if rerr != nil {
				return out, rerr
			}
			r.Key, r.Value = append([]byte(nil), r.Key...), append([]byte(nil), r.Value...)
			out = append(out, r)
		}
	}
	return out, err
}
