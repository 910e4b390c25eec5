package logstore

import (
	"slices"
	"sort"
	"sync/atomic"
)

// epochCache is Kafka's LeaderEpochFileCache: where each leader epoch begins. Changed under the log's lock,
// read without it. The checkpoint file may lag behind: entries at or above the recovery point are found again
// in the batches, so the file is written before the recovery point passes them, and at close. An epoch that
// begins at the log end and has no batch stays out of the file: a load would drop it.
type epochCache struct {
	entries atomic.Pointer[[]epochEntry]
	dirty   bool         // the file may not hold entries; Log.mu
	written []epochEntry // what the file holds, as far as that is known; Log.mu
}

func (c *epochCache) all() []epochEntry {
	if p := c.entries.Load(); p != nil {
		return *p
	}
	return nil
}

func (c *epochCache) set(entries []epochEntry, dirty bool) {
	c.entries.Store(&entries)
	c.dirty = c.dirty || dirty
}

// due is what the file is to hold of a log that ends at end, nil when it holds that already. The caller writes it, or
// calls unwritten.
func (c *epochCache) due(end int64) []byte {
	if !c.dirty {
		return nil
	}
	all := c.all()
	began := all[:sort.Search(len(all), func(i int) bool { return all[i].start >= end })]
	c.dirty = len(began) < len(all)
	if slices.Equal(began, c.written) {
		return nil
	}
	c.written = began
	return encodeEpochs(began)
}

// unwritten notes that the file may hold anything.
func (c *epochCache) unwritten() { c.written, c.dirty = []epochEntry{{-1, -1}}, true }

// assign notes that epoch begins at start. Entries that contradict it go: those of the same or a later epoch,
// and those that begin at or after start.
func (c *epochCache) assign(epoch int32, start int64) {
	old := c.all()
	if n := len(old); n > 0 && old[n-1].epoch == epoch && old[n-1].start <= start {
		return
	}
	keep := len(old)
	for keep > 0 && (old[keep-1].epoch >= epoch || old[keep-1].start >= start) {
		keep--
	}
	c.set(append(slices.Clone(old[:keep]), epochEntry{epoch, start}), true)
}

// cutEnd removes entries at and above end.
func (c *epochCache) cutEnd(end int64) {
	old := c.all()
	keep := sort.Search(len(old), func(i int) bool { return old[i].start >= end })
	if keep < len(old) {
		c.set(slices.Clone(old[:keep]), true)
	}
}

// cutStart makes the entry that covers start begin there and removes those before it.
func (c *epochCache) cutStart(start int64) {
	old := c.all()
	covering := sort.Search(len(old), func(i int) bool { return old[i].start > start }) - 1
	if covering < 0 || (covering == 0 && old[0].start == start) {
		return
	}
	kept := slices.Clone(old[covering:])
	kept[0].start = start
	c.set(kept, true)
}

func (c *epochCache) latest() int32 {
	entries := c.all()
	if len(entries) == 0 {
		return -1
	}
	return entries[len(entries)-1].epoch
}

// at is the epoch of the record at offset, -1 when it precedes all entries.
func (c *epochCache) at(offset int64) int32 {
	entries := c.all()
	i := sort.Search(len(entries), func(i int) bool { return entries[i].start > offset })
	if i == 0 {
		return -1
	}
	return entries[i-1].epoch
}

// end answers OffsetForLeaderEpoch as Kafka does: the current epoch ends at the log end; an epoch above it is
// unknown; one below all known ends where the first known begins, under its own number.
func (c *epochCache) end(epoch int32, logEnd int64) (int32, int64) {
	entries := c.all()
	higher := sort.Search(len(entries), func(i int) bool { return entries[i].epoch > epoch })
	switch {
	case epoch == -1: // "unknown"; Kafka takes any other number below all epochs as one
		return -1, -1
	case higher == len(entries) && higher > 0 && entries[higher-1].epoch == epoch:
		return epoch, logEnd
	case higher == len(entries):
		return -1, -1
	case higher == 0:
		return epoch, entries[0].start
	}
	return entries[higher-1].epoch, entries[higher].start
}

// LatestEpoch is the last epoch assigned, -1 when none.
func (l *Log) LatestEpoch() int32 { return l.epochs.latest() }

// EpochAt is the leader epoch of the record at offset, -1 when unknown.
func (l *Log) EpochAt(offset int64) int32 { return l.epochs.at(offset) }

// EpochEnd answers OffsetForLeaderEpoch: the largest known epoch <= epoch and its end offset (-1, -1 when unknown).
func (l *Log) EpochEnd(epoch int32) (foundEpoch int32, endOffset int64) {
	return l.epochs.end(epoch, l.EndOffset())
}

// AssignEpoch records that epoch starts at the log end.
func (l *Log) AssignEpoch(epoch int32) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usable("assign epoch"); err != nil {
		return err
	}
	if epoch >= 0 {
		l.epochs.assign(epoch, l.EndOffset())
	}
	return nil
}
