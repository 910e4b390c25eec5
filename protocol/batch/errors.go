package batch

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Error is why a batch is refused, as Kafka answers it.
type Error struct {
	Code *kerr.Error
	// Message is why, in words.
	Message string
	// Records are the refused records, when the batch was refused for them.
	Records []RecordError
	// cause is what a library reported, if one did.
	cause error
	// told: Kafka sends the message to the client.
	told bool
}

// Answer is the ErrorMessage of a Produce response: Kafka tells a client the reason of few refusals, null of others.
func (e *Error) Answer() *string {
	if e.told || len(e.Records) > 0 {
		return &e.Message
	}
	return nil
}

// RecordError is one refused record: its index in the batch and why.
type RecordError struct {
	Index   int32
	Message string
}

func (e *Error) Error() string {
	if e.cause != nil {
		return fmt.Sprintf("%s: %s: %v", e.Code.Message, e.Message, e.cause)
	}
	return e.Code.Message + ": " + e.Message
}

func (e *Error) Unwrap() []error {
	if e.cause != nil {
		return []error{e.Code, e.cause}
	}
	return []error{e.Code}
}

// invalid is Kafka's InvalidRecordException: a structure that contradicts itself.
func invalid(format string, args ...any) *Error {
	return &Error{Code: kerr.InvalidRecord, Message: fmt.Sprintf(format, args...)}
}

// corrupt is Kafka's CorruptRecordException: bytes that are not what the producer sent.
func corrupt(format string, args ...any) *Error {
	return &Error{Code: kerr.CorruptMessage, Message: fmt.Sprintf(format, args...)}
}

func tooLarge(format string, args ...any) *Error {
	return &Error{Code: kerr.MessageTooLarge, Message: fmt.Sprintf(format, args...)}
}

// undecodable is a payload that its codec refuses; Kafka answers an unexpected error.
func undecodable(cause error) *Error {
	return &Error{Code: kerr.UnknownServerError, Message: "failed to decompress record stream", cause: cause}
}
