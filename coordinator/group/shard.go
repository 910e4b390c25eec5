package group

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/coordinator"
	"grete/protocol/batch"
)

// shard is the groups and offsets of one partition of __consumer_offsets.
type shard struct {
	cfg     *Config
	newUUID func() string
	cluster
	groups  map[string]group
	loaded  bool
	offsets offsetTable
	pending pendingOffsets
	readers topicIndex // groups by the topics that they have offsets of, committed or pending
	// subscribers is consumer groups by the topics that they subscribe to.
	subscribers topicIndex
	given       givenIDs
	expiry      coordinator.Timer
	// expiring is the groups that expiry has to look at.
	expiring expiryQueue

	sizes         *sizes
	countedGroups int64
	offsetsBytes  int64 // of committed and pending offsets
	membersBytes  int64 // of the members of all groups
	countedBytes  int64 // of all that the ledger was told
}

func newShard(cfg *Config, newUUID func() string) *shard {
	readers := make(topicIndex)
	return &shard{
		cfg: cfg, newUUID: newUUID, sizes: &sizes{}, given: givenIDs{lends: cfg.Joins},
		groups: make(map[string]group), offsets: newOffsetTable(readers), pending: newPendingOffsets(readers),
		readers: readers, subscribers: make(topicIndex),
	}
}

// Replay applies one record (coordinator.Machine).
func (s *shard) Replay(at coordinator.Position, key, value []byte) error {
	if len(key) < 2 {
		return fmt.Errorf("%w: key of %d bytes", errMalformed, len(key))
	}
	switch binary.BigEndian.Uint16(key) {
	case legacyOffsetCommitType, offsetCommitType:
		return s.replayOffset(at, key, value)
	case groupMetadataType:
		return s.replayGroup(key, value)
	case consumerGroupType, partitionMetadataType, consumerMemberType, targetMetadataType, targetMemberType, currentMemberType, regexType:
		return s.replayConsumer(key, value)
	}
	return nil // of a later Kafka, or another protocol
}

func (s *shard) replayOffset(at coordinator.Position, key, value []byte) error {
	var k kmsg.OffsetCommitKey
	if err := k.UnsafeReadFrom(key); err != nil {
		return fmt.Errorf("%w: offset commit key: %w", errMalformed, err)
	}
	if value == nil {
		s.owe(k.Group, -s.offsets.remove(k.Group, k.Topic, k.Partition)-s.pending.remove(k.Group, k.Topic, k.Partition))
		if s.offsets.groups[k.Group] == nil {
			s.changed(k.Group)
		}
		return nil
	}
	if s.groups[k.Group] == nil {
		id := strings.Clone(k.Group)
		s.put(id, newClassicGroup(id)) // a simple group: it commits, and has no members
	}
	table, c, fresh := s.place(at.ProducerID, &k)
	c.recordOffset = at.Offset
	before := c.bytes()
	err := c.read(value)
	more := c.bytes() - before
	table.grow(k.Group, more)
	if fresh {
		more += before
	}
	s.owe(k.Group, more)
	if err == nil && at.ProducerID == batch.NoProducerID {
		s.kept(k.Group, k.Topic, c)
	}
	return err
}

// place is where a commit belongs: with the offsets, or with those of a transaction.
func (s *shard) place(producerID int64, k *kmsg.OffsetCommitKey) (table offsetTable, c *committed, fresh bool) {
	if producerID != batch.NoProducerID {
		c, fresh = s.pending.slot(producerID, k.Group, k.Topic, k.Partition)
		return s.pending.byProducer[producerID].offsets, c, fresh
	}
	c, fresh = s.offsets.slot(k.Group, k.Topic, k.Partition)
	return s.offsets, c, fresh
}

func (s *shard) replayGroup(key, value []byte) error {
	var k kmsg.GroupMetadataKey
	if err := k.ReadFrom(key); err != nil {
		return fmt.Errorf("%w: group metadata key: %w", errMalformed, err)
	}
	if value == nil {
		if g, ok := s.groups[k.Group].(*classicGroup); ok {
			g.dissolve()
			s.drop(k.Group)
		}
		return nil
	}
	g, err := classicFromRecord(k.Group, value)
	if err == nil {
		s.put(k.Group, g)
	}
	return err
}

// Loaded starts the timers of what was in the log (coordinator.Machine).
func (s *shard) Loaded(tx *coordinator.Tx) {
	s.loaded = true
	s.recount()
	for id := range s.offsets.groups {
		s.tell(id)
	}
	for id, g := range s.groups {
		g.loaded(tx, s)
		s.changed(id)
	}
	s.expiry.Fire = s.expire
	tx.Schedule(&s.expiry, s.cfg.OffsetsRetentionCheckIntervalMs)
}

// Unloaded answers every parked request with NOT_COORDINATOR (coordinator.Machine).
func (s *shard) Unloaded(tx *coordinator.Tx) {
	for _, g := range s.groups {
		g.unload(tx)
	}
	s.loaded = false
	s.count(0)
	for id := range s.offsets.groups {
		s.sizes.offsets.Delete(id)
	}
	s.given.clear()
}

// classic returns the classic group of that id: UNKNOWN_MEMBER_ID when there is none or it follows another protocol,
// for whoever asks as a member of it.
func (s *shard) classic(id string) (*classicGroup, error) {
	g, ok := s.groups[id].(*classicGroup)
	if !ok {
		return nil, kerr.UnknownMemberID
	}
	return g, nil
}
