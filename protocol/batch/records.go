package batch

// maxRecordsBytes bounds what Records decompresses of a batch in all: stored batches are trusted to be sane, not to
// be harmless.
const maxRecordsBytes = 1 << 30

// Records iterates the batch's records, decompressing as a stream under limits; it ends after the first error.
func (b Batch) Records() func(yield func(Record, error) bool) { return b.RecordsWithin(0) }

// RecordsWithin is Records that holds at most heldBytes of a compressed batch, 0 is no bound: ErrInflates when a record
// is larger.
func (b Batch) RecordsWithin(heldBytes int) func(yield func(Record, error) bool) {
	return func(yield func(Record, error) bool) {
		var record Record
		var headers []Header
		err := b.eachRecord(recordWalk{limitBytes: maxRecordsBytes, heldBytes: heldBytes}, func(_ int32, v *recordView) bool {
			headers = v.appendHeaders(headers[:0])
			record = Record{
				Offset:      b.BaseOffset() + int64(v.offsetDelta),
				TimestampMs: b.timestampOf(v),
				Key:         v.key,
				Value:       v.value,
				Headers:     headers[:len(headers):len(headers)],
			}
			return yield(record, nil)
		})
		if err != nil {
			yield(Record{}, err)
		}
	}
}

// RecordTime is where a record is and when.
type RecordTime struct{ Offset, TimestampMs int64 }

// Times iterates the records' offsets and timestamps. It holds no record, however large; a compressed one of more than
// maxRecordBytes is an error, 0 is no limit.
func (b Batch) Times(maxRecordBytes int32) func(yield func(RecordTime, error) bool) {
	return func(yield func(RecordTime, error) bool) {
		err := b.eachRecord(recordWalk{limitBytes: maxRecordsBytes, sizesOnly: true, maxRecordBytes: maxRecordBytes}, func(_ int32, v *recordView) bool {
			return yield(RecordTime{b.BaseOffset() + int64(v.offsetDelta), b.timestampOf(v)}, nil)
		})
		if err != nil {
			yield(RecordTime{}, err)
		}
	}
}

// recordWalk says how the records of a batch are gone over.
type recordWalk struct {
	limitBytes int64 // that are decompressed
	// index and at are where to begin: the record of that index, which in an uncompressed payload starts at a position.
	index int32
	at    int
	// sizesOnly lets the contents of large records go by without holding them.
	sizesOnly bool
	// maxRecordBytes bounds each record of a compressed batch, as its length says before any of it is read
	// (max.decompressed.message.bytes); 0: no bound.
	maxRecordBytes int32
	// heldBytes bounds what is held of a compressed batch at once; 0: no bound.
	heldBytes int
}

// timestampOf is the batch's time for all records once the log has set it.
func (b Batch) timestampOf(v *recordView) int64 {
	if b.TimestampType() == LogAppendTime {
		return b.MaxTimestamp()
	}
	return b.BaseTimestamp() + v.timestampDelta
}

// eachRecord calls f for every record until it returns false; v is valid during the call. After the last record
// nothing may remain.
func (b Batch) eachRecord(w recordWalk, f func(index int32, v *recordView) bool) error {
	count := b.RecordCount()
	if count < 0 {
		return invalid("record count %d", count)
	}
	if count == 0 {
		return nil
	}
	r, err := b.openRecords(&w)
	if err != nil {
		return err
	}
	defer r.Close()
	r.pos = w.at
	var v recordView
	for i := w.index; i < count; i++ {
		if err := r.read(&v, w.sizesOnly); err != nil {
			return err
		}
		if !f(i, &v) {
			return nil
		}
	}
	return r.ended()
}
