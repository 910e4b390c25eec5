package cluster

import (
	"errors"
	"maps"
	"slices"
	"strings"
)

// Unjoined is a seed that has not let this node in.
type Unjoined struct {
	Seed    string // host:port
	Why     string
	Answers bool // somebody listens there
}

// errUndialled is where nobody listens: memberlist passes the text of errors on, not the errors.
var errUndialled = errors.New("nobody was reached")

// Unjoined is Membership's.
func (g *Gossip) Unjoined() []Unjoined {
	g.mu.Lock()
	defer g.mu.Unlock()
	var out []Unjoined
	for _, seed := range slices.Sorted(maps.Keys(g.unjoined)) {
		out = append(out, g.unjoined[seed])
	}
	return out
}

// noteSeed keeps what asking a seed has come to, nil: it let this node in; and logs what is new.
func (g *Gossip) noteSeed(seed string, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err == nil {
		delete(g.unjoined, seed)
		return
	}
	u := g.refusalOf(seed, err.Error())
	if g.unjoined[seed] != u {
		g.unjoined[seed] = u
		g.o.Log.Info().Str("seed", seed).Str("why", u.Why).Msg("a seed of gossip has not let this node in; it is asked again")
	}
}

// refusalOf reads an error of memberlist's Join.
func (g *Gossip) refusalOf(seed, text string) Unjoined {
	text = strings.TrimSpace(text)
	cause := text[strings.LastIndex(text, ": ")+1:]
	switch {
	case strings.Contains(text, "failed to resolve"):
		return Unjoined{Seed: seed, Why: "its name does not resolve:" + cause}
	case strings.Contains(text, errUndialled.Error()), strings.Contains(text, "timeout"):
		return Unjoined{Seed: seed, Why: "no answer:" + cause}
	case strings.Contains(text, "remote error"):
		return Unjoined{Seed: seed, Why: "it refuses:" + cause, Answers: true}
	case g.o.Key == nil:
		return Unjoined{Seed: seed, Why: "it answers, but not as a node without gossip.key", Answers: true}
	}
	return Unjoined{Seed: seed, Why: "it answers, but not with this node's gossip.key", Answers: true}
}
