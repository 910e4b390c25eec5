package logstore

import (
	"errors"
	"fmt"
	"io"
	"sort"

	"grete/internal/sched"
)

const (
	// blockEntries of an index file are searched with one read; pendingEntries are written together.
	blockEntries     = 64
	pendingEntries   = 8 * blockEntries
	offsetEntryBytes = 8  // relative offset int32, position int32 (Kafka's OffsetIndex)
	timeEntryBytes   = 12 // timestamp int64, relative offset int32 (Kafka's TimeIndex)
	maxEntryBytes    = timeEntryBytes
)

// indexFile is the .index or .timeindex of a segment: entries of one size with rising keys. Of each block in the
// file the first entry stays in memory (a fence), so that a search costs one read whatever the size. The newest
// entries of the active segment are in memory and reach the file when there are pendingEntries of them, at roll
// and at close; after a crash they are found again in the log.
type indexFile struct {
	segment    *segment
	suffix     string
	entryBytes int
	file       lazyFile

	mu      sched.RWMutex
	onDisk  int    // entries in the file that are not in pending; of an active segment whole blocks
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
	fences := make([]byte, 0, (entries+blockEntries-1)/blockEntries*x.entryBytes)
	chunk := make([]byte, min(pendingEntries, entries)*x.entryBytes)
	for from := 0; from < entries; from += pendingEntries {
		chunk = chunk[:min(pendingEntries, entries-from)*x.entryBytes]
		if err := x.readEntries(o, from, chunk); err != nil {
			return err
		}
		for at := 0; at < len(chunk); at += blockEntries * x.entryBytes {
			fence := chunk[at:][:x.entryBytes]
			if n := len(fences); n > 0 && !less(fences[n-x.entryBytes:], fence) {
				return fmt.Errorf("%w: index entries fall", ErrCorrupt)
			}
			fences = append(fences, fence...)
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
	buf := chunks.Get().(*[scanChunkBytes]byte)
	defer chunks.Put(buf)
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
	if len(x.pending) < pendingEntries*x.entryBytes {
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

// retire forgets entries that are in the file, all but the fences of their blocks.
func (x *indexFile) retire() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.fencePending()
	x.pending = x.pending[:0]
}

// fencePending counts pending as entries of the file; onDisk is whole blocks before.
func (x *indexFile) fencePending() {
	for at := 0; at < len(x.pending); at += blockEntries * x.entryBytes {
		x.fences = append(x.fences, x.pending[at:][:x.entryBytes]...)
	}
	x.onDisk += len(x.pending) / x.entryBytes
	x.written = 0
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
	x.fencePending()
	x.pending = nil
}

func (x *indexFile) sync() error {
	o, err := x.segment.open(&x.file, x.suffix)
	if err != nil {
		return err
	}
	defer o.release()
	return o.Sync()
}
