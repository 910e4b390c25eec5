package group

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
)

// refusal is a Kafka error with the text that the client is shown.
type refusal struct {
	code    *kerr.Error
	message string
}

func (r *refusal) Error() string { return r.message }
func (r *refusal) Unwrap() error { return r.code }

func refuse(code *kerr.Error, format string, args ...any) error {
	return &refusal{code, fmt.Sprintf(format, args...)}
}

// kafkaError is the Kafka error that err is or wraps, nil when it has none.
func kafkaError(err error) *kerr.Error {
	var k *kerr.Error
	errors.As(err, &k)
	return k
}

// messageOf is the text that goes with an error, nil when it has none of its own.
func messageOf(err error) *string {
	var r *refusal
	if errors.As(err, &r) {
		return &r.message
	}
	return nil
}
