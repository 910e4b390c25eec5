package metadata

import (
	"fmt"
	"slices"
)

func (b *Builder) addTopic(r *TopicRecord) error {
	if b.topic(r.Name) != nil {
		return fmt.Errorf("%w: topic %q exists", ErrUnapplicable, r.Name)
	}
	if _, taken := b.im.topicNames.find(r.ID); taken {
		return fmt.Errorf("%w: topic id %v exists", ErrUnapplicable, r.ID)
	}
	b.changed[r.Name] = &Topic{Name: r.Name, ID: r.ID}
	b.im.topicNames.set(r.ID, r.Name)
	return nil
}

// topic finds a topic for reading.
func (b *Builder) topic(name string) *Topic {
	if t, ok := b.changed[name]; ok {
		return t
	}
	return b.im.topics.get(name)
}

// own finds a topic for changing, copied unless this builder has already done so.
func (b *Builder) own(id UUID) (*Topic, error) {
	name, ok := b.im.topicNames.find(id)
	if !ok {
		return nil, fmt.Errorf("%w: no topic of id %v", ErrUnapplicable, id)
	}
	if t := b.changed[name]; t != nil {
		return t, nil
	}
	t := *b.im.topics.get(name)
	t.Partitions = slices.Clone(t.Partitions)
	b.changed[name] = &t
	return &t, nil
}

func (b *Builder) removeTopic(id UUID) error {
	name, ok := b.im.topicNames.find(id)
	if !ok {
		return fmt.Errorf("%w: no topic of id %v", ErrUnapplicable, id)
	}
	b.im.partitions -= len(b.topic(name).Partitions)
	b.im.topicNames.delete(id)
	b.im.topics.delete(name)
	b.changed[name] = nil
	if at := (ConfigResource{TopicResource, name}); b.im.configs.get(at) != nil {
		b.im.configs.delete(at)
		b.configs[at] = true
	}
	return nil
}

// setPartition adds a topic's next partition or replaces one.
func (b *Builder) setPartition(r *PartitionRecord) error {
	t, err := b.own(r.TopicID)
	if err != nil {
		return err
	}
	p := r.Partition
	if slices.Equal(p.ISR, p.Replicas) {
		p.ISR = p.Replicas // most partitions are like this: one array less
	}
	switch n := int32(len(t.Partitions)); {
	case r.Index >= 0 && r.Index < n:
		t.Partitions[r.Index] = p
	case r.Index == n:
		t.Partitions = append(t.Partitions, p)
		b.im.partitions++
	default:
		return fmt.Errorf("%w: partition %d of %q, which has %d", ErrUnapplicable, r.Index, t.Name, n)
	}
	return nil
}

func (b *Builder) changePartition(r *PartitionChangeRecord) error {
	t, err := b.own(r.TopicID)
	if err != nil {
		return err
	}
	if r.Index < 0 || int(r.Index) >= len(t.Partitions) {
		return fmt.Errorf("%w: no partition %d of %q", ErrUnapplicable, r.Index, t.Name)
	}
	t.Partitions[r.Index].merge(r)
	return nil
}

// With is the partition after r.
func (p Partition) With(r *PartitionChangeRecord) Partition {
	p.merge(r)
	return p
}

// merge is Kafka's PartitionRegistration.merge.
func (p *Partition) merge(r *PartitionChangeRecord) {
	replace(&p.Replicas, r.Replicas)
	replace(&p.ISR, r.ISR)
	replace(&p.Removing, r.Removing)
	replace(&p.Adding, r.Adding)
	replace(&p.ELR, r.ELR)
	replace(&p.LastKnownELR, r.LastKnownELR)
	replace(&p.Directories, r.Directories)
	if r.Leader != LeaderUnchanged {
		p.Leader = r.Leader
		p.LeaderEpoch++
	}
	if r.LeaderRecoveryState != RecoveryStateUnchanged {
		p.LeaderRecoveryState = r.LeaderRecoveryState
	}
	p.PartitionEpoch++
}

func replace[T any](field *[]T, value []T) {
	if value != nil {
		*field = value
	}
}

func (b *Builder) clearELR(name string) error {
	if name != "" {
		t := b.topic(name)
		if t == nil {
			return fmt.Errorf("%w: no topic %q", ErrUnapplicable, name)
		}
		return b.clearTopicELR(t.ID)
	}
	for id := range b.im.topicNames.all() {
		if err := b.clearTopicELR(id); err != nil {
			return err
		}
	}
	return nil
}

func (b *Builder) clearTopicELR(id UUID) error {
	name := b.im.topicNames.get(id)
	hasELR := func(p Partition) bool { return len(p.ELR)+len(p.LastKnownELR) > 0 }
	if !slices.ContainsFunc(b.topic(name).Partitions, hasELR) {
		return nil
	}
	t, err := b.own(id)
	for i := range t.Partitions {
		t.Partitions[i].ELR, t.Partitions[i].LastKnownELR = nil, nil
	}
	return err
}
