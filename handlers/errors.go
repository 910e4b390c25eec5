package handlers

import (
	"context"
	"errors"
	"syscall"

	"github.com/twmb/franz-go/pkg/kerr"

	"grete/logstore"
)

// codes maps the sentinels of rooms that do not know the protocol. An error that wraps a kerr.Error is that one.
var codes = []struct {
	err  error
	code *kerr.Error
}{
	{logstore.ErrOffsetOutOfRange, kerr.OffsetOutOfRange},
	{logstore.ErrOffline, kerr.KafkaStorageError},
	{logstore.ErrClosed, kerr.KafkaStorageError},
	{logstore.ErrBusy, kerr.KafkaStorageError},
	{logstore.ErrDuplicateLog, kerr.KafkaStorageError},
	{logstore.ErrTopicIDMismatch, kerr.InconsistentTopicID},
	{logstore.ErrBatchTooLarge, kerr.RecordListTooLarge},
	{logstore.ErrOffsetOrder, kerr.UnknownServerError},
	{logstore.ErrCorrupt, kerr.CorruptMessage},
	{context.DeadlineExceeded, kerr.RequestTimedOut},
	{context.Canceled, kerr.RequestTimedOut},
}

// codeOf is the one place that gives a room's error its Kafka code: 0 for nil, UNKNOWN_SERVER_ERROR for what nobody
// foresaw. What the operating system refuses is a storage error.
func codeOf(err error) int16 {
	if err == nil {
		return 0
	}
	var known *kerr.Error
	if errors.As(err, &known) {
		return known.Code
	}
	for _, c := range codes {
		if errors.Is(err, c.err) {
			return c.code.Code
		}
	}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return kerr.KafkaStorageError.Code
	}
	return kerr.UnknownServerError.Code
}
