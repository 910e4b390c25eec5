package group

import (
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"

	"grete/cluster/metadata"
	"grete/coordinator"
)

// turn is one member's step: its subscription is noted, the group's epoch raised if that changed anything, targets
// computed when they are due, and the member moved towards its own. A heartbeat and a classic member's JoinGroup are
// turns.
type turn struct {
	s     *shard
	rc    RequestContext
	tx    *coordinator.Tx
	c     changes
	g     *consumerGroup
	im    *metadata.Image
	old   *consumerMember // the member as it was; a new one has no epoch yet
	m     *consumerMember // as it will be
	epoch int32           // the group's as it will be
}

// checkSize holds group.consumer.max.size and the share of the memory; a static member that comes back takes its old
// place.
func (t *turn) checkSize(memberID string, instance *string) error {
	limit := t.s.cfg.Consumer.MaxSize
	if t.g.staticMember(instance) != nil || t.g.members[memberID] != nil {
		return nil
	}
	if len(t.g.members) < limit {
		return t.s.admitMember(memberBytes)
	}
	return refuse(kerr.GroupMaxSizeReached, "The group is full: it has %d members.", limit)
}

// noteMember records what the member says of itself, and tells whether its topics by name have changed.
func (t *turn) noteMember() bool {
	if t.m.sameSubscription(t.old) {
		return false
	}
	t.c.member(t.g.id, t.m)
	return !slices.Equal(t.m.topics, t.old.topics)
}

// raiseEpoch gives the group a new epoch if it must, or if the topics are not what they were.
func (t *turn) raiseEpoch(must bool) {
	g := t.g
	if !must && g.checked == t.s.followed.racks.Load() {
		return
	}
	hash := tallyWith(g, t.m, func(is *tally) int64 { return is.metadataHash(t.im, g.regexes) })
	if must || hash != g.metadataHash {
		t.epoch++
		t.c.epoch(g.id, t.epoch, hash)
	}
	if g.legacyMetadata {
		t.c.delete(consumerKey{kind: partitionMetadataType, group: g.id})
	}
	g.checked = t.s.followed.standing(t.im)
	t.c.whenFailed(func(*coordinator.Tx, error) { g.checked = 0 })
}

// target is the member's target and the group epoch that it is for. It is computed when the group's epoch has been
// raised, but not more often than consumer.assignment.interval.ms.
func (t *turn) target() (epoch int32, p partitions) {
	g := t.g
	intervalMs := int64(t.s.groupSettings(g.id).AssignmentIntervalMs)
	early := g.assignmentMs != 0 && intervalMs != 0 && t.tx.NowMs < g.assignmentMs+intervalMs
	if g.assignmentEpoch >= t.epoch || early {
		p, _ = g.targetOf(t.m)
		return g.assignmentEpoch, p
	}
	members := g.membersWith(t.m)
	assign := assignors[tallyWith(g, t.m, t.s.preferredAssignor)]
	assigned := assign(t.assignees(members))
	for _, m := range members {
		before, had := g.target[m.id]
		if m == t.m {
			before, had = g.targetOf(m)
		}
		if !had || !assigned[m.id].equal(before) {
			t.c.target(g.id, m.id, assigned[m.id])
		}
	}
	t.c.targetEpoch(g.id, t.epoch, t.tx.NowMs)
	return t.epoch, assigned[t.m.id]
}

// assignees is the members as assignors see them: with topics that exist, and with the targets that they have.
func (t *turn) assignees(members []*consumerMember) assignment {
	a := assignment{sizes: make(map[topicID]int32)}
	for _, m := range members {
		held := t.g.target[m.id]
		if m == t.m {
			held, _ = t.g.targetOf(m)
		}
		ids := t.g.subscribedIDs(t.im, m)
		for id := range ids {
			a.sizes[id] = int32(len(t.im.TopicByID(id).Partitions))
		}
		a.members = append(a.members, assignee{id: m.id, instance: m.instance, topics: sortedTopics(ids), held: held})
	}
	return a
}

// reconcile moves the member towards its target; owned is what it says it has, nil when it does not say.
func (t *turn) reconcile(epoch int32, target partitions, subscriptionChanged bool, owned partitions) error {
	switch {
	case !subscriptionChanged && t.m.reconciledTo(epoch):
		return nil
	case t.m.state.unknown() && (owned == nil || len(owned) > 0):
		return refuse(kerr.FencedMemberEpoch, "The member is in a state that this coordinator does not know: it must give up its partitions and join again.")
	}
	r := reconciliation{g: t.g, m: t.m, epoch: epoch, target: target, subscribed: t.g.subscribedIDs(t.im, t.m), owned: owned}
	next := r.next(subscriptionChanged)
	if next.sameAssignment(t.m) {
		return nil
	}
	t.m = next
	t.c.current(t.g.id, next)
	if next.classic != nil {
		return nil
	}
	t.c.whenApplied(func(tx *coordinator.Tx) {
		if g, ok := t.s.groups[t.g.id].(*consumerGroup); ok {
			t.s.watchRevocation(tx, g, g.members[next.id])
		}
	})
	return nil
}

// preferredAssignor is the one that most members ask for; of equals, and without any, the broker's order decides.
func (s *shard) preferredAssignor(t *tally) string {
	best := s.cfg.Consumer.Assignors[0]
	for _, name := range s.cfg.Consumer.Assignors {
		if t.assignors[name] > t.assignors[best] {
			best = name
		}
	}
	return best
}

// assignorChanged tells whether the member's choice changes the group's.
func (t *turn) assignorChanged() bool {
	if equalPtr(t.old.assignor, t.m.assignor) && t.g.members[t.old.id] != nil {
		return false
	}
	return t.s.preferredAssignor(&t.g.tally) != tallyWith(t.g, t.m, t.s.preferredAssignor)
}

func cloneString(s *string) *string {
	if s == nil {
		return nil
	}
	c := strings.Clone(*s)
	return &c
}
