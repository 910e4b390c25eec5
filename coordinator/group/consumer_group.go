package group

import (
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"

	"grete/coordinator"
)

// initialEpoch is a group's epoch before anything has happened; the first member's join makes it 2.
const initialEpoch = 1

// consumerGroup is a group of KIP-848: the coordinator assigns, and members move towards their targets with each
// heartbeat. Everything but timers and what is derived comes from records.
type consumerGroup struct {
	id              string
	epoch           int32 // of members and subscriptions
	metadataHash    int64 // of the subscribed topics when epoch was last raised
	assignmentEpoch int32 // the group epoch that the targets were computed for
	assignmentMs    int64 // when; 0: never, or not since the group was empty or converted
	members         map[string]*consumerMember
	target          map[string]partitions
	regexes         map[string]*resolvedRegex
	legacyMetadata  bool // a partition metadata record is in the log, and to be deleted

	tally       tally
	static      map[string]string         // member ids by group.instance.id
	owners      map[topicPartition]string // who has a partition, or has not given it up yet
	timers      map[string]*memberTimers
	checked     int64 // standing of the metadata that the hash was last compared with; 0: it has to be
	weight      weight
	subscribers topicIndex // of the shard, which knows the group by its topics; nil: the shard does not have the group
}

type topicPartition struct {
	id        topicID
	partition int32
}

func newConsumerGroup(id string) *consumerGroup {
	return &consumerGroup{
		id: id, epoch: initialEpoch, assignmentEpoch: initialEpoch, members: make(map[string]*consumerMember),
		target: make(map[string]partitions), regexes: make(map[string]*resolvedRegex), static: make(map[string]string),
		owners: make(map[topicPartition]string), timers: make(map[string]*memberTimers),
	}
}

func (g *consumerGroup) kind() string             { return "consumer" }
func (g *consumerGroup) protocolTypeName() string { return consumerProtocolType }
func (g *consumerGroup) empty() bool              { return len(g.members) == 0 }
func (g *consumerGroup) dissolve()                {}

func (g *consumerGroup) stateName() string {
	switch {
	case g.empty():
		return "Empty"
	case g.epoch > g.assignmentEpoch:
		return "Assigning"
	}
	for _, m := range g.members {
		if !m.reconciledTo(g.assignmentEpoch) {
			return "Reconciling"
		}
	}
	return "Stable"
}

// setMember puts m in the place of the member of its id, if there is one.
func (g *consumerGroup) setMember(m *consumerMember) {
	g.subscribe(m)
	g.removeMember(m.id)
	g.members[m.id] = m
	g.weight.change(m.bytes())
	if m.instance != nil {
		g.static[*m.instance] = m.id
	}
	own := func(id topicID, p, _ int32) { g.owners[topicPartition{id, p}] = m.id }
	m.assigned.each(own)
	m.revoking.each(own)
}

func (g *consumerGroup) removeMember(id string) {
	m := g.members[id]
	if m == nil {
		return
	}
	delete(g.members, id)
	g.weight.change(-m.bytes())
	g.unsubscribe(m)
	if m.instance != nil && g.static[*m.instance] == id {
		delete(g.static, *m.instance)
	}
	disown := func(topic topicID, p, _ int32) {
		if at := (topicPartition{topic, p}); g.owners[at] == id {
			delete(g.owners, at)
		}
	}
	m.assigned.each(disown)
	m.revoking.each(disown)
}

// staticMember returns the member of that instance id, or nil.
func (g *consumerGroup) staticMember(instance *string) *consumerMember {
	if instance == nil {
		return nil
	}
	return g.members[g.static[*instance]]
}

// membersWith is the members in order of id as they will be with m, which may be new or take the place of another.
func (g *consumerGroup) membersWith(m *consumerMember) []*consumerMember {
	out := make([]*consumerMember, 0, len(g.members)+1)
	out = append(out, m)
	for _, o := range g.members {
		if o.id != m.id && (m.instance == nil || !equalPtr(o.instance, m.instance)) {
			out = append(out, o)
		}
	}
	return sortByID(out)
}

func (g *consumerGroup) membersWithout(gone map[string]bool) []*consumerMember {
	out := make([]*consumerMember, 0, len(g.members))
	for id, m := range g.members {
		if !gone[id] {
			out = append(out, m)
		}
	}
	return sortByID(out)
}

func sortByID(members []*consumerMember) []*consumerMember {
	slices.SortFunc(members, func(a, b *consumerMember) int {
		switch {
		case a.id < b.id:
			return -1
		case a.id > b.id:
			return 1
		}
		return 0
	})
	return members
}

// targetOf is m's target; a static member that comes back has that of its predecessor. ok is false without one.
func (g *consumerGroup) targetOf(m *consumerMember) (p partitions, ok bool) {
	if old := g.staticMember(m.instance); old != nil {
		p, ok = g.target[old.id]
		return p, ok
	}
	p, ok = g.target[m.id]
	return p, ok
}

// supportsClassic tells whether a classic member with these protocols fits: one that all classic members offer.
func (g *consumerGroup) supportsClassic(protocolType string, offered []protocol) bool {
	if protocolType != consumerProtocolType {
		return false
	}
	return slices.ContainsFunc(offered, func(p protocol) bool { return g.tally.protocols[p.name] == g.tally.classic })
}

// member finds who sends a request of the classic protocol, or the error that it gets.
func (g *consumerGroup) member(id string, instance *string) (*consumerMember, error) {
	if instance == nil {
		if m := g.members[id]; m != nil {
			return m, nil
		}
		return nil, g.unknown(id)
	}
	m := g.staticMember(instance)
	switch {
	case m == nil:
		return nil, refuse(kerr.UnknownMemberID, "No member of instance id %s in group %s.", *instance, g.id)
	case m.id != id:
		return nil, fenced(m, id, *instance)
	}
	return m, nil
}

func (g *consumerGroup) unknown(id string) error {
	return refuse(kerr.UnknownMemberID, "No member %s in group %s.", id, g.id)
}

func fenced(by *consumerMember, id, instance string) error {
	return refuse(kerr.FencedInstanceID, "Member %s of instance id %s has been replaced by member %s.", id, instance, by.id)
}

func (g *consumerGroup) checkDelete() error {
	if !g.empty() {
		return kerr.NonEmptyGroup
	}
	return nil
}

func (g *consumerGroup) checkOffsetDelete() error { return nil }

// touch: a commit is no sign of life here, only a heartbeat is.
func (g *consumerGroup) touch(*coordinator.Tx, string) {}

func (g *consumerGroup) expiryBaseMs(c *committed) (int64, bool) { return c.commitMs, true }

func (g *consumerGroup) deleteRecords(tx *coordinator.Tx) {
	var c changes
	c.tombstones(g)
	c.commit(tx)
}

func (g *consumerGroup) memberIDs() []string { return slices.Sorted(maps.Keys(g.members)) }
