package logstore

import (
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"sync/atomic"

	"grete/internal/sched"
	"grete/protocol/batch"
)

// segment is one .log file with its indexes. The last segment of a view is active: it alone grows.
type segment struct {
	log     *Log
	base    int64
	size    atomic.Int64 // bytes of whole batches; the file has no others but while an append runs
	deleted atomic.Bool  // its files carry .deleted, or are about to
	damaged atomic.Pointer[[]damagedSpan]

	// suffix is what the names of its files end in beyond their kind: nothing, .cleaned and .swap while compaction
	// makes the segment, .deleted and the like at its end. names: a file is not opened by name while names change.
	suffix atomic.Pointer[string]
	names  sched.RWMutex

	data    lazyFile
	offsets indexFile
	times   indexFile
	txns    *txnIndex
	// txnsChecked: the .txnindex, or its absence, is known to say what the log says.
	txnsChecked atomic.Bool
	// openAtEnd caches firstOpenAtEnd; truncation resets it.
	openAtEnd atomic.Int64

	// indexed: both index files have been loaded and looked sane, or were rebuilt. indexMu: one does it.
	indexed atomic.Bool
	rebuilt atomic.Bool
	stale   atomic.Bool // the index files are of before a truncation
	indexMu sched.Mutex
	// indexDirty: the index files hold more than was synced. Log.mu.
	indexDirty bool

	largestMu    sched.Mutex
	largest      timestampAt
	largestKnown bool
}

func (l *Log) newSegment(base, sizeBytes int64) *segment {
	s := &segment{log: l, base: base}
	s.suffix.Store(&noSuffix)
	s.openAtEnd.Store(openUnread)
	s.size.Store(sizeBytes)
	s.offsets = indexFile{segment: s, suffix: indexSuffix, entryBytes: offsetEntryBytes}
	s.times = indexFile{segment: s, suffix: timeIndexSuffix, entryBytes: timeEntryBytes}
	s.txns = newTxnIndex(l.store.files, base, func() string { return s.path(txnIndexSuffix) })
	s.txns.names = &s.names
	return s
}

var noSuffix = ""

// path is the present name of the segment's file of that kind.
func (s *segment) path(kind string) string {
	return s.log.file(fileName(s.base, kind) + *s.suffix.Load())
}

// snapshotPath is the producer state at the segment's base, which is the log's rather than the segment's.
func (s *segment) snapshotPath() string { return s.log.file(fileName(s.base, snapshotSuffix)) }

// open finds the file under whatever name it has: readers that took an older view of the log may finish.
func (s *segment) open(f *lazyFile, kind string) (*openFile, error) {
	if o := f.cached(); o != nil {
		return o, nil
	}
	s.names.RLock()
	defer s.names.RUnlock()
	return s.log.store.files.acquire(f, func() string { return s.path(kind) })
}

// fileKinds are a segment's own files.
var fileKinds = []string{logSuffix, indexSuffix, timeIndexSuffix, txnIndexSuffix}

// rename gives the segment's files another suffix; of those that do not exist, nothing is asked.
func (s *segment) rename(suffix string) error {
	s.names.Lock()
	defer s.names.Unlock()
	for _, kind := range fileKinds {
		err := s.log.store.o.FS.Rename(s.path(kind), s.log.file(fileName(s.base, kind)+suffix))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	s.suffix.Store(&suffix)
	return nil
}

// removeFiles closes the segment's files once nobody reads them, and removes them.
func (s *segment) removeFiles() error {
	s.forget()
	for _, kind := range fileKinds {
		if err := removeIfExists(s.log.store.o.FS, s.path(kind)); err != nil {
			return err
		}
	}
	return nil
}

func (s *segment) openData() (*openFile, error) { return s.open(&s.data, logSuffix) }

// forget closes the segment's files once nobody reads them.
func (s *segment) forget() {
	for _, f := range []*lazyFile{&s.data, &s.offsets.file, &s.times.file} {
		s.log.store.files.forget(f)
	}
	s.txns.forget()
}

// create makes the files of a new, empty segment.
func (s *segment) create() error {
	fsys := s.log.store.o.FS
	data, err := fsys.OpenFile(s.path(logSuffix), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	for _, suffix := range []string{indexSuffix, timeIndexSuffix} {
		if err := writeFile(fsys, s.path(suffix), nil, false); err != nil {
			return errors.Join(err, data.Close())
		}
	}
	s.log.store.files.install(&s.data, data).release()
	s.indexed.Store(true)
	s.txnsChecked.Store(true)
	s.setLargest(timestampAt{-1, s.base})
	return nil
}

func (s *segment) setLargest(t timestampAt) {
	s.largestMu.Lock()
	defer s.largestMu.Unlock()
	s.largest, s.largestKnown = t, true
}

func (s *segment) forgetLargest() {
	s.largestMu.Lock()
	defer s.largestMu.Unlock()
	s.largestKnown = false
}

// largestTimestamp is the largest timestamp in the segment, -1 without one.
func (s *segment) largestTimestamp() (timestampAt, error) {
	s.largestMu.Lock()
	t, known := s.largest, s.largestKnown
	s.largestMu.Unlock()
	if known {
		return t, nil
	}
	if err := s.ensureIndexes(); err != nil {
		return t, err
	}
	return s.loadLargest()
}

// loadLargest takes it from the last time entry, which every closed or reopened segment has.
func (s *segment) loadLargest() (timestampAt, error) {
	var entry [maxEntryBytes]byte
	some, err := s.times.last(&entry)
	if err != nil {
		return timestampAt{}, err
	}
	t := timestampAt{-1, s.base}
	if some {
		e := parseTimeEntry(entry[:])
		t = timestampAt{e.timestampMs, s.base + int64(e.relative)}
	}
	s.largestMu.Lock()
	defer s.largestMu.Unlock()
	if !s.largestKnown {
		s.largest, s.largestKnown = t, true
	}
	return s.largest, nil
}

// found is a batch in a segment.
type found struct {
	pos, size            int64
	baseOffset           int64
	lastOffset           int64
	maxTimestampMs       int64
	partitionLeaderEpoch int32
}

func foundBatch(pos int64, h batch.Batch) found {
	size, _ := batchSize(h)
	return found{pos, size, h.BaseOffset(), h.LastOffset(), h.MaxTimestamp(), h.PartitionLeaderEpoch()}
}

// suspiciousScanIntervals: a search that must scan more index intervals than this has been led astray by a
// damaged index (a lookup scans one, more only where index.interval.bytes was lowered since).
const (
	suspiciousScanIntervals = 16
	suspiciousScanMinBytes  = 64 << 10
)

var errIndexSuspicious = errors.New("index does not match the log")

// locate finds the first batch whose last offset is at or above offset; io.EOF when there is none. An index
// that contradicts the log is rebuilt on the way. Callers do not hold Log.mu.
func (s *segment) locate(offset int64) (found, error) {
	return s.locateOrRepair(offset, s.log.repairIndexes)
}

// locateHolding is locate for callers that hold Log.mu.
func (s *segment) locateHolding(offset int64) (found, error) {
	return s.locateOrRepair(offset, s.log.repairIndexesHolding)
}

func (s *segment) locateOrRepair(offset int64, repair func(*segment) error) (found, error) {
	if d := s.damageAt(offset); d != nil {
		return found{pos: d.pos, size: d.end - d.pos, baseOffset: d.from, lastOffset: d.to - 1}, nil
	}
	f, err := s.locateByIndex(offset)
	if !errors.Is(err, errIndexSuspicious) {
		return f, err
	}
	if err := repair(s); err != nil {
		return found{}, err
	}
	f, err = s.locateByIndex(offset)
	if errors.Is(err, errIndexSuspicious) {
		err = ErrCorrupt
	}
	return f, err
}

func (s *segment) locateByIndex(offset int64) (found, error) {
	size := s.size.Load()
	entry, some, err := s.floorEntry(offset)
	if err != nil {
		return found{}, err
	}
	o, err := s.openData()
	if err != nil {
		return found{}, err
	}
	defer o.release()
	scan := newHeaderScanner(o, size)
	defer scan.close()
	pos := s.pastDamage(int64(entry.pos), offset)
	if some && pos == int64(entry.pos) {
		h, err := scan.header(pos)
		if errors.Is(err, ErrCorrupt) || errors.Is(err, io.EOF) || err == nil && h.LastOffset() != s.base+int64(entry.relative) {
			return found{}, errIndexSuspicious
		}
	}
	return s.scanTo(scan, pos, offset)
}

func (s *segment) scanTo(scan *headerScanner, from, offset int64) (found, error) {
	allowed := max(suspiciousScanMinBytes, suspiciousScanIntervals*int64(s.log.config().IndexIntervalBytes))
	for pos, previous := from, from; ; {
		h, err := scan.header(pos)
		if err != nil {
			return found{}, err
		}
		f := foundBatch(pos, h)
		if f.lastOffset >= offset {
			return f, nil
		}
		if previous-from > allowed && !s.rebuilt.Load() && !s.stale.Load() {
			return found{}, errIndexSuspicious
		}
		previous, pos = pos, pos+f.size
	}
}

// suspicious makes what a garbled, cut or missing index file causes errIndexSuspicious.
func suspicious(err error) error {
	if errors.Is(err, ErrCorrupt) || errors.Is(err, fs.ErrNotExist) {
		return errIndexSuspicious
	}
	return err
}

// entryFrom is the first offset entry at or after a position, held against the log.
func (s *segment) entryFrom(pos int64) (offsetEntry, bool, error) {
	if err := s.ensureIndexes(); Heals(err) {
		return offsetEntry{}, false, errIndexSuspicious
	} else if err != nil {
		return offsetEntry{}, false, err
	}
	var raw [maxEntryBytes]byte
	i, err := s.offsets.search(func(e []byte) bool { return int64(parseOffsetEntry(e).pos) < pos }, &raw)
	if err != nil {
		return offsetEntry{}, false, suspicious(err)
	}
	some, err := s.offsets.entry(i+1, &raw)
	if err != nil || !some {
		return offsetEntry{}, false, suspicious(err)
	}
	e := parseOffsetEntry(raw[:])
	if int64(e.pos) < pos {
		return e, false, errIndexSuspicious
	}
	return e, true, s.verify(e)
}

// verify compares an entry with the batch at its position. Only a few entries of a file are looked at when it is
// loaded, so an entry whose untruth would not show must be verified.
func (s *segment) verify(e offsetEntry) error {
	if e.pos < 0 || int64(e.pos)+headerBytes > s.size.Load() {
		return errIndexSuspicious
	}
	o, err := s.openData()
	if err != nil {
		return err
	}
	defer o.release()
	buf := chunks.Get().(*[scanChunkBytes]byte)
	defer chunks.Put(buf)
	header := batch.Batch(buf[:headerBytes])
	if _, err := o.ReadAt(header, int64(e.pos)); err != nil {
		return err
	}
	if header.LastOffset() != s.base+int64(e.relative) {
		return errIndexSuspicious
	}
	return nil
}

// floorEntry is the last offset entry at or below offset; none where the index can be neither read nor made again for
// want of space or descriptors: reads then go through the log itself.
func (s *segment) floorEntry(offset int64) (offsetEntry, bool, error) {
	if err := s.ensureIndexes(); Heals(err) {
		return offsetEntry{}, false, nil
	} else if err != nil {
		return offsetEntry{}, false, err
	}
	relative := int32(min(max(offset-s.base, -1), math.MaxInt32))
	var entry [maxEntryBytes]byte
	i, err := s.offsets.search(func(e []byte) bool { return parseOffsetEntry(e).relative <= relative }, &entry)
	if err != nil || i < 0 {
		return offsetEntry{}, false, suspicious(err)
	}
	e := parseOffsetEntry(entry[:])
	if e.pos < 0 || int64(e.pos) >= s.size.Load() {
		return e, false, errIndexSuspicious
	}
	return e, true, nil
}
