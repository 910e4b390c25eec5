package logstore

import (
	"cmp"
	"maps"
	"slices"

	"grete/internal/memory"
	"grete/internal/vfs"
	"grete/protocol/batch"
)

const (
	// batchesRetained is how many of a producer's last batches are remembered to recognise duplicates.
	batchesRetained = 5
	// maxProducers bounds the producers that one log remembers. Past it an eighth of them, those silent for longest
	// and without an open transaction, are forgotten, as expiry would.
	maxProducers = 100_000
	noEpoch      = int16(-1)
)

// producerState is what a log remembers of idempotent and transactional producers (Kafka's ProducerStateManager). Its
// caller, the log, serialises all use. It holds no memory until a producer writes.
type producerState struct {
	fs        vfs.FS
	dir       string // the log's directory
	producers map[int64]*producerEntry
	lends     *memory.Account // nil: counted nowhere
	counted   int             // producers that are counted there
	// ongoing transactions, by first offset; completed ones whose marker is not below the high watermark, by first
	// offset.
	ongoing      []openTxn
	unreplicated []openTxn
	verifying    verifications
	// end is the offset up to which (exclusive) the state has seen the log; snapshotEnd that of the newest snapshot
	// file.
	end, snapshotEnd int64
}

// producerEntry is one producer.
type producerEntry struct {
	id               int64
	lastTimestampMs  int64
	txnFirstOffset   int64 // -1 without an open transaction
	coordinatorEpoch int32 // of the last end marker, -1 when none
	epoch            int16
	batchCount       uint8
	batches          [batchesRetained]batchMeta // the oldest first
}

// batchMeta is one batch a producer wrote.
type batchMeta struct {
	lastOffset  int64
	timestampMs int64
	lastSeq     int32
	offsetDelta int32 // last offset − first offset
}

func (m *batchMeta) firstOffset() int64 { return m.lastOffset - int64(m.offsetDelta) }
func (m *batchMeta) firstSeq() int32    { return batch.DecrementSequence(m.lastSeq, m.offsetDelta) }

// openTxn is a transaction's first offset and, once it is completed, its marker's offset.
type openTxn struct {
	producerID, firstOffset, lastOffset int64
}

func newProducerState(fs vfs.FS, dir string) producerState {
	return producerState{fs: fs, dir: dir}
}

func (e *producerEntry) lastBatch() *batchMeta {
	if e.batchCount == 0 {
		return nil
	}
	return &e.batches[e.batchCount-1]
}

func (e *producerEntry) lastSeq() int32 {
	if last := e.lastBatch(); last != nil {
		return last.lastSeq
	}
	return batch.NoSequence
}

// findDuplicate returns the remembered batch with the same epoch and sequences, or nil.
func (e *producerEntry) findDuplicate(b batch.Batch) *batchMeta {
	if b.ProducerEpoch() != e.epoch {
		return nil
	}
	for i := range e.batchCount {
		if m := &e.batches[i]; m.lastSeq == b.LastSequence() && m.firstSeq() == b.BaseSequence() {
			return m
		}
	}
	return nil
}

// setEpoch forgets the batches of an older epoch: sequences start again.
func (e *producerEntry) setEpoch(epoch int16) {
	if e.epoch != epoch {
		e.epoch, e.batchCount = epoch, 0
	}
}

func (e *producerEntry) addBatch(m batchMeta) {
	if e.batchCount == batchesRetained {
		copy(e.batches[:], e.batches[1:])
		e.batchCount--
	}
	e.batches[e.batchCount] = m
	e.batchCount++
}

// entry returns the producer's entry, making room and one if there is none.
func (p *producerState) entry(id int64) *producerEntry {
	if e := p.producers[id]; e != nil {
		return e
	}
	if p.producers == nil {
		p.producers = map[int64]*producerEntry{}
	}
	if n := len(p.producers); n >= maxProducers || p.crowded() {
		p.forgetOldest(max(n/8, 1))
	}
	e := &producerEntry{id: id, epoch: noEpoch, coordinatorEpoch: -1, txnFirstOffset: -1, lastTimestampMs: batch.NoTimestamp}
	p.producers[id] = e
	p.recount()
	return e
}

func (p *producerState) forgetOldest(n int) {
	idle := make([]*producerEntry, 0, len(p.producers))
	for _, e := range p.producers {
		if e.txnFirstOffset < 0 {
			idle = append(idle, e)
		}
	}
	slices.SortFunc(idle, func(a, b *producerEntry) int { return cmp.Compare(a.lastTimestampMs, b.lastTimestampMs) })
	for _, e := range idle[:min(n, len(idle))] {
		delete(p.producers, e.id)
	}
}

// update takes note of a batch that is in the log, as its leader or as a follower: no checks. When it ends a
// transaction by an abort, aborted is the entry for the transaction index.
func (p *producerState) update(b batch.Batch) (aborted AbortedTxn, ok bool) {
	p.end = b.LastOffset() + 1
	if b.ProducerID() <= batch.NoProducerID {
		return AbortedTxn{}, false
	}
	if b.Transactional() && !p.verifyingNext(b) {
		p.verifying.end(b.ProducerID()) // it has begun, or ended
	}
	if b.Control() {
		return p.endTxn(b)
	}
	e := p.entry(b.ProducerID())
	e.setEpoch(b.ProducerEpoch())
	e.addBatch(batchMeta{b.LastOffset(), b.MaxTimestamp(), b.LastSequence(), b.LastOffsetDelta()})
	e.lastTimestampMs = b.MaxTimestamp()
	if b.Transactional() && e.txnFirstOffset < 0 {
		e.txnFirstOffset = b.BaseOffset()
		p.ongoing = append(p.ongoing, openTxn{e.id, b.BaseOffset(), -1})
	}
	return AbortedTxn{}, false
}

// endTxn takes note of an end marker.
func (p *producerState) endTxn(b batch.Batch) (aborted AbortedTxn, ok bool) {
	marker, err := parseEndMarker(b)
	if err != nil { // emptied by compaction, or another kind of control record
		return AbortedTxn{}, false
	}
	e := p.entry(b.ProducerID())
	first := e.txnFirstOffset
	e.setEpoch(b.ProducerEpoch())
	e.coordinatorEpoch = marker.coordinatorEpoch
	e.lastTimestampMs = marker.timestampMs
	e.txnFirstOffset = -1
	if first < 0 {
		return AbortedTxn{}, false
	}
	aborted = AbortedTxn{e.id, first, b.BaseOffset(), p.stableAfter(e.id, b.BaseOffset())}
	p.complete(openTxn{e.id, first, b.BaseOffset()})
	return aborted, !marker.commit
}

// stableAfter is the last stable offset once the producer's transaction with its marker at lastOffset is complete.
func (p *producerState) stableAfter(producerID, lastOffset int64) int64 {
	for _, txn := range p.ongoing {
		if txn.producerID != producerID {
			return txn.firstOffset
		}
	}
	return lastOffset + 1
}

func compareFirstOffset(txn openTxn, offset int64) int { return cmp.Compare(txn.firstOffset, offset) }

func (p *producerState) complete(txn openTxn) {
	if i, found := slices.BinarySearchFunc(p.ongoing, txn.firstOffset, compareFirstOffset); found {
		p.ongoing = slices.Delete(p.ongoing, i, i+1)
	}
	i, _ := slices.BinarySearchFunc(p.unreplicated, txn.firstOffset, compareFirstOffset)
	p.unreplicated = slices.Insert(p.unreplicated, i, txn)
}

// firstUnstable is the first offset of the earliest transaction that is undecided, or decided by a marker that is not
// below the high watermark; -1 when there is none.
func (p *producerState) firstUnstable() int64 {
	first := int64(-1)
	if len(p.ongoing) > 0 {
		first = p.ongoing[0].firstOffset
	}
	if len(p.unreplicated) > 0 && (first < 0 || p.unreplicated[0].firstOffset < first) {
		first = p.unreplicated[0].firstOffset
	}
	return first
}

// onHighWatermark lets go of transactions whose markers are replicated.
func (p *producerState) onHighWatermark(hw int64) {
	if len(p.unreplicated) > 0 {
		p.unreplicated = slices.DeleteFunc(p.unreplicated, func(txn openTxn) bool { return txn.lastOffset < hw })
	}
}

// onLogStart follows an increased log start offset.
func (p *producerState) onLogStart(logStart int64) {
	p.onHighWatermark(logStart)
	p.end = max(p.end, logStart)
}

// expire forgets producers without an open transaction that have been silent for expirationMs
// (producer.id.expiration.ms).
func (p *producerState) expire(nowMs, expirationMs int64) {
	maps.DeleteFunc(p.producers, func(_ int64, e *producerEntry) bool { return e.expired(nowMs, expirationMs) })
	p.verifying.expire(nowMs - expirationMs)
	if len(p.producers) == 0 {
		p.producers = nil
	}
	p.recount()
}

func (e *producerEntry) expired(nowMs, expirationMs int64) bool {
	return e.txnFirstOffset < 0 && nowMs-e.lastTimestampMs >= expirationMs
}

// reset forgets everything, as of a log that is empty at end.
func (p *producerState) reset(end int64) {
	p.producers, p.ongoing, p.unreplicated = nil, nil, nil
	p.end = end
	p.recount()
}
