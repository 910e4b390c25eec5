package logstore

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"path"
	"slices"
	"strings"

	"grete/internal/vfs"
	"grete/protocol/batch"
)

// A .snapshot file (Kafka's ProducerSnapshot, version 1, the only one it reads): version int16, CRC-32C uint32 of what
// follows, count int32, then the producers.
const (
	snapshotVersion     = 1
	snapshotCRCAt       = 2
	snapshotEntriesAt   = 6
	snapshotHeaderBytes = 10
	snapshotEntryBytes  = 46
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// encodeSnapshot writes the producers by id; of each, only its last batch.
func encodeSnapshot(producers map[int64]*producerEntry) []byte {
	entries := make([]*producerEntry, 0, len(producers))
	for _, e := range producers {
		entries = append(entries, e)
	}
	slices.SortFunc(entries, func(a, b *producerEntry) int { return cmp.Compare(a.id, b.id) })

	be := binary.BigEndian
	data := make([]byte, snapshotHeaderBytes, snapshotHeaderBytes+len(entries)*snapshotEntryBytes)
	be.PutUint16(data, snapshotVersion)
	be.PutUint32(data[snapshotEntriesAt:], uint32(len(entries)))
	for _, e := range entries {
		last := batchMeta{lastOffset: -1, lastSeq: batch.NoSequence}
		if b := e.lastBatch(); b != nil {
			last = *b
		}
		data = be.AppendUint64(data, uint64(e.id))
		data = be.AppendUint16(data, uint16(e.epoch))
		data = be.AppendUint32(data, uint32(last.lastSeq))
		data = be.AppendUint64(data, uint64(last.lastOffset))
		data = be.AppendUint32(data, uint32(last.offsetDelta))
		data = be.AppendUint64(data, uint64(e.lastTimestampMs))
		data = be.AppendUint32(data, uint32(e.coordinatorEpoch))
		data = be.AppendUint64(data, uint64(e.txnFirstOffset))
	}
	return signSnapshot(data)
}

func signSnapshot(data []byte) []byte {
	binary.BigEndian.PutUint32(data[snapshotCRCAt:], crc32.Checksum(data[snapshotEntriesAt:], castagnoli))
	return data
}

// decodeSnapshot returns the producers of a snapshot file, or ErrCorrupt.
func decodeSnapshot(data []byte) ([]*producerEntry, error) {
	be := binary.BigEndian
	if len(data) < snapshotHeaderBytes {
		return nil, fmt.Errorf("%w: producer snapshot of %d bytes", ErrCorrupt, len(data))
	}
	if v := int16(be.Uint16(data)); v != snapshotVersion {
		return nil, fmt.Errorf("%w: producer snapshot of version %d", ErrCorrupt, v)
	}
	if stored, sum := be.Uint32(data[snapshotCRCAt:]), crc32.Checksum(data[snapshotEntriesAt:], castagnoli); stored != sum {
		return nil, fmt.Errorf("%w: producer snapshot's checksum is %#x, stored is %#x", ErrCorrupt, sum, stored)
	}
	count, rest := int32(be.Uint32(data[snapshotEntriesAt:])), data[snapshotHeaderBytes:]
	if count < 0 || int64(count)*snapshotEntryBytes > int64(len(rest)) {
		return nil, fmt.Errorf("%w: producer snapshot of %d entries in %d bytes", ErrCorrupt, count, len(rest))
	}
	entries := make([]*producerEntry, count)
	for i := range entries {
		entries[i] = decodeProducer(rest[i*snapshotEntryBytes:])
	}
	return entries, nil
}

func decodeProducer(data []byte) *producerEntry {
	be := binary.BigEndian
	e := &producerEntry{
		id:               int64(be.Uint64(data)),
		epoch:            int16(be.Uint16(data[8:])),
		lastTimestampMs:  int64(be.Uint64(data[26:])),
		coordinatorEpoch: int32(be.Uint32(data[34:])),
		txnFirstOffset:   max(int64(be.Uint64(data[38:])), -1),
	}
	last := batchMeta{
		lastSeq:     int32(be.Uint32(data[10:])),
		lastOffset:  int64(be.Uint64(data[14:])),
		offsetDelta: int32(be.Uint32(data[22:])),
		timestampMs: e.lastTimestampMs,
	}
	if last.lastOffset >= 0 {
		e.addBatch(last)
	}
	return e
}

// takeSnapshot writes the state as of end, unless the newest snapshot has it already. The directory is the caller's
// to sync.
func (p *producerState) takeSnapshot(sync bool) error {
	if p.end <= p.snapshotEnd {
		return nil
	}
	if err := writeFile(p.fs, p.snapshotPath(p.end), encodeSnapshot(p.producers), sync); err != nil {
		return err
	}
	p.snapshotEnd = p.end
	return nil
}

func (p *producerState) snapshotPath(offset int64) string {
	return path.Join(p.dir, fileName(offset, snapshotSuffix))
}

// snapshotOffsets lists the snapshot files, the oldest first.
func (p *producerState) snapshotOffsets() ([]int64, error) {
	entries, err := p.fs.ReadDir(p.dir)
	if err != nil {
		return nil, err
	}
	var offsets []int64
	for _, entry := range entries {
		if strings.HasSuffix(entry.Name(), snapshotSuffix) && !entry.IsDir() {
			if offset, ok := offsetOfFile(entry.Name()); ok {
				offsets = append(offsets, offset)
			}
		}
	}
	slices.Sort(offsets)
	return offsets, nil
}

// reload makes the state that of a log of [logStart, logEnd): snapshots outside are removed, and unless the state
// ends at logEnd already it is loaded from the newest sound one. The caller then replays the log from p.end with
// update. A corrupt snapshot is removed and the one before it taken.
func (p *producerState) reload(logStart, logEnd, nowMs, expirationMs int64) error {
	offsets, err := p.snapshotOffsets()
	if err != nil {
		return err
	}
	outside := func(offset int64) bool { return offset > logEnd || offset <= logStart }
	if err := p.removeSnapshots(offsets, outside); err != nil {
		return err
	}
	offsets = slices.DeleteFunc(offsets, outside)
	if p.end == logEnd {
		p.onLogStart(logStart)
		p.snapshotEnd = logStart
		if len(offsets) > 0 {
			p.snapshotEnd = offsets[len(offsets)-1]
		}
		return nil
	}
	return p.loadNewest(offsets, logStart, nowMs, expirationMs)
}

func (p *producerState) loadNewest(offsets []int64, logStart, nowMs, expirationMs int64) error {
	for _, offset := range slices.Backward(offsets) {
		err := p.loadSnapshot(offset, nowMs, expirationMs)
		if !errors.Is(err, ErrCorrupt) {
			return err
		}
		if err := removeIfExists(p.fs, p.snapshotPath(offset)); err != nil {
			return err
		}
	}
	p.reset(logStart)
	p.snapshotEnd = logStart
	return nil
}

// loadSnapshot replaces the state by a snapshot's.
func (p *producerState) loadSnapshot(offset, nowMs, expirationMs int64) error {
	data, err := readFile(p.fs, p.snapshotPath(offset))
	if errors.Is(err, vfs.ErrTooLarge) {
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if err != nil {
		return err
	}
	entries, err := decodeSnapshot(data)
	if err != nil {
		return err
	}
	p.reset(offset)
	p.snapshotEnd = offset
	for _, e := range entries {
		if !e.expired(nowMs, expirationMs) {
			*p.entry(e.id) = *e
		}
	}
	for _, e := range p.producers {
		if e.txnFirstOffset >= 0 {
			p.ongoing = append(p.ongoing, openTxn{e.id, e.txnFirstOffset, -1})
		}
	}
	slices.SortFunc(p.ongoing, func(a, b openTxn) int { return cmp.Compare(a.firstOffset, b.firstOffset) })
	return nil
}

// removeStraySnapshots removes those that no segment starts at, except the newest if it lies above all segments'
// bases: that one is of a clean stop. bases ascend.
func (p *producerState) removeStraySnapshots(bases []int64) error {
	offsets, err := p.snapshotOffsets()
	if err != nil || len(bases) == 0 {
		return err
	}
	keep := int64(-1)
	if n := len(offsets); n > 0 && offsets[n-1] > bases[len(bases)-1] {
		keep = offsets[n-1]
	}
	return p.removeSnapshots(offsets, func(offset int64) bool {
		_, found := slices.BinarySearch(bases, offset)
		return !found && offset != keep
	})
}

func (p *producerState) removeSnapshots(offsets []int64, match func(int64) bool) error {
	for _, offset := range offsets {
		if !match(offset) {
			continue
		}
		if err := removeIfExists(p.fs, p.snapshotPath(offset)); err != nil {
			return err
		}
	}
	return nil
}
