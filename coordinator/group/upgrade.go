package group

import (
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster/metadata"
	"grete/coordinator"
)

// MigrationPolicy says which way groups are converted while they live (group.consumer.migration.policy).
type MigrationPolicy struct{ Upgrade, Downgrade bool }

// ParseMigrationPolicy reads the property's value.
func ParseMigrationPolicy(value string) MigrationPolicy {
	both := strings.EqualFold(value, "bidirectional")
	return MigrationPolicy{Upgrade: both || strings.EqualFold(value, "upgrade"), Downgrade: both || strings.EqualFold(value, "downgrade")}
}

// upgrade converts a classic group that lives into a consumer group, for its first member of the consumer protocol.
// The classic members stay, with what they have; those that wait for a rebalance are sent to join again.
func (t *turn) upgrade(g *classicGroup) error {
	if err := t.s.upgradeable(g); err != nil {
		return err
	}
	to, err := fromClassic(g, t.im)
	if err != nil {
		return err
	}
	t.c.put(consumerKey{kind: groupMetadataType, group: g.id}, nil)
	t.c.whole(to)
	t.c.whenApplied(func(tx *coordinator.Tx) {
		g.cancelTimers(tx)
		for _, m := range g.members {
			g.answerJoin(tx, m, joinError(m.id, kerr.RebalanceInProgress))
			g.answerSync(tx, m, syncError(kerr.RebalanceInProgress))
			t.s.keepAlive(tx, g.id, m.id, m.sessionTimeoutMs)
		}
	})
	t.g = to
	return nil
}

func (s *shard) upgradeable(g *classicGroup) error {
	reason := ""
	switch {
	case !s.cfg.Consumer.Migration.Upgrade:
		reason = "group.consumer.migration.policy does not allow it"
	case g.protocolType != consumerProtocolType:
		reason = "its protocol type is not consumer"
	case len(g.members) > s.cfg.Consumer.MaxSize:
		reason = "it has more members than group.consumer.max.size"
	default:
		return nil
	}
	return cannotUpgrade(g.id, reason)
}

func cannotUpgrade(groupID, reason string) error {
	return refuse(kerr.GroupIDNotFound, "Classic group %s cannot become a consumer group: %s.", groupID, reason)
}

// fromClassic makes the consumer group that g becomes: generation, assignments and subscriptions carry over.
func fromClassic(g *classicGroup, im *metadata.Image) (*consumerGroup, error) {
	to := newConsumerGroup(g.id)
	to.epoch, to.assignmentEpoch = g.generation, g.generation
	for _, m := range g.members {
		subscription, err := readConsumerSubscription(m.metadata(g.protocol))
		if err != nil {
			return nil, cannotUpgrade(g.id, "a member's subscription or assignment cannot be read")
		}
		assigned, err := readConsumerAssignment(m.assignment, im)
		if err != nil {
			return nil, cannotUpgrade(g.id, err.Error())
		}
		to.target[m.id] = assigned
		to.setMember(&consumerMember{
			id: m.id, instance: m.instance, rack: nonEmpty(subscription.Rack), clientID: m.clientID, clientHost: m.clientHost,
			topics: cloneNames(subscription.Topics), rebalanceTimeoutMs: m.rebalanceTimeoutMs,
			classic: &classicMetadata{m.sessionTimeoutMs, m.protocols},
			epoch:   g.generation, previousEpoch: g.generation, assigned: assigned.atEpoch(g.generation),
		})
	}
	to.metadataHash = to.tally.metadataHash(im, nil)
	return to, nil
}

func nonEmpty(s *string) *string {
	if s == nil || *s == "" {
		return nil
	}
	return s
}

// readConsumerSubscription reads what a consumer's client wrote, whatever its version: later ones only add fields.
func readConsumerSubscription(raw []byte) (*kmsg.ConsumerMemberMetadata, error) {
	var v kmsg.ConsumerMemberMetadata
	if err := v.ReadFrom(raw); err != nil {
		return nil, err
	}
	return &v, nil
}

type unsupportedAssignment string

func (e unsupportedAssignment) Error() string { return string(e) }

// readConsumerAssignment reads what a leader assigned; topics that are no more are dropped. What an assignor of its own
// left for itself would be lost.
func readConsumerAssignment(raw []byte, im *metadata.Image) (partitions, error) {
	out := make(partitions)
	if len(raw) == 0 {
		return out, nil
	}
	var v kmsg.ConsumerMemberAssignment
	if err := v.ReadFrom(raw); err != nil {
		return nil, unsupportedAssignment("a member's subscription or assignment cannot be read")
	}
	if len(v.UserData) > 0 {
		return nil, unsupportedAssignment("its assignor keeps data of its own in assignments, which would be lost")
	}
	for _, t := range v.Topics {
		if topic := im.Topic(t.Topic); topic != nil && len(t.Partitions) > 0 {
			out[topic.ID] = sortedUnique(t.Partitions)
		}
	}
	return out, nil
}

// consumerAssignment is p as a client of the classic protocol reads it, in the version of its subscription.
func consumerAssignment(p partitions, subscription []byte, im *metadata.Image) []byte {
	v := kmsg.NewConsumerMemberAssignment()
	if s, err := readConsumerSubscription(subscription); err == nil {
		v.Version = min(max(s.Version, 0), maxAssignmentVersion)
	}
	for _, id := range sortedTopics(p) {
		if t := im.TopicByID(id); t != nil {
			v.Topics = append(v.Topics, kmsg.ConsumerMemberAssignmentTopic{Topic: t.Name, Partitions: p[id]})
		}
	}
	return v.AppendTo(nil)
}

// maxAssignmentVersion is the newest of ConsumerProtocolAssignment.
const maxAssignmentVersion = 3
