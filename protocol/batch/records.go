package batch

// maxRecordsBytes bounds what Records decompresses of a batch in all: stored batches are trusted to be sane, not to
// be harmless.
const maxRecordsBytes = 1 << 30

// Records iterates the batch's records, decompressing as a stream under limits; it ends after the first error.
func (b Batch) Records() func(yield func(Record, error) bool) {
	return func(yield func(Record, error) bool) {
		var record Record
		var headers []Header
		err := b.eachRecord(maxRecordsBytes, func(_ int32, v *recordView) bool {
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

// timestampOf is the batch's time for all records once the log has set it.
func (b Batch) timestampOf(v *recordView) int64 {
	if b.TimestampType() == LogAppendTime {
		return b.MaxTimestamp()
	}
	return b.BaseTimestamp() + v.timestampDelta
}

// eachRecord calls f for every record until it returns false; v is valid during the call. After the last record
// nothing may remain.
func (b Batch) eachRecord(limitBytes int64, f func(index int32, v *recordView) bool) error {
	return b.eachRecordFrom(0, 0, limitBytes, f)
}

// eachRecordFrom is eachRecord from the record of that index, which in an uncompressed payload starts at a position.
func (b Batch) eachRecordFrom(index int32, at int, limitBytes int64, f func(index int32, v *recordView) bool) error {
	count := b.RecordCount()
	if count < 0 {
		return invalid("record count %d", count)
	}
	if count == 0 {
		return nil
	}
	r, err := b.openRecords(limitBytes)
	if err != nil {
		return err
	}
	defer r.Close()
	r.pos = at
	var v recordView
	for i := index; i < count; i++ {
		body, err := r.next()
		if err != nil {
			return err
		}
		if err := v.parse(body); err != nil {
			return err
		}
		if !f(i, &v) {
			return nil
		}
	}
	return r.ended()
}
