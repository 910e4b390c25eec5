package logstore

import (
	"errors"
	"fmt"
)

// Sentinels; handlers map them to Kafka codes.
var (
	ErrOffsetOutOfRange = errors.New("offset out of range")
	ErrOffline          = errors.New("log directory is offline")
	ErrTopicIDMismatch  = errors.New("log belongs to another topic id")
	// ErrBatchTooLarge: more bytes than segment.bytes, Kafka's RECORD_LIST_TOO_LARGE.
	ErrBatchTooLarge = errors.New("batch larger than a segment")
	// ErrOffsetOrder: a follower's batches do not follow the log end.
	ErrOffsetOrder = errors.New("offsets do not follow the log end")
	ErrCorrupt     = errors.New("corrupt log data")
	ErrClosed      = errors.New("log is closed")
	// ErrBusy: a named bound is reached; the caller may try again.
	ErrBusy = errors.New("too many pending flushes")
	// ErrDuplicateLog: two log directories hold the same partition; somebody must remove one by hand.
	ErrDuplicateLog = errors.New("partition found in two log directories")
)

// Error says which operation failed where.
type Error struct {
	Log    ID
	Op     string
	Offset int64 // -1 when no offset is concerned
	Err    error
}

func (e *Error) Error() string {
	if e.Offset < 0 {
		return fmt.Sprintf("%s %s: %v", e.Op, e.Log, e.Err)
	}
	return fmt.Sprintf("%s %s at offset %d: %v", e.Op, e.Log, e.Offset, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

func (l *Log) fault(op string, offset int64, err error) error {
	return &Error{Log: l.id, Op: op, Offset: offset, Err: err}
}
