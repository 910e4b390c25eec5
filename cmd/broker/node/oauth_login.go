package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"grete/internal/clock"
	"grete/internal/config"
	"grete/internal/security/sasl"
	"grete/internal/vfs"
	"grete/protocol"
)

const (
	// maxTokenBytes bounds a token, and what an issuer answers.
	maxTokenBytes = 64 << 10
	// minTokenPause is between two requests for a token at least, whatever the properties say.
	minTokenPause = 10 * time.Millisecond
)

// ownTokens are the tokens that this node logs in with by OAUTHBEARER, as it last got one.
type ownTokens struct {
	n       *Node
	login   config.BearerLogin
	current atomic.Pointer[sasl.BearerToken]
}

// bearerLogin gets a token before anybody needs it, and others until the node stops.
func (n *Node) bearerLogin(ctx context.Context, l config.Listener) (*protocol.Login, error) {
	o := &ownTokens{n: n, login: n.o.Config.BearerLogin(l)}
	if o.login.URL == "" && o.login.Claims == nil {
		return nil, nil // there are no other nodes, or the configuration would have been refused
	}
	if o.login.URL == "" {
		n.o.Log.Warn().Str("listener", l.Name).Msg("this node logs in to others with tokens without a signature (unsecuredLogin): anybody can make such tokens")
	}
	if err := o.first(ctx); err != nil {
		return nil, fmt.Errorf("config: listener %s: sasl.oauthbearer.token.endpoint.url=%s: %w", l.Name, o.login.URL, err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		o.follow(ctx)
	}()
	n.onStop("tokens to log in with", func(context.Context) error { cancel(); <-ended; return nil })
	return &protocol.Login{Mechanism: sasl.OAuthBearer, Begin: o.begin}, nil
}

// begin begins a login with the token that there is.
func (o *ownTokens) begin(context.Context, string) (sasl.Client, error) {
	t := o.current.Load()
	if !o.n.o.Clock.Now().Before(t.Expires) {
		return nil, errors.New("the token of this node has expired, and there is no other yet")
	}
	return sasl.NewOAuthBearerClient(t.Text), nil
}

// first gets the first token; an issuer that does not answer is asked again until sasl.login.retry.backoff.max.ms have
// passed, as Kafka's is; one that refuses is not.
func (o *ownTokens) first(ctx context.Context) error {
	pause := max(o.login.Backoff, minTokenPause)
	for waited := time.Duration(0); ; waited, pause = waited+pause, 2*pause {
		err := o.renew(ctx)
		if bad, ok := errors.AsType[badStatus](err); err == nil || ctx.Err() != nil || ok && bad.final() || waited+pause > o.login.MaxBackoff {
			return err
		}
		if clock.Pause(ctx, o.n.o.Clock, pause) != nil {
			return err
		}
	}
}

// follow replaces the token before it expires. While the issuer gives none, the one that there is stays.
func (o *ownTokens) follow(ctx context.Context) {
	failed := max(o.login.Backoff, minTokenPause)
	wait := o.untilRefresh()
	for clock.Pause(ctx, o.n.o.Clock, wait) == nil {
		if err := o.renew(ctx); err != nil {
			if ctx.Err() == nil {
				o.n.o.Log.Error().Err(err).Str("url", o.login.URL).Time("expires", o.current.Load().Expires).Msg("there is no new token to log in to other nodes with")
			}
			wait, failed = failed, min(2*failed, max(o.login.MaxBackoff, minTokenPause))
			continue
		}
		wait, failed = o.untilRefresh(), max(o.login.Backoff, minTokenPause)
	}
}

func (o *ownTokens) untilRefresh() time.Duration {
	var random [1]byte
	o.n.random(random[:])
	now := o.n.o.Clock.Now()
	return max(o.login.Refresh.At(*o.current.Load(), now, float64(random[0])/256).Sub(now), minTokenPause)
}

// renew gets a token. One that has expired already is an error.
func (o *ownTokens) renew(ctx context.Context) error {
	t, err := o.get(ctx)
	if err == nil && !o.n.o.Clock.Now().Before(t.Expires) {
		err = errors.New("the token has expired already")
	}
	if err == nil {
		o.current.Store(&t)
	}
	return err
}

func (o *ownTokens) get(ctx context.Context) (sasl.BearerToken, error) {
	if o.login.URL == "" {
		return sasl.UnsecuredToken(o.login.Claims, o.n.o.Clock.Now(), o.login.Lifetime)
	}
	var text string
	if name, ok := strings.CutPrefix(o.login.URL, "file://"); ok {
		content, err := vfs.ReadFile(o.n.o.FS, name, maxTokenBytes)
		if err != nil {
			return sasl.BearerToken{}, err
		}
		text = strings.TrimSpace(string(content))
	} else {
		body, err := o.ask(ctx)
		if err != nil {
			return sasl.BearerToken{}, err
		}
		if text, err = sasl.TokenOfResponse(body); err != nil {
			return sasl.BearerToken{}, err
		}
	}
	return sasl.ReadToken(text, o.login.Subject)
}

// ask asks the issuer for a token, by client credentials (RFC 6749, 4.4). Its address alone is allowed, so that no
// redirection is followed.
func (o *ownTokens) ask(ctx context.Context) ([]byte, error) {
	form := url.Values{"grant_type": {"client_credentials"}}
	if o.login.Scope != "" {
		form.Set("scope", o.login.Scope)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, o.login.URL, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	req.SetBasicAuth(o.login.ClientID, o.login.ClientSecret)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "application/json")
	req.Header.Set("Cache-Control", "no-cache")
	return readIssuer(req, o.login.Timeout, maxTokenBytes)
}

// badStatus is an answer of an issuer that is no success.
type badStatus struct {
	code int
	text string
}

func (s badStatus) Error() string { return "answered " + s.text }

// final says that it stays so however often one asks: what the client does wrong, unless it came too late or too often.
func (s badStatus) final() bool {
	switch s.code {
	case http.StatusRequestTimeout, http.StatusTooManyRequests:
		return false
	case http.StatusNotImplemented, http.StatusHTTPVersionNotSupported:
		return true
	}
	return s.code >= 400 && s.code < 500
}

// readIssuer sends a request to an issuer. Errors have no word of what it answers.
func readIssuer(req *http.Request, timeout time.Duration, maxBytes int64) ([]byte, error) {
	client := http.Client{Timeout: timeout, CheckRedirect: func(*http.Request, []*http.Request) error { return errors.New("a redirection") }}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, badStatus{resp.StatusCode, resp.Status}
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBytes+1))
	if err == nil && int64(len(body)) > maxBytes {
		err = fmt.Errorf("longer than %d bytes", maxBytes)
	}
	return body, err
}
