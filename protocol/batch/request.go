package batch

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
)

// RequestCheck is what Kafka looks at in the first batch of every partition before it handles any of a Produce
// request. An error of it (an *Error) is the answer for all partitions, and nothing may be appended.
type RequestCheck struct {
	Version          int16
	HasTransactionID bool

	late *Error
}

// Add looks at the records of the next partition, and tells whether they belong to a transaction. After an error, which
// is Kafka's first look at the request (RequestUtils.hasTransactionalRecords), nothing more is to be added.
func (c *RequestCheck) Add(raw []byte) (transactional bool, err error) {
	first, _, err := nextAnyMagic(raw)
	var corrupt *Error
	switch {
	case errors.As(err, &corrupt):
		corrupt.told = true
		return false, corrupt
	case err != nil || first.Magic() != currentMagic:
		return false, nil // the partition's own error
	case first.Transactional() && !c.HasTransactionID:
		return false, &Error{Code: kerr.TransactionalIDAuthorizationFailed, Message: "transactional records without a transactional id"}
	case c.Version < zstdSinceVersion && first.Codec() > Zstd:
		c.late = &Error{Code: kerr.UnknownServerError, Message: "unknown codec"} // looking for zstd, Kafka comes upon it
	case len(first) < producerEpochAt:
		c.late = &Error{Code: kerr.UnknownServerError, Message: "batch ends before its producer id"}
	default:
		return first.Transactional() && first.ProducerID() >= 0, nil
	}
	return false, nil
}

// Err is what Kafka comes upon only after that look at all partitions.
func (c *RequestCheck) Err() error {
	if c.late == nil {
		return nil
	}
	return c.late
}
