package logstore

import (
	"encoding/binary"
)

// offsetEntry and timeEntry are what .index and .timeindex hold, with offsets relative to the segment's base.
type offsetEntry struct {
	relative int32 // last offset of the batch
	pos      int32 // where the batch begins
}

type timeEntry struct {
	timestampMs int64 // largest up to here
	relative    int32 // last offset of the batch that has it
}

func parseOffsetEntry(b []byte) offsetEntry {
	return offsetEntry{int32(binary.BigEndian.Uint32(b)), int32(binary.BigEndian.Uint32(b[4:]))}
}

func (e offsetEntry) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(e.relative))
	return binary.BigEndian.AppendUint32(b, uint32(e.pos))
}

func parseTimeEntry(b []byte) timeEntry {
	return timeEntry{int64(binary.BigEndian.Uint64(b)), int32(binary.BigEndian.Uint32(b[8:]))}
}

func (e timeEntry) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(e.timestampMs))
	return binary.BigEndian.AppendUint32(b, uint32(e.relative))
}

func offsetEntriesRise(a, b []byte) bool {
	x, y := parseOffsetEntry(a), parseOffsetEntry(b)
	return x.relative < y.relative && x.pos < y.pos
}

func timeEntriesRise(a, b []byte) bool {
	x, y := parseTimeEntry(a), parseTimeEntry(b)
	return x.timestampMs < y.timestampMs && x.relative <= y.relative
}

// timestampAt is a timestamp with the last offset of the batch that holds it; -1 when there is none.
type timestampAt struct{ timestampMs, offset int64 }

// indexer decides, batch by batch, when index entries are due (LogSegment.append).
type indexer struct {
	sinceEntry  int64 // bytes since the batch of the last offset entry, that batch included
	largest     timestampAt
	lastIndexed int64 // timestamp of the last time entry
}

func newIndexer(base int64) indexer {
	return indexer{largest: timestampAt{-1, base}, lastIndexed: -1}
}

// observe takes the next batch and tells whether it gets an offset entry.
func (x *indexer) observe(lastOffset, maxTimestampMs, sizeBytes int64, intervalBytes int32) bool {
	if maxTimestampMs > x.largest.timestampMs {
		x.largest = timestampAt{maxTimestampMs, lastOffset}
	}
	due := x.sinceEntry > int64(intervalBytes)
	if due {
		x.sinceEntry = 0
	}
	x.sinceEntry += sizeBytes
	return due
}

// timeDue tells whether the largest timestamp is above the last time entry, and notes that it gets one.
func (x *indexer) timeDue() bool {
	due := x.largest.timestampMs > x.lastIndexed
	if due {
		x.lastIndexed = x.largest.timestampMs
	}
	return due
}

// indexBuilder collects the entries of a whole segment in memory.
type indexBuilder struct {
	indexer
	base           int64
	offsets, times []byte
}

func (x *indexBuilder) add(lastOffset, maxTimestampMs, pos, sizeBytes int64, intervalBytes int32) {
	if x.observe(lastOffset, maxTimestampMs, sizeBytes, intervalBytes) {
		x.offsets = offsetEntry{int32(lastOffset - x.base), int32(pos)}.append(x.offsets)
		x.addTime()
	}
}

// addTime is called once more after the last batch: the last time entry is the segment's largest timestamp.
func (x *indexBuilder) addTime() {
	if x.timeDue() {
		x.times = timeEntry{x.largest.timestampMs, int32(x.largest.offset - x.base)}.append(x.times)
	}
}
