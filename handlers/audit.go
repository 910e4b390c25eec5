package handlers

import (
	"strings"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster/metadata/acl"
	"grete/internal/clock"
	"grete/internal/sched"
	"grete/protocol"
)

const (
	// maxAuditLines per second are written about what was denied; the next line counts the others.
	maxAuditLines = 10
	// maxAuditText bounds a name in a line: clients choose them.
	maxAuditText = 256
)

// Authorizer decides what clients may do, and tells the log what it denies.
type Authorizer struct {
	rules   acl.Rules
	clock   clock.Clock
	log     zerolog.Logger
	denials atomic.Int64

	mu     sched.Mutex
	second time.Time // when the lines that are counted began
	lines  int
	untold int // denials since the last line
}

// NewAuthorizer makes the authorizer of a node's listeners.
func NewAuthorizer(rules acl.Rules, c clock.Clock, log zerolog.Logger) *Authorizer {
	return &Authorizer{rules: rules, clock: c, log: log}
}

// Denials is how many there were since the start, those without a line of their own included. A nil Authorizer denies
// nothing.
func (a *Authorizer) Denials() int64 {
	if a == nil {
		return 0
	}
	return a.denials.Load()
}

// denied counts a denial, and writes a line about it unless there were many within this second.
func (a *Authorizer) denied(r *protocol.Request, op kmsg.ACLOperation, on acl.Resource) {
	a.denials.Add(1)
	untold, ok := a.mayTell()
	if !ok {
		return
	}
	s := subject(r.Conn)
	e := a.log.Warn().Str("principal", shorten(s.Principal)).Str("host", s.Host).Str("listener", r.Conn.Listener).
		Stringer("operation", op).Stringer("resource_type", on.Type).Str("resource", shorten(on.Name)).Str("request", kmsg.NameForKey(r.Key))
	if untold > 0 {
		e = e.Int("untold", untold)
	}
	e.Msg("denied")
}

// mayTell says whether a line may be written now, and of how many denials there was none before it.
func (a *Authorizer) mayTell() (untold int, ok bool) {
	now := a.clock.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	if now.Sub(a.second) >= time.Second {
		a.second, a.lines = now, 0
	}
	if a.lines >= maxAuditLines {
		a.untold++
		return 0, false
	}
	a.lines++
	untold, a.untold = a.untold, 0
	return untold, true
}

func shorten(text string) string {
	if len(text) <= maxAuditText {
		return text
	}
	return strings.ToValidUTF8(text[:maxAuditText], "") + "…"
}
