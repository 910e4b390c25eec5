package protocol

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"grete/internal/security/sasl"
)

func plainLogin(name, password string) *Login {
	return &Login{Mechanism: sasl.Plain, Begin: func(context.Context, string) (sasl.Client, error) { return sasl.NewPlainClient(name, password), nil }}
}

func TestClientLogsIn(t *testing.T) {
	names := make(chan Principal, 1)
	h := brokerHandler().on(heartbeatKey, func(r *Request) { names <- r.Conn.Principal(); r.Respond(r.Body.ResponseKind()) })
	s := startServer(t, h, withSASL(nil))
	scram := &Login{Mechanism: sasl.ScramSHA256, Begin: func(context.Context, string) (sasl.Client, error) {
		return sasl.SHA256.NewScramClient("bob", "hunter2", func(p []byte) { _, _ = rand.Read(p) })
	}}
	for name, login := range map[string]*Login{"ann": plainLogin("ann", "secret"), "bob": scram} {
		greeted := Principal{}
		c, err := Dial(t.Context(), s.addr, ClientOptions{Login: login, Greet: func(ctx context.Context, c *Client) error {
			_, err := c.Call(ctx, heartbeat("a"))
			greeted = <-names
			return err
		}})
		if err != nil {
			t.Fatal(name, err)
		}
		if greeted.Name != name {
			t.Errorf("%s greets as %v", name, greeted)
		}
		c.Close()
	}
	for text, login := range map[string]*Login{
		"Invalid username or password": plainLogin("ann", "wrong"), "the peer takes PLAIN, SCRAM-SHA-256": {Mechanism: "GSSAPI"},
	} {
		_, err := Dial(t.Context(), s.addr, ClientOptions{Login: login})
		if err == nil || !strings.Contains(err.Error(), text) || strings.Contains(err.Error(), "wrong") {
			t.Error(err)
		}
	}
	if _, err := Dial(t.Context(), s.addr, ClientOptions{Login: plainLogin("ann", "wrong")}); !errors.Is(err, kerr.SaslAuthenticationFailed) {
		t.Error(err)
	}
}

// Calls go on over the end of sessions, whoever is under way.
func TestClientRenewsItsSession(t *testing.T) {
	h := brokerHandler().on(heartbeatKey, func(r *Request) {
		time.AfterFunc(5*time.Millisecond, func() { r.Respond(r.Body.ResponseKind()) })
	})
	s := startServer(t, h, withSASL(func(s *SASL) { s.Mechanisms[0].MaxSession = 2 * time.Second }))
	c, err := Dial(t.Context(), s.addr, ClientOptions{Login: plainLogin("ann", "secret"), MaxInFlight: 4})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.writing.Lock()
	first := c.renewAt
	c.writing.Unlock()
	var callers sync.WaitGroup
	for range 8 {
		callers.Go(func() {
			for until := time.Now().Add(2500 * time.Millisecond); time.Now().Before(until); {
				if _, err := c.Call(t.Context(), heartbeat("a")); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	callers.Wait()
	c.writing.Lock()
	defer c.writing.Unlock()
	if first.IsZero() || !c.renewAt.After(first) {
		t.Errorf("the session was to be renewed at %v, then at %v", first, c.renewAt)
	}
}
