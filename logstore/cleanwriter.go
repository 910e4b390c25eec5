package logstore

import (
	"errors"
	"fmt"
	"math"

	"grete/internal/vfs"
	"grete/protocol/batch"
)

// cleanedWriter makes the segment that takes the place of a group. Until it is swapped in, its files carry .cleaned and
// nobody knows it.
type cleanedWriter struct {
	segment    *segment
	data       *openFile
	out        []byte // batches not written yet
	maxOut     int
	pos        int64 // of out
	built      indexBuilder
	intervalBy int32
	wrote      func(n int) error // called after n bytes were written

	unsynced int        // bytes written since the last fsync began
	ahead    chan error // the result of the fsync that runs; nil when none does
}

// syncAheadBytes are written between two fsyncs that run while the compaction goes on, so that the one before the swap
// has little to wait for.
const syncAheadBytes = 16 << 20

var cleaned = cleanedSuffix

func (l *Log) newCleanedWriter(base int64, bufferBytes int, out []byte, wrote func(int) error) (*cleanedWriter, error) {
	s := l.newSegment(base, 0)
	s.suffix.Store(&cleaned)
	w := &cleanedWriter{segment: s, out: out[:0], maxOut: bufferBytes, wrote: wrote,
		built: indexBuilder{indexer: newIndexer(base), base: base}, intervalBy: l.config().IndexIntervalBytes}
	err := s.create()
	if err == nil {
		w.data, err = s.openData()
	}
	if err != nil {
		return nil, errors.Join(err, s.removeFiles())
	}
	return w, nil
}

// added tells that out grew from the length at by a batch, or by nothing.
func (w *cleanedWriter) added(at int) error {
	if at == len(w.out) {
		return nil
	}
	b := batch.Batch(w.out[at:])
	pos := w.pos + int64(at)
	if pos+int64(len(b)) > math.MaxInt32 || b.LastOffset()-w.segment.base > maxRelativeOffset {
		return fmt.Errorf("%w: batch %d-%d does not fit the compacted segment at %d", ErrBatchTooLarge,
			b.BaseOffset(), b.LastOffset(), w.segment.base)
	}
	w.built.add(b.LastOffset(), b.MaxTimestamp(), pos, int64(len(b)), w.intervalBy)
	if len(w.out) >= w.maxOut {
		return w.flush()
	}
	return nil
}

func (w *cleanedWriter) flush() error {
	if len(w.out) == 0 {
		return nil
	}
	n, err := w.data.WriteAt(w.out, w.pos)
	if err != nil {
		return &writeError{err}
	}
	w.pos += int64(n)
	w.out = w.out[:0]
	if w.unsynced += n; w.unsynced >= syncAheadBytes {
		if err := w.syncAhead(); err != nil {
			return err
		}
	}
	return w.wrote(n)
}

// syncAhead starts an fsync once the one before has ended.
func (w *cleanedWriter) syncAhead() error {
	if err := w.awaitSync(); err != nil {
		return err
	}
	done := make(chan error, 1)
	w.ahead, w.unsynced = done, 0
	go func() { done <- w.data.Sync() }()
	return nil
}

func (w *cleanedWriter) awaitSync() error {
	if w.ahead == nil {
		return nil
	}
	err := <-w.ahead
	if w.ahead = nil; err != nil {
		return &writeError{err}
	}
	return nil
}

// finish makes everything durable but the names.
func (w *cleanedWriter) finish(aborted []AbortedTxn) error {
	if err := errors.Join(w.flush(), w.awaitSync()); err != nil {
		return err
	}
	w.segment.size.Store(w.pos)
	w.built.addTime()
	for _, txn := range aborted {
		if err := w.segment.txns.append(txn); err != nil {
			return &writeError{err}
		}
	}
	synced := func(fs vfs.FS, name string, data []byte) error { return writeFile(fs, name, data, true) }
	err := w.segment.adoptIndexes(&w.built, synced)
	if err == nil {
		err = errors.Join(w.data.Sync(), w.segment.txns.sync())
	}
	if err != nil {
		return &writeError{err}
	}
	w.segment.rebuilt.Store(false) // should they be damaged later, they can be repaired once
	w.segment.txnsChecked.Store(true)
	return nil
}

// close lets go of the file. What never came beyond .cleaned goes altogether; what did may be all that is left of the
// records, whatever failed since.
func (w *cleanedWriter) close() error {
	err := w.awaitSync()
	w.data.release()
	if *w.segment.suffix.Load() != cleanedSuffix {
		return err
	}
	return errors.Join(err, w.segment.removeFiles())
}

// writeError tells errors of writing, after which the disk is not to be trusted, from those of reading.
type writeError struct{ error }

func (e *writeError) Unwrap() error { return e.error }
