package protocol

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/internal/security/sasl"
)

// Login is how a client authenticates by SASL.
type Login struct {
	Mechanism string
	// Begin begins one at a host, as it was dialed.
	Begin func(ctx context.Context, host string) (sasl.Client, error)
}

// renewShare of a session passes before the client authenticates again; Kafka's clients do it after 85 to 95 in a
// hundred.
const renewShare = 0.85

var errLogin = errors.New("SASL")

// logIn authenticates the connection, for the first time or again: nothing else is sent meanwhile. writing is held.
func (c *Client) logIn(ctx context.Context) error {
	err := c.exchangeTokens(ctx)
	if err != nil {
		c.nc.Close()
		return fmt.Errorf("%w %s: %w", errLogin, c.login.Mechanism, err)
	}
	return nil
}

func (c *Client) exchangeTokens(ctx context.Context) error {
	handshake := kmsg.NewPtrSASLHandshakeRequest()
	handshake.Mechanism = c.login.Mechanism
	resp, err := c.roundTrip(ctx, handshake)
	if err != nil {
		return err
	}
	if answer := resp.(*kmsg.SASLHandshakeResponse); answer.ErrorCode != 0 {
		return fmt.Errorf("%w; the peer takes %s", kerr.ErrorForCode(answer.ErrorCode), strings.Join(answer.SupportedMechanisms, ", "))
	}
	exchange, err := c.login.Begin(ctx, c.host)
	if err != nil {
		return err
	}
	var challenge []byte
	for {
		token, done, err := exchange.Next(challenge)
		if err != nil || done {
			return err
		}
		req := kmsg.NewPtrSASLAuthenticateRequest()
		req.SASLAuthBytes = token
		resp, err := c.roundTrip(ctx, req)
		if err != nil {
			return err
		}
		answer := resp.(*kmsg.SASLAuthenticateResponse)
		if answer.ErrorCode != 0 {
			return refusedLogin(answer)
		}
		challenge = answer.SASLAuthBytes
		c.renewAt = time.Time{}
		if answer.SessionLifetimeMillis > 0 {
			session := time.Duration(answer.SessionLifetimeMillis) * time.Millisecond
			c.renewAt = c.clock.Now().Add(time.Duration(renewShare * float64(session)))
		}
	}
}

func refusedLogin(answer *kmsg.SASLAuthenticateResponse) error {
	err := kerr.ErrorForCode(answer.ErrorCode)
	if answer.ErrorMessage != nil {
		err = fmt.Errorf("%w: %s", err, *answer.ErrorMessage)
	}
	return err
}

// renewsSession says whether it is time to authenticate again. writing is held.
func (c *Client) renewsSession() bool { return !c.renewAt.IsZero() && !c.clock.Now().Before(c.renewAt) }

// roundTrip sends a request of a login, beside the calls that are bounded, and waits for its response. writing is held.
func (c *Client) roundTrip(ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
	if err := c.choose(req); err != nil {
		return nil, err
	}
	resp := req.ResponseKind()
	k, err := c.send(req, resp, true)
	if err != nil {
		return nil, err
	}
	select {
	case err := <-k.done:
		return resp, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
