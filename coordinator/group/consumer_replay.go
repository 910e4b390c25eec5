package group

// replayConsumer applies a record of a consumer group. Deleting what is not there changes nothing: compaction may
// have taken what a tombstone was for.
func (s *shard) replayConsumer(key, value []byte) error {
	k, err := readConsumerKey(key)
	if err != nil {
		return err
	}
	if value == nil {
		if g, ok := s.groups[k.group].(*consumerGroup); ok {
			s.replayTombstone(g, k)
			s.changedBy(k)
		}
		return nil
	}
	g, ok := s.groups[k.group].(*consumerGroup)
	if !ok { // a simple group so far, or none
		g = newConsumerGroup(k.group)
	}
	if err := g.replay(k, value); err != nil {
		return err
	}
	s.put(g.id, g)
	s.changedBy(k)
	return nil
}

// changedBy follows the records that decide which topics the group subscribes to, and whether it is empty.
func (s *shard) changedBy(k consumerKey) {
	if k.kind == consumerMemberType || k.kind == regexType {
		s.changed(k.group)
	}
}

func (g *consumerGroup) replay(k consumerKey, value []byte) (err error) {
	switch k.kind {
	case consumerGroupType:
		g.epoch, g.metadataHash, err = readEpochValue(value)
	case partitionMetadataType:
		g.legacyMetadata = true
	case targetMetadataType:
		g.assignmentEpoch, g.assignmentMs, err = readEpochValue(value)
	case targetMemberType:
		var p partitions
		if p, err = readTarget(value); err == nil {
			g.target[k.name] = p
		}
	case consumerMemberType:
		err = g.replayMember(k.name, func(m *consumerMember) error { return m.readMember(value) })
	case currentMemberType:
		err = g.replayMember(k.name, func(m *consumerMember) error { return m.readCurrent(value) })
	case regexType:
		var x *resolvedRegex
		if x, err = readRegex(value); err == nil {
			g.setRegex(k.name, x)
		}
	}
	return err
}

// replayMember makes a member anew from what it was and one record.
func (g *consumerGroup) replayMember(id string, read func(*consumerMember) error) error {
	m := newConsumerMember(id)
	if old := g.members[id]; old != nil {
		*m = *old
	}
	if err := read(m); err != nil {
		return err
	}
	g.setMember(m)
	return nil
}

func (s *shard) replayTombstone(g *consumerGroup, k consumerKey) {
	switch k.kind {
	case consumerGroupType:
		s.drop(k.group)
	case partitionMetadataType:
		g.legacyMetadata = false
	case targetMetadataType:
		g.assignmentEpoch, g.assignmentMs = -1, 0
	case targetMemberType:
		delete(g.target, k.name)
	case consumerMemberType:
		g.removeMember(k.name)
	case currentMemberType:
		if old := g.members[k.name]; old != nil {
			m := *old
			m.epoch, m.previousEpoch, m.assigned, m.revoking = leavingEpoch, leavingEpoch, nil, nil
			g.setMember(&m)
		}
	case regexType:
		g.setRegex(k.name, nil)
	}
}
