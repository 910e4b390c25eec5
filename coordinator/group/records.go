package group

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// The record types of __consumer_offsets are the versions of their keys (Kafka's CoordinatorRecordType); OffsetCommit
// was written as version 0 long ago and as 1 since.
const (
	legacyOffsetCommitType = 0
	offsetCommitType       = 1
	groupMetadataType      = 2
)

// The versions that Kafka 4.4 writes. A commit with a retention of its own needs version 1, the only one with an
// expire timestamp.
const (
	offsetCommitVersion               = 4
	expiringOffsetCommitVersion       = 1
	groupMetadataVersion              = 3
	latestReadableValueVersion        = 4
	unknownTimestampMs                = -1
	absentLeaderEpoch           int32 = -1
)

var errMalformed = errors.New("group: malformed record")

func offsetCommitKey(groupID, topic string, partition int32) []byte {
	k := kmsg.OffsetCommitKey{Version: offsetCommitType, Group: groupID, Topic: topic, Partition: partition}
	return k.AppendTo(nil)
}

func groupMetadataKey(groupID string) []byte {
	k := kmsg.GroupMetadataKey{Version: groupMetadataType, Group: groupID}
	return k.AppendTo(nil)
}

// committed is one committed offset.
type committed struct {
	offset       int64
	leaderEpoch  int32 // absentLeaderEpoch when unknown
	metadata     string
	commitMs     int64
	expireMs     int64 // unknownTimestampMs: by offsets.retention.minutes
	topicID      [16]byte
	recordOffset int64
}

func (c *committed) value() []byte {
	v := kmsg.OffsetCommitValue{
		Version:         offsetCommitVersion,
		Offset:          c.offset,
		LeaderEpoch:     c.leaderEpoch,
		Metadata:        c.metadata,
		CommitTimestamp: c.commitMs,
		ExpireTimestamp: c.expireMs,
		TopicID:         c.topicID,
	}
	if c.expireMs != unknownTimestampMs {
		v.Version = expiringOffsetCommitVersion
	}
	return v.AppendTo(nil)
}

// read fills c from a record's value; an equal metadata string is kept, so that reloading a busy key makes no garbage.
func (c *committed) read(value []byte) error {
	if err := checkVersion(value); err != nil {
		return err
	}
	v := kmsg.OffsetCommitValue{LeaderEpoch: absentLeaderEpoch, ExpireTimestamp: unknownTimestampMs}
	if err := v.UnsafeReadFrom(value); err != nil {
		return fmt.Errorf("%w: offset commit value: %w", errMalformed, err)
	}
	c.offset, c.leaderEpoch, c.commitMs, c.expireMs = v.Offset, v.LeaderEpoch, v.CommitTimestamp, v.ExpireTimestamp
	c.topicID = v.TopicID
	if v.Version < 3 {
		c.leaderEpoch = absentLeaderEpoch
	}
	if v.Version != expiringOffsetCommitVersion {
		c.expireMs = unknownTimestampMs
	}
	if c.metadata != v.Metadata {
		c.metadata = strings.Clone(v.Metadata)
	}
	return nil
}

func checkVersion(value []byte) error {
	if len(value) < 2 {
		return fmt.Errorf("%w: value of %d bytes", errMalformed, len(value))
	}
	if v := binary.BigEndian.Uint16(value); v > latestReadableValueVersion {
		return fmt.Errorf("%w: value version %d", errMalformed, v)
	}
	return nil
}

// metadataValue is the group's record with the assignments given; a member that is absent there has an empty one.
func (g *classicGroup) metadataValue(assignments map[string][]byte) []byte {
	v := kmsg.GroupMetadataValue{
		Version:               groupMetadataVersion,
		ProtocolType:          g.protocolType,
		Generation:            g.generation,
		Protocol:              g.protocol,
		CurrentStateTimestamp: g.sinceMs,
	}
	if g.leader != "" {
		v.Leader = &g.leader
	}
	for _, m := range g.members {
		v.Members = append(v.Members, kmsg.GroupMetadataValueMember{
			MemberID:               m.id,
			InstanceID:             m.instance,
			ClientID:               m.clientID,
			ClientHost:             m.clientHost,
			RebalanceTimeoutMillis: m.rebalanceTimeoutMs,
			SessionTimeoutMillis:   m.sessionTimeoutMs,
			Subscription:           m.metadata(g.protocol),
			Assignment:             assignments[m.id],
		})
	}
	return v.AppendTo(nil)
}

// classicFromRecord builds the group that a GroupMetadata record describes.
func classicFromRecord(id string, value []byte) (*classicGroup, error) {
	if err := checkVersion(value); err != nil {
		return nil, err
	}
	var v kmsg.GroupMetadataValue
	if err := v.ReadFrom(value); err != nil {
		return nil, fmt.Errorf("%w: group metadata value: %w", errMalformed, err)
	}
	g := newClassicGroup(id)
	g.protocolType, g.protocol, g.generation = v.ProtocolType, v.Protocol, v.Generation
	g.sinceMs = unknownTimestampMs
	if v.Version >= 2 {
		g.sinceMs = v.CurrentStateTimestamp
	}
	if len(v.Members) > 0 {
		g.state = stable
	}
	for i := range v.Members {
		g.add(memberFromRecord(&v, &v.Members[i]))
	}
	g.leader = ""
	if v.Leader != nil {
		g.leader = *v.Leader
	}
	g.computeSubscribed()
	return g, nil
}

// memberFromRecord copies what aliases the record. Only the chosen protocol is in it.
func memberFromRecord(v *kmsg.GroupMetadataValue, r *kmsg.GroupMetadataValueMember) *member {
	m := &member{
		id: r.MemberID, instance: r.InstanceID, clientID: r.ClientID, clientHost: r.ClientHost,
		rebalanceTimeoutMs: r.RebalanceTimeoutMillis, sessionTimeoutMs: r.SessionTimeoutMillis,
		assignment: slices.Clone(r.Assignment),
	}
	if v.Version < 1 || m.rebalanceTimeoutMs == -1 {
		m.rebalanceTimeoutMs = m.sessionTimeoutMs
	}
	if v.Protocol != nil {
		m.protocols = []protocol{{*v.Protocol, slices.Clone(r.Subscription)}}
	}
	return m
}
