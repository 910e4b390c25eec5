package kerberos

import (
	"crypto/sha256"
	"errors"
	"sync"
	"time"
)

// maxReplays bounds the authenticators that are remembered, for twice the clock skew: with the usual 5 minutes, 436
// logins a second.
const maxReplays = 1 << 18

var (
	errReplay     = errors.New("the authenticator has been used before")
	errManyLogins = errors.New("more authenticators than can be remembered have been used within the clock skew")
)

// Replays remembers authenticators for as long as they would be taken.
type Replays struct {
	mu    sync.Mutex
	max   int
	seen  map[[sha256.Size]byte]bool
	queue []usedAuthenticator // by time
}

type usedAuthenticator struct {
	sum [sha256.Size]byte
	at  time.Time
}

// NewReplays makes an empty one.
func NewReplays() *Replays {
	return &Replays{max: maxReplays, seen: map[[sha256.Size]byte]bool{}}
}

// use notes an authenticator, as it is encrypted. It is an error if it has been used, and if no more can be noted.
func (r *Replays) use(authenticator []byte, now time.Time, keep time.Duration) error {
	sum := sha256.Sum256(authenticator)
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.queue) > 0 && now.Sub(r.queue[0].at) > keep {
		delete(r.seen, r.queue[0].sum)
		r.queue = r.queue[1:]
	}
	switch {
	case r.seen[sum]:
		return errReplay
	case len(r.queue) >= r.max:
		return errManyLogins
	}
	r.seen[sum] = true
	r.queue = append(r.queue, usedAuthenticator{sum, now})
	return nil
}
