package logstore

import (
	"errors"
	"fmt"
	"io"
	"sort"
	"sync"
)

const (
	// blockEntries of an index file are read, searched and written together.
	blockEntries     = 512
	offsetEntryBytes = 8  // relative offset int32, position int32 (Kafka's OffsetIndex)
	timeEntryBytes   = 12 // timestamp int64, relative offset int32 (Kafka's TimeIndex)
	maxEntryBytes    = timeEntryBytes
)

// indexFile is the .index or .timeindex of a segment: entries of one size with rising keys. Whole blocks are in
// the file, and the first entry of each stays in memory (a fence), so that a search costs one read whatever
// the size. The entries of the unfinished last block of the active segment are in memory and reach the file
// when the block is full, at roll and at close; after a crash they are found again in the log.
type indexFile struct {
	segment    *segment
	suffix     string
	entryBytes int
	file       lazyFile

	mu      sync.RWMutex
	onDisk  int    // entries in the file that are not in pending; of an active segment a multiple of blockEntries
	fences  []byte // first entry of each block in onDisk
	pending []byte // entries after onDisk
	written int    // bytes of pending that are in the file
}

// load reads the fences of a file of sizeBytes. ErrCorrupt: no whole number of entries, or keys that fall.
func (x *indexFile) load(sizeBytes int64, less func(a, b []byte) bool) error {
	if sizeBytes%int64(x.entryBytes) != 0 {
		return fmt.Errorf("%w: index of %d bytes", ErrCorrupt, sizeBytes)
	}
	o, err := x.segment.open(&x.file, x.suffix)
	if err != nil {
		return err
	}
	defer o.release()
	entries := int(sizeBytes) / x.entryBytes
	blocks := (entries + blockEntries - 1) / blockEntries
	fences := make([]byte, blocks*x.entryBytes)
	for b := range blocks {
		if err := x.readEntries(o, b*blockEntries, fences[b*x.entryBytes:][:x.entryBytes]); err != nil {
			return err
		}
		if b > 0 && !less(fences[(b-1)*x.entryBytes:], fences[b*x.entryBytes:]) {
			return fmt.Errorf("%w: index entries fall", ErrCorrupt)
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.onDisk, x.fences, x.pending, x.written = entries, fences, nil, 0
	return nil
}

func (x *indexFile) readEntries(o *openFile, from int, into []byte) error {
	n, err := o.ReadAt(into, int64(from)*int64(x.entryBytes))
	if n == len(into) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: index is shorter than it was", ErrCorrupt)
	}
	return err
}

func (x *indexFile) len() int {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.onDisk + len(x.pending)/x.entryBytes
}

// search copies into found the last entry for which atOrBelow holds (it must hold for a prefix of the entries),
// and returns its number, -1 when it holds for none.
func (x *indexFile) search(atOrBelow func(entry []byte) bool, found *[maxEntryBytes]byte) (int, error) {
	first, count, inMemory := x.block(atOrBelow, found)
	if inMemory || count == 0 {
		return first, nil
	}
	o, err := x.segment.open(&x.file, x.suffix)
	if err != nil {
		return 0, err
	}
	defer o.release()
	var buf [blockEntries * maxEntryBytes]byte
	block := buf[:count*x.entryBytes]
	if err := x.readEntries(o, first, block); err != nil {
		return 0, err
	}
	i := searchEntries(block, x.entryBytes, atOrBelow)
	if i < 0 {
		return 0, fmt.Errorf("%w: index changed under its fence", ErrCorrupt)
	}
	copy(found[:], block[i*x.entryBytes:][:x.entryBytes])
	return first + i, nil
}

// block finds where to search: an entry in memory, whose number is returned with inMemory, or count entries of
// the file from first on; count 0 and first -1 when atOrBelow holds for no entry.
func (x *indexFile) block(atOrBelow func([]byte) bool, found *[maxEntryBytes]byte) (first, count int, inMemory bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if i := searchEntries(x.pending, x.entryBytes, atOrBelow); i >= 0 {
		copy(found[:], x.pending[i*x.entryBytes:][:x.entryBytes])
		return x.onDisk + i, 0, true
	}
	b := searchEntries(x.fences, x.entryBytes, atOrBelow)
	if b < 0 {
		return -1, 0, false
	}
	return b * blockEntries, min(blockEntries, x.onDisk-b*blockEntries), false
}

// searchEntries is the number of the last entry for which atOrBelow holds, -1 for none.
func searchEntries(entries []byte, size int, atOrBelow func([]byte) bool) int {
	return sort.Search(len(entries)/size, func(i int) bool { return !atOrBelow(entries[i*size:][:size]) }) - 1
}

// entry copies entry i; false when there is none.
func (x *indexFile) entry(i int, into *[maxEntryBytes]byte) (bool, error) {
	x.mu.RLock()
	onDisk := x.onDisk
	if at := (i - onDisk) * x.entryBytes; i >= onDisk && at < len(x.pending) {
		copy(into[:], x.pending[at:][:x.entryBytes])
		x.mu.RUnlock()
		return true, nil
	}
	x.mu.RUnlock()
	if i < 0 || i >= onDisk {
		return false, nil
	}
	o, err := x.segment.open(&x.file, x.suffix)
	if err != nil {
		return false, err
	}
	defer o.release()
	return true, x.readEntries(o, i, into[:x.entryBytes])
}

// last copies the last entry; false when there is none.
func (x *indexFile) last(found *[maxEntryBytes]byte) (bool, error) {
	i, err := x.search(func([]byte) bool { return true }, found)
	return i >= 0, err
}

// openTail takes the unfinished last block into memory, so that append can go on. Writer only.
func (x *indexFile) openTail() error {
	if x.pending != nil {
		return nil
	}
	whole := x.onDisk / blockEntries * blockEntries
	tail := make([]byte, (x.onDisk-whole)*x.entryBytes)
	if len(tail) > 0 {
		o, err := x.segment.open(&x.file, x.suffix)
		if err != nil {
			return err
		}
		defer o.release()
		if err := x.readEntries(o, whole, tail); err != nil {
			return err
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.pending, x.written, x.onDisk = tail, len(tail), whole
	x.fences = x.fences[:whole/blockEntries*x.entryBytes]
	return nil
}

// reserve makes room for one more entry; then append cannot fail. Writer only, after openTail.
func (x *indexFile) reserve() error {
	if len(x.pending) < blockEntries*x.entryBytes {
		return nil
	}
	if err := x.flush(); err != nil {
		return err
	}
	x.retire()
	return nil
}

// append adds an entry whose key is above all others. Writer only, after reserve.
func (x *indexFile) append(entry []byte) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.pending = append(x.pending, entry...)
}

// retire forgets a full block that is in the file, all but its fence.
func (x *indexFile) retire() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.fences = append(x.fences, x.pending[:x.entryBytes]...)
	x.onDisk += blockEntries
	x.pending, x.written = x.pending[:0], 0
}

// flush writes what the file does not have yet. Writer only.
func (x *indexFile) flush() error {
	if x.written == len(x.pending) {
		return nil
	}
	o, err := x.segment.open(&x.file, x.suffix)
	if err != nil {
		return err
	}
	defer o.release()
	at := int64(x.onDisk)*int64(x.entryBytes) + int64(x.written)
	if _, err := o.WriteAt(x.pending[x.written:], at); err != nil {
		return err
	}
	x.written = len(x.pending)
	return nil
}

// seal lets go of the memory of a flushed index that no append will touch any more. Writer only.
func (x *indexFile) seal() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.pending) > 0 {
		x.fences = append(x.fences, x.pending[:x.entryBytes]...)
		x.onDisk += len(x.pending) / x.entryBytes
	}
	x.pending, x.written = nil, 0
}

func (x *indexFile) sync() error {
	o, err := x.segment.open(&x.file, x.suffix)
	if err != nil {
		return err
	}
	defer o.release()
	return o.Sync()
}
