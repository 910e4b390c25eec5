// Package quota bounds rates of bytes.
package quota

import (
	"math"
	"sync"
	"time"

	"grete/internal/clock"
)

// burst is how long a rate that was not used is saved up.
const burst = time.Second

// Rate is a bound of bytes per second on average. What exceeds it is counted as well, and then waited for. The zero
// value is not ready; NewRate's is unlimited.
type Rate struct {
	clock clock.Clock

	mu             sync.Mutex
	bytesPerSecond int64
	paid           time.Time // when all that was recorded is paid at the rate
}

// Unlimited is the rate that bounds nothing.
const Unlimited = math.MaxInt64

// NewRate makes an unlimited rate.
func NewRate(c clock.Clock) *Rate { return &Rate{clock: c, bytesPerSecond: Unlimited} }

// Set changes the rate; what is owed at the old one is forgotten.
func (r *Rate) Set(bytesPerSecond int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if bytesPerSecond != r.bytesPerSecond {
		r.bytesPerSecond, r.paid = bytesPerSecond, time.Time{}
	}
}

// BytesPerSecond is the rate in force.
func (r *Rate) BytesPerSecond() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.bytesPerSecond
}

// Record counts n bytes.
func (r *Rate) Record(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.bytesPerSecond == Unlimited || n <= 0 {
		return
	}
	now := r.clock.Now()
	if earliest := now.Add(-burst); r.paid.Before(earliest) {
		r.paid = earliest
	}
	cost := float64(n) / float64(max(r.bytesPerSecond, 1)) * float64(time.Second)
	r.paid = r.paid.Add(time.Duration(min(cost, float64(time.Hour))))
}

// Wait is how long nothing more should be done, 0 while the rate is kept. A rate of 0 allows nothing.
func (r *Rate) Wait() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch r.bytesPerSecond {
	case Unlimited:
		return 0
	case 0:
		return time.Hour
	}
	return max(r.paid.Sub(r.clock.Now()), 0)
}

// Exceeded says whether there is something to wait for.
func (r *Rate) Exceeded() bool { return r.Wait() > 0 }
