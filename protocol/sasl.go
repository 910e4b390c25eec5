package protocol

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/internal/memory"
	"grete/internal/security/sasl"
)

// SASL says how the connections of a listener authenticate.
type SASL struct {
	Mechanisms      []SASLMechanism // in the order in which SaslHandshake lists them
	MaxReceiveBytes int             // of a frame before authentication (sasl.server.max.receive.size)
	FailureDelay    time.Duration   // until a failure is answered and the connection closed (connection.failed.authentication.delay.ms)

	next atomic.Pointer[SASL] // what has replaced it
}

// Replace has connections authenticate as next says, from now on: those that come, and those that authenticate again.
// An authentication under way ends as it began.
func (s *SASL) Replace(next *SASL) { s.next.Store(next) }

// current is s, or what has replaced it.
func (s *SASL) current() *SASL {
	if next := s.next.Load(); next != nil {
		return next
	}
	return s
}

// SASLMechanism is one that clients may use.
type SASLMechanism struct {
	Name  string
	Begin func() sasl.Exchange
	// MaxSession is the longest life of an authentication (connections.max.reauth.ms); 0: the credential's.
	MaxSession time.Duration
}

func (s *SASL) mechanism(name string) *SASLMechanism {
	for i := range s.Mechanisms {
		if s.Mechanisms[i].Name == name {
			return &s.Mechanisms[i]
		}
	}
	return nil
}

// authState is how far the authentication of a connection is, as in Kafka's SaslServerAuthenticator.
type authState int8

const (
	awaitsAny          authState = iota // ApiVersions or SaslHandshake
	awaitsHandshake                     // SaslHandshake, after ApiVersions
	awaitsAuthenticate                  // SaslAuthenticate
	awaitsToken                         // a token that is a frame of its own, after SaslHandshake v0
	awaitsRefusal                       // another mechanism was asked for while authenticating again: what comes next fails
	isAuthenticated
)

// minReauthInterval is between the begins of two authentications of one connection.
const minReauthInterval = time.Second

// authentication is a connection's part in SASL. It is the reader goroutine's.
type authentication struct {
	sasl      *SASL
	state     authState
	mechanism *SASLMechanism
	exchange  sasl.Exchange
	name      string    // of the principal, once there is one
	again     bool      // the exchange under way is not the first
	lastAgain time.Time // begin of the last one that was not the first
	expires   time.Time // end of the session; zero: it has none
	told      bool      // the log has a failure of which the client reads when it answers the challenge
}

// admits says whether a request of this key may come now.
func (a *authentication) admits(key int16) bool {
	switch a.state {
	case awaitsAny:
		return key == apiVersionsKey || key == saslHandshakeKey
	case awaitsHandshake:
		return key == saslHandshakeKey
	case awaitsAuthenticate:
		return key == saslAuthenticateKey || key == saslHandshakeKey || key == apiVersionsKey
	case awaitsRefusal:
		return key == saslAuthenticateKey
	}
	return true
}

// announced notes an answer to ApiVersions: after a good one comes the handshake.
func (a *authentication) announced(resp kmsg.Response) {
	if r, ok := resp.(*kmsg.ApiVersionsResponse); ok && r.ErrorCode == 0 && a.state == awaitsAny {
		a.state = awaitsHandshake
	}
}

// serveSASL serves a request on a connection of a listener with SASL. done says that it was no request for the handler.
func (c *Conn) serveSASL(r *Request) (done bool, err error) {
	a := c.auth
	if a.state == isAuthenticated {
		switch {
		case r.Key == saslHandshakeKey && a.beginAgain(r.Received):
			a.sasl = c.security.SASL.current()
			c.frames.maxBytes = c.maxReceiveBytes()
		case !a.expires.IsZero() && r.Received.After(a.expires):
			r.Abort("the session has ended without another authentication (connections.max.reauth.ms)")
			return true, errAborted
		default:
			return false, nil
		}
	}
	switch {
	case a.state == awaitsAuthenticate && r.Key != saslAuthenticateKey:
		return true, c.denyState(r)
	case r.Key == saslHandshakeKey:
		return true, c.saslHandshake(r)
	case r.Key == saslAuthenticateKey:
		return true, c.saslAuthenticate(r)
	}
	return false, nil
}

// denyState answers ApiVersions and SaslHandshake where a token is due. Kafka answers any request there; others close
// the connection here.
func (c *Conn) denyState(r *Request) error {
	var resp kmsg.Response = kmsg.NewPtrApiVersionsResponse()
	if r.Body != nil {
		resp = r.Body.ResponseKind()
	}
	switch resp := resp.(type) {
	case *kmsg.ApiVersionsResponse:
		resp.ErrorCode = kerr.IllegalSaslState.Code
	case *kmsg.SASLHandshakeResponse:
		resp.ErrorCode = kerr.IllegalSaslState.Code
	}
	return c.deny("a request where a token of SASL is due", func() { r.Respond(resp) })
}

// beginAgain begins another authentication, where sessions end at all and the last one did not begin just now.
func (a *authentication) beginAgain(now time.Time) bool {
	if a.expires.IsZero() || !a.lastAgain.IsZero() && now.Sub(a.lastAgain) < minReauthInterval {
		return false
	}
	a.again, a.lastAgain, a.state = true, now, awaitsHandshake
	return true
}

func (c *Conn) maxReceiveBytes() int {
	return min(c.server.o.MaxRequestBytes, c.auth.sasl.MaxReceiveBytes)
}

func (c *Conn) saslHandshake(r *Request) error {
	a := c.auth
	req := r.Body.(*kmsg.SASLHandshakeRequest)
	resp := req.ResponseKind().(*kmsg.SASLHandshakeResponse)
	for i := range a.sasl.Mechanisms {
		resp.SupportedMechanisms = append(resp.SupportedMechanisms, a.sasl.Mechanisms[i].Name)
	}
	m := a.sasl.mechanism(req.Mechanism)
	switch {
	case m == nil && a.again: // as Kafka
		return c.deny(fmt.Sprintf("unsupported SASL mechanism %.64q", req.Mechanism), r.NoResponse)
	case m == nil:
		resp.ErrorCode = kerr.UnsupportedSaslMechanism.Code
		return c.deny(fmt.Sprintf("unsupported SASL mechanism %.64q", req.Mechanism), func() { r.Respond(resp) })
	case a.again && m.Name != a.mechanism.Name:
		a.state = awaitsRefusal
	case r.Version == 0:
		a.state, c.frames.tokens = awaitsToken, true
	default:
		a.state = awaitsAuthenticate
	}
	if a.state != awaitsRefusal {
		a.mechanism, a.exchange = m, m.Begin()
	}
	r.Respond(resp)
	return nil
}

func (c *Conn) saslAuthenticate(r *Request) error {
	if c.auth.state == awaitsRefusal {
		return c.deny("another SASL mechanism than before was asked for", r.NoResponse)
	}
	resp := r.Body.ResponseKind().(*kmsg.SASLAuthenticateResponse)
	challenge, done, failure := c.step(r.Body.(*kmsg.SASLAuthenticateRequest).SASLAuthBytes, &r.loan)
	if failure != nil {
		resp.ErrorCode, resp.ErrorMessage = kerr.SaslAuthenticationFailed.Code, &failure.text
		resp.SASLAuthBytes = []byte{}
		return c.deny(failure.reason, func() { r.Respond(resp) })
	}
	resp.ErrorMessage = new(string) // empty, not null, as Kafka's
	if resp.SASLAuthBytes = challenge; challenge == nil {
		resp.SASLAuthBytes = []byte{}
	}
	if done {
		resp.SessionLifetimeMillis = c.finishAuthentication(r.Received)
	}
	r.Respond(resp)
	return nil
}

// serveToken serves a token that is a frame of its own. A failure has no answer.
func (c *Conn) serveToken(f frame) error {
	c.mu.Lock()
	c.serving = true
	seq := c.order.push()
	c.mu.Unlock()
	challenge, done, failure := c.step(f.bytes, &f.loan)
	f.buf.put()
	f.loan.Return()
	if failure != nil {
		return c.deny(failure.reason, func() { c.complete(seq, result{}) })
	}
	if done {
		c.frames.tokens = false
		c.finishAuthentication(c.server.o.Clock.Now())
	}
	buf := getBuffer(lengthBytes + len(challenge))
	b := append(binary.BigEndian.AppendUint32(buf.b[:0], uint32(len(challenge))), challenge...)
	c.complete(seq, result{head: buf, headBytes: b})
	return nil
}

// authFailure is what the client reads and what the log says.
type authFailure struct{ text, reason string }

// errNoMemory is the end of a login whose connection, or server, ended before there was memory for it.
var errNoMemory = errors.New("the connection ended")

// minExchangeBytes is the shortest token whose work is borrowed for. maxUnauthenticated bounds the work for shorter
// ones.
const minExchangeBytes = minDecodedLoan / sasl.ExchangeFactor

// next borrows for the work and takes the exchange on.
func (c *Conn) next(token []byte, loan *memory.Loan) (challenge []byte, done bool, err error) {
	if len(token) >= minExchangeBytes {
		had := loan.Bytes()
		if !c.grow(loan, int64(sasl.ExchangeFactor*len(token))) {
			return nil, false, errNoMemory
		}
		defer loan.Shrink(had)
	}
	return c.auth.exchange.Next(token)
}

// step takes the exchange on by one token; loan is the one of its frame.
func (c *Conn) step(token []byte, loan *memory.Loan) (challenge []byte, done bool, failed *authFailure) {
	a := c.auth
	challenge, done, err := c.next(token, loan)
	if err == nil && done && a.again && a.exchange.Result().Name != a.name {
		p := c.Principal()
		err = &sasl.Failure{Text: fmt.Sprintf("Cannot change principals during re-authentication from %s.%s: %s.%s", p.Type, p.Name, userType, a.exchange.Result().Name)}
	}
	if err == nil {
		if r, ok := a.exchange.(sasl.Refuser); ok && r.Refused() != nil {
			c.failedAuthentication(a.reason(r.Refused()))
			a.told = true
		}
		return challenge, done, nil
	}
	reason := a.reason(err)
	if f, ok := err.(*sasl.Failure); ok {
		return nil, false, &authFailure{f.Text, reason}
	}
	what := "authentication"
	if a.again {
		what = "re-authentication"
	}
	return nil, false, &authFailure{"Authentication failed during " + what + " due to invalid credentials with SASL mechanism " + a.mechanism.Name, reason}
}

// reason is a failure as the log has it.
func (a *authentication) reason(err error) string {
	if name := a.exchange.Claimed(); name != "" {
		return fmt.Sprintf("%s as %.64q: %v", a.mechanism.Name, name, err)
	}
	return fmt.Sprintf("%s: %v", a.mechanism.Name, err)
}

// userType is the type of principals that SASL makes.
const userType = "User"

// finishAuthentication makes the connection the principal's and returns how long the session lasts, in milliseconds; 0:
// it has no end.
func (c *Conn) finishAuthentication(now time.Time) (lifetimeMillis int64) {
	a := c.auth
	result := a.exchange.Result()
	a.exchange, a.name, a.state = nil, result.Name, isAuthenticated
	lifetime, ends := a.mechanism.MaxSession, a.mechanism.MaxSession > 0
	if !result.Expires.IsZero() {
		if left := max(result.Expires.Sub(now), 0); !ends || left < lifetime {
			lifetime, ends = left, true
		}
	}
	a.expires = time.Time{}
	if ends {
		a.expires = now.Add(lifetime)
	}
	c.frames.maxBytes = c.server.o.MaxRequestBytes
	c.byToken.Store(result.ByToken)
	c.Authenticated(Principal{Type: userType, Name: result.Name})
	return lifetime.Milliseconds()
}

// deny ends the connection for a failure of authentication, after a delay and after what answer sends: it slows down
// who guesses, and tells nothing by its time. Nothing more is read meanwhile.
func (c *Conn) deny(reason string, answer func()) error {
	c.mu.Lock()
	end := c.order.push()
	c.mu.Unlock()
	if !c.auth.told {
		c.failedAuthentication(reason)
	}
	c.server.o.Clock.AfterFunc(c.auth.sasl.FailureDelay, func() {
		answer()
		c.complete(end, result{abort: denied})
	})
	return errAborted
}

// denied is the abort of a connection of which failedAuthentication has told already.
const denied = "authentication failed"
