package clock

import (
	"context"
	"time"
)

// WithTimeout is context.WithTimeout on c; a context that runs out is Canceled.
func WithTimeout(ctx context.Context, c Clock, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	timer := c.AfterFunc(d, cancel)
	return ctx, func() { timer.Stop(); cancel() }
}

// Pause waits for d, or until ctx ends and returns its error.
func Pause(ctx context.Context, c Clock, d time.Duration) error {
	over := make(chan struct{})
	timer := c.AfterFunc(d, func() { close(over) })
	defer timer.Stop()
	select {
	case <-over:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
