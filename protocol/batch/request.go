package batch

import (
	"errors"
	"iter"

	"github.com/twmb/franz-go/pkg/kerr"
)

// CheckRequest is what Kafka looks at in the first batch of every partition before it handles any of a Produce
// request: an error (an *Error) is the answer for all its partitions, and nothing may be appended. transactional says
// that some batch is, which needs a transactional id.
func CheckRequest(partitions iter.Seq[[]byte]) (transactional bool, err error) {
	var headless error
	for raw := range partitions {
		b, _, err := nextAnyMagic(raw)
		var corrupt *Error
		switch {
		case errors.As(err, &corrupt):
			corrupt.told = true
			return false, corrupt
		case err != nil || b.Magic() != currentMagic:
			continue // the partition's own error
		case len(b) < producerEpochAt:
			headless = &Error{Code: kerr.UnknownServerError, Message: "batch ends before its producer id"}
		case b.Transactional():
			transactional = true
		}
	}
	return transactional, headless
}
