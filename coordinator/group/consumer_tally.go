package group

import "grete/cluster/metadata"

// tally counts what a consumer group's members want. It follows every change of a member, so that the heartbeat of one
// looks at no other.
type tally struct {
	members   int
	classic   int            // members that speak the classic protocol
	topics    map[string]int // members by the topics that they subscribe to by name
	regexes   map[string]int // members by expression
	assignors map[string]int // members by the assignor that they ask for
	protocols map[string]int // classic members by the protocols that they offer
}

// count adds m to what is counted, or takes it out: by is 1 or -1.
func (t *tally) count(m *consumerMember, by int) {
	t.members += by
	for _, name := range m.topics {
		bump(&t.topics, name, by)
	}
	if m.regex != "" {
		bump(&t.regexes, m.regex, by)
	}
	if m.assignor != nil {
		bump(&t.assignors, *m.assignor, by)
	}
	if m.classic == nil {
		return
	}
	t.classic += by
	for _, p := range m.classic.protocols {
		bump(&t.protocols, p.name, by)
	}
}

func bump(counts *map[string]int, key string, by int) {
	if *counts == nil {
		*counts = make(map[string]int)
	}
	if (*counts)[key] += by; (*counts)[key] == 0 {
		delete(*counts, key)
	}
}

// tallyWithout returns what look makes of the group's tally as it will be without these members. The tally is counted
// back afterwards.
func tallyWithout[T any](g *consumerGroup, gone []*consumerMember, look func(*tally) T) T {
	for _, m := range gone {
		g.tally.count(m, -1)
		defer g.tally.count(m, 1)
	}
	return look(&g.tally)
}

// tallyWith returns what look makes of the group's tally as it will be with m, which may be new or take the place of
// another member.
func tallyWith[T any](g *consumerGroup, m *consumerMember, look func(*tally) T) T {
	before := g.replacedBy(m)
	if len(before) == 1 && before[0].sameSubscription(m) {
		return look(&g.tally)
	}
	return tallyWithout(g, before, func(t *tally) T {
		t.count(m, 1)
		defer t.count(m, -1)
		return look(t)
	})
}

// replacedBy is the members whose place m takes: of the same id, of the same instance id.
func (g *consumerGroup) replacedBy(m *consumerMember) []*consumerMember {
	var out []*consumerMember
	if old := g.members[m.id]; old != nil {
		out = append(out, old)
	}
	if old := g.staticMember(m.instance); old != nil && old.id != m.id {
		out = append(out, old)
	}
	return out
}

// metadataHash is the hash of the topics that these members subscribe to, by name or by an expression that is resolved.
func (t *tally) metadataHash(im *metadata.Image, resolved map[string]*resolvedRegex) int64 {
	names := make(map[string]struct{}, len(t.topics))
	for name := range t.topics {
		names[name] = struct{}{}
	}
	for regex := range t.regexes {
		if x := resolved[regex]; x != nil {
			for _, name := range x.topics {
				names[name] = struct{}{}
			}
		}
	}
	return metadataHash(im, names)
}
