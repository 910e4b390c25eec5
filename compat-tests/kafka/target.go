package kafka

import (
	"context"
	"errors"
	"os"
)

// Apache says that the broker under test is Apache Kafka (COMPAT_TARGET=kafka): a test that Kafka fails is wrong.
func Apache() bool { return os.Getenv("COMPAT_TARGET") == "kafka" }

// StartTarget starts the broker under test: our binary, or Apache Kafka.
func StartTarget(ctx context.Context, opts Options) (*Broker, error) {
	if Apache() {
		return StartApache(ctx, opts)
	}
	return StartGrete(ctx, opts)
}

// SkipOrFail skips a test whose toolchain is missing, and fails it for any other error.
func SkipOrFail(t interface {
	Helper()
	Skip(...any)
	Fatal(...any)
}, err error) {
	t.Helper()
	if errors.Is(err, ErrMissing) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
}
