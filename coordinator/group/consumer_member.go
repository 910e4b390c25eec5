package group

import (
	"bytes"
	"cmp"
	"maps"
	"slices"

	"github.com/google/uuid"

	"grete/cluster/metadata"
	kafkauuid "grete/internal/uuid"
)

type topicID = metadata.UUID

// partitions is what a member is to have: sorted partitions by topic, no empty topic.
type partitions map[topicID][]int32

// ownership is what a member has: by topic, each partition with the epoch at which it got it. Never changed in place.
type ownership map[topicID]map[int32]int32

func sortedTopics[V any](m map[topicID]V) []topicID {
	return slices.SortedFunc(maps.Keys(m), func(a, b topicID) int { return bytes.Compare(a[:], b[:]) })
}

func sortedUnique[T cmp.Ordered](values []T) []T {
	slices.Sort(values)
	return slices.Compact(values)
}

func (p partitions) equal(o partitions) bool {
	return maps.EqualFunc(p, o, func(a, b []int32) bool { return slices.Equal(a, b) })
}

func (o ownership) equal(other ownership) bool {
	return maps.EqualFunc(o, other, func(a, b map[int32]int32) bool { return maps.Equal(a, b) })
}

func (o ownership) has(id topicID, partition int32) bool {
	_, ok := o[id][partition]
	return ok
}

// put adds a partition to an ownership that is still being built.
func (o ownership) put(id topicID, partition, epoch int32) {
	if o[id] == nil {
		o[id] = make(map[int32]int32)
	}
	o[id][partition] = epoch
}

// each visits in no order.
func (o ownership) each(visit func(id topicID, partition, epoch int32)) {
	for id, of := range o {
		for p, epoch := range of {
			visit(id, p, epoch)
		}
	}
}

// atEpoch is p as owned since epoch.
func (p partitions) atEpoch(epoch int32) ownership {
	o := make(ownership, len(p))
	for id, ps := range p {
		for _, partition := range ps {
			o.put(id, partition, epoch)
		}
	}
	return o
}

// plain is o without its epochs.
func (o ownership) plain() partitions {
	p := make(partitions, len(o))
	for id, of := range o {
		p[id] = slices.Sorted(maps.Keys(of))
	}
	return p
}

// memberState says how far a member has followed its target (Kafka's MemberState).
type memberState int8

const (
	memberStable     memberState = 0
	memberUnrevoked  memberState = 1 // has partitions to give up before it moves on
	memberUnreleased memberState = 2 // waits for partitions that others have not given up
)

// unknown states are those of a later Kafka.
func (s memberState) unknown() bool { return s < memberStable || s > memberUnreleased }

// The member epochs of requests that mean something else.
const (
	joiningEpoch     = 0
	leavingEpoch     = -1
	staticLeaveEpoch = -2 // the instance will come back; also the epoch that the member has meanwhile
)

// classicMetadata is what a member that speaks the classic protocol offered when it joined.
type classicMetadata struct {
	sessionTimeoutMs int32
	protocols        []protocol
}

func (c *classicMetadata) equal(o *classicMetadata) bool {
	if c == nil || o == nil {
		return c == o
	}
	return c.sessionTimeoutMs == o.sessionTimeoutMs && slices.EqualFunc(c.protocols, o.protocols, func(a, b protocol) bool {
		return a.name == b.name && bytes.Equal(a.metadata, b.metadata)
	})
}

// consumerMember is one of a consumer group. It is never changed: records make a new one.
type consumerMember struct {
	id                   string
	instance, rack       *string
	clientID, clientHost string
	topics               []string // subscribed by name, sorted
	regex                string   // subscribed by expression, "" when not
	assignor             *string
	rebalanceTimeoutMs   int32
	classic              *classicMetadata // nil: it speaks the consumer protocol

	epoch, previousEpoch int32
	state                memberState
	assigned, revoking   ownership
}

// bytes is what m takes in memory, apart from its partitions.
func (m *consumerMember) bytes() int64 {
	n := int64(memberBytes + len(m.id) + len(m.clientID) + len(m.clientHost) + len(m.regex))
	for _, topic := range m.topics {
		n += int64(len(topic))
	}
	if m.classic != nil {
		n += protocolBytes(m.classic.protocols)
	}
	return n
}

func newConsumerMember(id string) *consumerMember {
	return &consumerMember{id: id, rebalanceTimeoutMs: -1, previousEpoch: -1}
}

// sameSubscription compares what the member's metadata record holds.
func (m *consumerMember) sameSubscription(o *consumerMember) bool {
	return equalPtr(m.instance, o.instance) && equalPtr(m.rack, o.rack) && equalPtr(m.assignor, o.assignor) &&
		m.clientID == o.clientID && m.clientHost == o.clientHost && m.regex == o.regex &&
		m.rebalanceTimeoutMs == o.rebalanceTimeoutMs && slices.Equal(m.topics, o.topics) && m.classic.equal(o.classic)
}

// sameAssignment compares what the member's current assignment record holds.
func (m *consumerMember) sameAssignment(o *consumerMember) bool {
	return m.epoch == o.epoch && m.previousEpoch == o.previousEpoch && m.state == o.state &&
		m.assigned.equal(o.assigned) && m.revoking.equal(o.revoking)
}

func (m *consumerMember) reconciledTo(epoch int32) bool {
	return m.state == memberStable && m.epoch == epoch
}

func equalPtr[T comparable](a, b *T) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

// newMemberID makes an id in the form that Kafka's Uuid has: the 16 bytes in base64.
func (s *shard) newMemberID() string {
	text := s.newUUID()
	id, err := uuid.Parse(text)
	if err != nil {
		return text
	}
	return kafkauuid.UUID(id).String()
}
