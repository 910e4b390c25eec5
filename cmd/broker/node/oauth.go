package node

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"grete/internal/clock"
	"grete/internal/config"
	"grete/internal/security/sasl"
	"grete/internal/vfs"
)

const (
	// maxKeySetBytes bounds what an issuer's address gives, keysTimeout how long it may take.
	maxKeySetBytes = 1 << 20
	keysTimeout    = 10 * time.Second
	// minKeysPause is between two looks at it at least, whatever the properties say.
	minKeysPause = 10 * time.Millisecond
)

// issuerKeys are the keys of the issuer of tokens, as an address last gave them.
type issuerKeys struct {
	n       *Node
	url     string
	set     atomic.Pointer[sasl.KeySet]
	missing chan struct{} // a token names a key that is not known; holds one

	refresh, backoff, maxBackoff time.Duration
}

// bearerOf makes the rules for tokens on a listener. The keys are read before anybody comes in, and again and again
// until the node stops.
func (n *Node) bearerOf(ctx context.Context, l config.Listener) (*sasl.TokenRules, error) {
	cfg := n.o.Config
	if principal, skew, unsecured := cfg.Unsecured(l); unsecured {
		n.o.Log.Warn().Str("listener", l.Name).Msg("this listener takes OAUTHBEARER tokens without a signature: anybody can log in as anybody")
		return &sasl.TokenRules{Unsecured: true, Skew: skew, Subject: principal, Now: n.o.Clock.Now}, nil
	}
	k := &issuerKeys{
		n: n, url: cfg.ListenerText(l.Name, "sasl.oauthbearer.jwks.endpoint.url"), missing: make(chan struct{}, 1),
		refresh: millis(cfg.ListenerInt(l.Name, "sasl.oauthbearer.jwks.endpoint.refresh.ms")), backoff: millis(cfg.ListenerInt(l.Name, "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms")),
		maxBackoff: millis(cfg.ListenerInt(l.Name, "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms")),
	}
	for _, pause := range []*time.Duration{&k.refresh, &k.backoff, &k.maxBackoff} {
		*pause = max(*pause, minKeysPause)
	}
	if err := k.read(ctx); err != nil {
		return nil, fmt.Errorf("config: listener %s: sasl.oauthbearer.jwks.endpoint.url=%s: %w", l.Name, k.url, err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		k.follow(ctx)
	}()
	n.onStop("keys of tokens", func(context.Context) error { cancel(); <-ended; return nil })
	return &sasl.TokenRules{
		Audiences: config.SplitList(cfg.ListenerText(l.Name, "sasl.oauthbearer.expected.audience")), Issuer: cfg.ListenerText(l.Name, "sasl.oauthbearer.expected.issuer"),
		Skew:    time.Duration(cfg.ListenerInt(l.Name, "sasl.oauthbearer.clock.skew.seconds")) * time.Second,
		Subject: cfg.ListenerText(l.Name, "sasl.oauthbearer.sub.claim.name"), Now: n.o.Clock.Now, Keys: k.set.Load, MissingKey: k.miss,
	}, nil
}

// miss has the keys read soon. Whoever sends tokens cannot have that done more often than every maxBackoff.
func (k *issuerKeys) miss() {
	select {
	case k.missing <- struct{}{}:
	default:
	}
}

// follow reads the keys every refresh, after a failure sooner; what fails leaves the old in force.
func (k *issuerKeys) follow(ctx context.Context) {
	wait, failed := k.refresh, k.backoff
	for {
		if !k.pause(ctx, wait) {
			return
		}
		if err := k.read(ctx); err != nil {
			k.n.o.Log.Error().Err(err).Str("url", k.url).Msg("the keys of tokens cannot be read anew; those of before stay in force")
			wait, failed = failed, min(2*failed, k.maxBackoff)
			continue
		}
		wait, failed = k.refresh, k.backoff
	}
}

// pause waits, from maxBackoff on only until a key is missing; false when the node stops.
func (k *issuerKeys) pause(ctx context.Context, wait time.Duration) bool {
	least := min(wait, k.maxBackoff)
	if clock.Pause(ctx, k.n.o.Clock, least) != nil {
		return false
	}
	rest, cancel := clock.WithTimeout(ctx, k.n.o.Clock, wait-least)
	defer cancel()
	select {
	case <-k.missing:
	case <-rest.Done():
	}
	return ctx.Err() == nil
}

func (k *issuerKeys) read(ctx context.Context) error {
	text, err := k.fetch(ctx)
	if err != nil {
		return err
	}
	set, err := sasl.ParseKeySet(text)
	if err == nil {
		k.set.Store(set)
	}
	return err
}

// fetch gets the keys from the address itself: it alone is allowed, so that no redirection is followed.
func (k *issuerKeys) fetch(ctx context.Context) ([]byte, error) {
	if name, ok := strings.CutPrefix(k.url, "file://"); ok {
		return vfs.ReadFile(k.n.o.FS, name, maxKeySetBytes)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, k.url, nil)
	if err != nil {
		return nil, err
	}
	return readIssuer(req, keysTimeout, maxKeySetBytes)
}
