package logstore

import (
	"errors"
	"fmt"
	"io"

	"grete/protocol/batch"
)

// batchReader reads a file's batches one after the other through one buffer, which grows for a batch that it does not
// hold.
type batchReader struct {
	buf  []byte
	read func(n int) error // called after n bytes were read; its error ends the reading
}

// each calls f with every whole batch in [pos, end), its checksum verified. ErrCorrupt: something else is there.
func (r *batchReader) each(file io.ReaderAt, pos, end int64, f func(b batch.Batch) error) error {
	for pos < end {
		chunk := r.buf[:min(int64(len(r.buf)), end-pos)]
		if n, err := file.ReadAt(chunk, pos); n < len(chunk) {
			if err == nil || errors.Is(err, io.EOF) {
				err = fmt.Errorf("%w: file ends at position %d", ErrCorrupt, pos+int64(n))
			}
			return err
		}
		if err := r.read(len(chunk)); err != nil {
			return err
		}
		used, err := eachBatch(chunk, pos, f)
		if err != nil {
			return err
		}
		if used == 0 {
			if err := r.grow(chunk, pos, end); err != nil {
				return err
			}
		}
		pos += int64(used)
	}
	return nil
}

// eachBatch calls f with the whole batches of chunk, which is at position pos, and returns their bytes.
func eachBatch(chunk []byte, pos int64, f func(b batch.Batch) error) (used int, err error) {
	for len(chunk)-used >= headerBytes {
		size, ok := batchSize(chunk[used:])
		if !ok {
			return used, fmt.Errorf("%w: no batch at position %d", ErrCorrupt, pos+int64(used))
		}
		if size > int64(len(chunk)-used) {
			break
		}
		b := batch.Batch(chunk[used:][:size])
		if !b.ChecksumOK() {
			return used, fmt.Errorf("%w: bad checksum at position %d", ErrCorrupt, pos+int64(used))
		}
		if err := f(b); err != nil {
			return used, err
		}
		used += int(size)
	}
	return used, nil
}

// grow makes room for the batch that chunk begins with.
func (r *batchReader) grow(chunk []byte, pos, end int64) error {
	if len(chunk) < headerBytes {
		return fmt.Errorf("%w: batch header cut at position %d", ErrCorrupt, pos)
	}
	size, _ := batchSize(chunk)
	if size > end-pos {
		return fmt.Errorf("%w: batch cut at position %d", ErrCorrupt, pos)
	}
	r.buf = make([]byte, size)
	return nil
}
