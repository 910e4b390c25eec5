package logstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"

	"grete/internal/sched"
)

// An entry of a .txnindex file (Kafka's AbortedTxn, version 0): version int16, producer id, first offset, offset of
// the abort marker, last stable offset, each int64. Entries are in the order of their markers.
const (
	txnEntryBytes   = 34
	txnEntryVersion = 0
	// txnBlockEntries is how many entries are read at once.
	txnBlockEntries = 64
)

// txnIndex is the transaction index of one segment: the transactions aborted by a marker in it. The file exists only
// once there is an entry. The log serialises its changes; readers come at any time.
type txnIndex struct {
	cache *fileCache
	base  int64 // the segment's
	path  func() string
	names *sched.RWMutex // held while path's answer is used
	file  lazyFile
	count atomic.Int64 // entries; -1 until the file was looked at
	last  int64        // last entry's LastOffset, of changes' knowledge only; -1 when none
	// reserved is the file, kept open between reserve and settle; its size is then that of room for more entries.
	reserved *openFile
}

func newTxnIndex(cache *fileCache, base int64, path func() string) *txnIndex {
	x := &txnIndex{cache: cache, base: base, path: path, names: new(sched.RWMutex), last: -1}
	x.count.Store(-1)
	return x
}

// entries returns the number of whole entries; a cut one at the end is not there.
func (x *txnIndex) entries() (int64, error) {
	if n := x.count.Load(); n >= 0 {
		return n, nil
	}
	x.names.RLock()
	info, err := x.cache.fs.Stat(x.path())
	x.names.RUnlock()
	if errors.Is(err, os.ErrNotExist) {
		x.count.CompareAndSwap(-1, 0)
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	x.count.CompareAndSwap(-1, info.Size()/txnEntryBytes)
	return x.count.Load(), nil
}

func (x *txnIndex) open() (*openFile, error) {
	if o := x.file.cached(); o != nil {
		return o, nil
	}
	x.names.RLock()
	defer x.names.RUnlock()
	return x.cache.acquire(&x.file, x.path)
}

// reserve makes room for so many more entries: until settle, append needs neither space nor a descriptor.
func (x *txnIndex) reserve(entries int) error {
	n, err := x.entries()
	if err != nil {
		return err
	}
	if n == 0 {
		if err := writeFile(x.cache.fs, x.path(), nil, false); err != nil {
			return err
		}
	}
	f, err := x.open()
	if err != nil {
		return err
	}
	if _, err := f.WriteAt(make([]byte, entries*txnEntryBytes), n*txnEntryBytes); err != nil {
		_ = f.Truncate(n * txnEntryBytes) // a cut entry at the end is not there, and is written over
		f.release()
		return err
	}
	x.reserved = f
	return nil
}

// settle gives back the room that no entry was put into.
func (x *txnIndex) settle() {
	if x.reserved == nil {
		return
	}
	_ = x.reserved.Truncate(x.count.Load() * txnEntryBytes) // an empty entry that stays is found at the next start
	x.reserved.release()
	x.reserved = nil
}

// append adds the transaction that a marker at the log's end has aborted.
func (x *txnIndex) append(txn AbortedTxn) error {
	n, err := x.entries()
	if err != nil {
		return err
	}
	if txn.LastOffset <= x.last {
		return fmt.Errorf("%w: transaction index entry at %d after %d", ErrCorrupt, txn.LastOffset, x.last)
	}
	if x.reserved == nil {
		if err := x.reserve(1); err != nil {
			return err
		}
		defer x.settle()
	}
	var entry [txnEntryBytes]byte
	if _, err := x.reserved.WriteAt(appendTxnEntry(entry[:0], txn), n*txnEntryBytes); err != nil {
		return err
	}
	x.last = txn.LastOffset
	x.count.Store(n + 1)
	return nil
}

func appendTxnEntry(dst []byte, txn AbortedTxn) []byte {
	dst = binary.BigEndian.AppendUint16(dst, txnEntryVersion)
	for _, v := range []int64{txn.ProducerID, txn.FirstOffset, txn.LastOffset, txn.LastStableOffset} {
		dst = binary.BigEndian.AppendUint64(dst, uint64(v))
	}
	return dst
}

func parseTxnEntry(entry []byte) (AbortedTxn, error) {
	if v := int16(binary.BigEndian.Uint16(entry)); v != txnEntryVersion {
		return AbortedTxn{}, fmt.Errorf("%w: transaction index entry of version %d", ErrCorrupt, v)
	}
	at := func(i int) int64 { return int64(binary.BigEndian.Uint64(entry[i:])) }
	return AbortedTxn{ProducerID: at(2), FirstOffset: at(10), LastOffset: at(18), LastStableOffset: at(26)}, nil
}

// each calls f with the entries from the given one until it returns false.
func (x *txnIndex) each(from int64, f func(i int64, txn AbortedTxn) bool) error {
	n, err := x.entries()
	if err != nil || from >= n {
		return err
	}
	file, err := x.open()
	if err != nil {
		return err
	}
	defer file.release()
	var block [txnBlockEntries * txnEntryBytes]byte
	for i := from; i < n; {
		size := min(n-i, txnBlockEntries) * txnEntryBytes
		read, err := file.ReadAt(block[:size], i*txnEntryBytes)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		for at := 0; at+txnEntryBytes <= read; at += txnEntryBytes {
			txn, err := parseTxnEntry(block[at:])
			if err != nil || !f(i, txn) {
				return err
			}
			i++
		}
		if int64(read) < size {
			return nil // cut by a truncation meanwhile
		}
	}
	return nil
}

// collect appends to dst the aborted transactions that overlap [from, bound); done says that later segments' indexes
// can have no more.
func (x *txnIndex) collect(dst []AbortedTxn, from, bound int64) (all []AbortedTxn, done bool, err error) {
	first, err := x.search(from)
	if err != nil {
		return dst, false, err
	}
	err = x.each(first, func(_ int64, txn AbortedTxn) bool {
		if txn.LastOffset >= from && txn.FirstOffset < bound {
			dst = append(dst, txn)
		}
		done = txn.LastStableOffset >= bound
		return !done
	})
	return dst, done, err
}

// search returns the first entry with LastOffset >= offset.
func (x *txnIndex) search(offset int64) (int64, error) {
	n, err := x.entries()
	if err != nil {
		return 0, err
	}
	low, high := int64(0), n
	for low < high {
		middle := low + (high-low)/2
		below := false
		err := x.each(middle, func(_ int64, txn AbortedTxn) bool {
			below = txn.LastOffset < offset
			return false
		})
		if err != nil {
			return 0, err
		}
		if below {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low, nil
}

// sanityCheck holds every entry against what an entry of a segment that ends at limit can be: ErrCorrupt means that the
// index must be rebuilt. Kafka's TransactionIndex.sanityCheck looks at the base and the version's first byte alone,
// which one garbled entry in four passes.
func (x *txnIndex) sanityCheck(limit int64) error {
	var wrong error
	before := AbortedTxn{LastOffset: x.base - 1}
	err := x.each(0, func(i int64, txn AbortedTxn) bool {
		if !txn.follows(before) || txn.LastOffset >= limit {
			wrong = fmt.Errorf("%w: transaction index %s: entry %d is %+v, after %+v, in a segment that ends at %d", ErrCorrupt, x.path(), i, txn, before, limit)
		}
		before = txn
		return wrong == nil
	})
	if err != nil {
		return err
	}
	if wrong == nil && before.LastOffset >= x.base {
		x.last = before.LastOffset
	}
	return wrong
}

// follows tells whether the transaction can be the next in an index: its marker comes after its first record and after
// the marker before; the last stable offset never falls, and never passes a transaction that is still open.
func (txn AbortedTxn) follows(before AbortedTxn) bool {
	return txn.ProducerID >= 0 && txn.FirstOffset >= before.LastStableOffset && txn.FirstOffset < txn.LastOffset &&
		txn.LastOffset > before.LastOffset &&
		txn.LastStableOffset >= before.LastStableOffset && txn.LastStableOffset <= txn.LastOffset+1
}

// truncateTo removes the entries of markers at and above offset.
func (x *txnIndex) truncateTo(offset int64) error {
	n, err := x.entries()
	if err != nil || n == 0 {
		return err
	}
	keep, err := x.search(offset)
	if err != nil {
		return err
	}
	return x.cut(keep)
}

// reset removes all entries, so that recovery may write them again.
func (x *txnIndex) reset() error {
	exists, err := exists(x.cache.fs, x.path())
	if err != nil || !exists {
		return err
	}
	return x.cut(0)
}

// all returns the entries; those before a garbled one with ErrCorrupt.
func (x *txnIndex) all() (txns []AbortedTxn, err error) {
	err = x.each(0, func(_ int64, txn AbortedTxn) bool {
		txns = append(txns, txn)
		return true
	})
	return txns, err
}

// replace makes txns the entries, durably; without any there is no file.
func (x *txnIndex) replace(txns []AbortedTxn) error {
	if err := x.reset(); err != nil {
		return err
	}
	for _, txn := range txns {
		if err := x.append(txn); err != nil {
			return err
		}
	}
	if len(txns) > 0 {
		return x.sync()
	}
	x.forget()
	return removeIfExists(x.cache.fs, x.path())
}

func (x *txnIndex) cut(entries int64) error {
	last := int64(-1)
	if entries > 0 {
		err := x.each(entries-1, func(_ int64, txn AbortedTxn) bool {
			last = txn.LastOffset
			return false
		})
		if err != nil {
			return err
		}
	}
	f, err := x.open()
	if err != nil {
		return err
	}
	defer f.release()
	x.count.Store(entries)
	x.last = last
	return f.Truncate(entries * txnEntryBytes)
}

// sync makes the entries durable; the directory is the caller's to sync.
func (x *txnIndex) sync() error {
	n, err := x.entries()
	if err != nil || n == 0 {
		return err
	}
	f, err := x.open()
	if err != nil {
		return err
	}
	defer f.release()
	return f.Sync()
}

// forget closes the file.
func (x *txnIndex) forget() { x.cache.forget(&x.file) }
