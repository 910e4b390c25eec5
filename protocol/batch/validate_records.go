package batch

import (
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
)

// recordCheck goes over the records of one batch.
type recordCheck struct {
	policy     *Policy
	batch      Batch
	maxMs      int64
	sequential bool // offset deltas are 0, 1, 2, …
	refused    *refusals
	inflated   int64 // bytes of the records, decompressed
}

// checkRecords goes over all records of b. It keeps no pointer to c, so that c costs no allocation.
func checkRecords(p *Policy, b Batch) (recordCheck, error) {
	c := recordCheck{policy: p, batch: b, maxMs: NoTimestamp, sequential: true}
	if b.Codec() != None || b.TimestampType() == LogAppendTime {
		return c.rest(0, 0)
	}
	skimmed, at := c.skim(b[HeaderSize:], b.RecordCount())
	if skimmed > 0 && skimmed == b.RecordCount() && HeaderSize+at == len(b) {
		return c, nil
	}
	return c.rest(skimmed, at)
}

// rest checks from the record of that index at that position on.
func (c recordCheck) rest(index int32, at int) (recordCheck, error) {
	if err := c.batch.eachRecord(recordWalk{limitBytes: c.policy.limitBytes(), index: index, at: at, sizesOnly: true, maxRecordBytes: c.policy.MaxRecordBytes}, c.check); err != nil {
		return c, err
	}
	if c.refused != nil {
		return c, c.refused.finish()
	}
	return c, nil
}

// check looks at one record. It goes on after a refusal, to find all of them.
func (c *recordCheck) check(index int32, v *recordView) bool {
	timestampMs := c.batch.timestampOf(v)
	c.inflated += int64(v.sizeBytes)
	c.maxMs = max(c.maxMs, timestampMs)
	if v.offsetDelta != index {
		c.sequential = false
	}
	p := c.policy
	switch {
	case p.Compacted && v.keySize < 0:
		c.refuse(kerr.InvalidRecord, index, fmt.Sprintf(
			"Compacted topic cannot accept message without key in topic partition %s-%d", p.Topic, p.Partition))
	case p.Timestamp == CreateTime && timestampMs != NoTimestamp:
		if !p.timely(timestampMs) {
			c.refuse(kerr.InvalidTimestamp, index, fmt.Sprintf(
				"Timestamp %d of message with offset %d is out of range. The timestamp should be within [%d, %d]",
				timestampMs, c.batch.BaseOffset()+int64(v.offsetDelta), p.NowMs-p.BeforeMaxMs, p.NowMs+p.AfterMaxMs))
		}
	case c.batch.TimestampType() == LogAppendTime:
		c.refuse(kerr.InvalidTimestamp, index, fmt.Sprintf(
			"Invalid timestamp type in message %s. Producer should not set timestamp type to LogAppendTime.",
			c.describe(v, timestampMs)))
	}
	return true
}

// timely compares differences, which wrap as Kafka's do.
func (p *Policy) timely(timestampMs int64) bool {
	ageMs := p.NowMs - timestampMs
	return ageMs <= p.BeforeMaxMs && -ageMs <= p.AfterMaxMs
}

// describe names a record as Kafka's messages do.
func (c *recordCheck) describe(v *recordView, timestampMs int64) string {
	name := "DefaultRecord"
	if c.batch.Codec() != None {
		name = "PartialDefaultRecord"
	}
	return fmt.Sprintf("%s(offset=%d, timestamp=%d, key=%d bytes, value=%d bytes)",
		name, c.batch.BaseOffset()+int64(v.offsetDelta), timestampMs, max(v.keySize, 0), max(v.valueSize, 0))
}

func (c *recordCheck) refuse(code *kerr.Error, index int32, message string) {
	if c.refused == nil {
		c.refused = &refusals{}
	}
	c.refused.add(code, RecordError{index, message})
}

// refusals are the records that a batch is refused for.
type refusals struct {
	count    int
	untimely bool
	listed   []RecordError // the first maxRecordErrors
}

func (r *refusals) add(code *kerr.Error, e RecordError) {
	r.count++
	if code == kerr.InvalidTimestamp {
		r.untimely = true
	}
	if len(r.listed) < maxRecordErrors {
		r.listed = append(r.listed, e)
	}
}

// finish is Kafka's LogValidator.processRecordErrors; one untimely record makes the whole an INVALID_TIMESTAMP.
func (r *refusals) finish() *Error {
	if r.untimely {
		return &Error{
			Code:    kerr.InvalidTimestamp,
			Message: "One or more records have been rejected due to invalid timestamp",
			Records: r.listed,
		}
	}
	var first []string
	for _, e := range r.listed[:min(3, len(r.listed))] {
		first = append(first, fmt.Sprintf("RecordError(batchIndex=%d, message='%s')", e.Index, e.Message))
	}
	return &Error{
		Code: kerr.InvalidRecord,
		Message: fmt.Sprintf("One or more records have been rejected due to %d record errors in total, and only showing "+
			"the first three errors at most: [%s]", r.count, strings.Join(first, ", ")),
		Records: r.listed,
	}
}

// rebuild encodes the records of b anew with consecutive offsets and the target's compression.
func (p *Policy) rebuild(b Batch, target Compression, maxMs, inflatedBytes int64) (Batch, error) {
	if need := rebuildFactor * max(inflatedBytes, int64(len(b))); p.Lend != nil && need >= minRebuildLoan {
		defer p.Lend(need)()
	}
	e := newEncoder(BuildOptions{
		BaseOffset:    b.BaseOffset(),
		LeaderEpoch:   b.PartitionLeaderEpoch(),
		Codec:         target.Codec,
		Level:         target.Level,
		Timestamp:     p.Timestamp,
		ProducerID:    b.ProducerID(),
		ProducerEpoch: b.ProducerEpoch(),
		BaseSequence:  b.BaseSequence(),
		Transactional: b.Transactional(),
	})
	defer e.free()
	negative := false
	err := b.eachRecord(recordWalk{limitBytes: p.rebuildBytes()}, func(index int32, v *recordView) bool {
		timestampMs := b.timestampOf(v)
		negative = negative || timestampMs < NoTimestamp
		e.addEncoded(timestampMs, index, v.tail)
		return !negative
	})
	if err != nil {
		return nil, err
	}
	if negative {
		return nil, &Error{Code: kerr.UnknownServerError, Message: "negative timestamp in a batch to be compressed"}
	}
	rebuilt, err := e.finish(maxMs)
	if err != nil {
		return nil, &Error{Code: kerr.UnknownServerError, Message: "failed to compress", cause: err}
	}
	if len(rebuilt) > int(p.MaxMessageBytes) {
		return nil, tooLarge("batch of %d bytes after compression, max.message.bytes is %d", len(rebuilt), p.MaxMessageBytes)
	}
	return rebuilt, nil
}
