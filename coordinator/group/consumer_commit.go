package group

import (
	"github.com/twmb/franz-go/pkg/kerr"
)

// minMemberEpochVersion is the first version of OffsetCommit that members of the consumer protocol may use.
const minMemberEpochVersion = 9

func (g *consumerGroup) checkCommit(c commitContext) error {
	switch {
	case c.generation < 0 && g.empty():
		return nil // an admin client, or a consumer that assigns by itself
	case c.transactional && c.generation == -1 && c.memberID == "" && c.instanceID == nil:
		return nil
	}
	m := g.members[c.memberID]
	switch {
	case m == nil:
		return kerr.UnknownMemberID
	case !c.transactional && m.classic == nil && c.version < minMemberEpochVersion:
		return kerr.UnsupportedVersion
	case c.generation > m.epoch:
		return m.staleEpoch()
	}
	return nil
}

// checkPartition lets a member commit with an older epoch what it has had since then: its commit may have been on the
// way while it moved on (KIP-1251).
func (g *consumerGroup) checkPartition(c commitContext, id topicID, partition int32) error {
	m := g.members[c.memberID]
	if m == nil || c.generation >= m.epoch {
		return nil
	}
	since, ok := m.assigned[id][partition]
	if !ok {
		since, ok = m.revoking[id][partition]
	}
	if !ok || c.generation < since {
		return m.staleEpoch()
	}
	return nil
}

// staleEpoch is the error of a wrong epoch in the member's own protocol.
func (m *consumerMember) staleEpoch() error {
	if m.classic != nil {
		return kerr.IllegalGeneration
	}
	return kerr.StaleMemberEpoch
}

// checkFetch: whoever names itself must be a member, of the epoch that it says.
func (g *consumerGroup) checkFetch(memberID *string, epoch int32) error {
	if memberID == nil && epoch < 0 {
		return nil
	}
	var m *consumerMember
	if memberID != nil {
		m = g.members[*memberID]
	}
	switch {
	case m == nil:
		return kerr.UnknownMemberID
	case m.epoch != epoch:
		return m.staleEpoch()
	}
	return nil
}
