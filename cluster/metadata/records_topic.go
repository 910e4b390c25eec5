package metadata

// TopicRecord creates a topic, without partitions yet.
type TopicRecord struct {
	Name string
	ID   UUID
}

func (*TopicRecord) Key() int16        { return 2 }
func (*TopicRecord) MaxVersion() int16 { return 0 }
func (r *TopicRecord) fields(c *codec) {
	c.string(&r.Name)
	c.uuid(&r.ID)
	c.noTags()
}

// RemoveTopicRecord deletes a topic with its partitions and configuration.
type RemoveTopicRecord struct{ ID UUID }

func (*RemoveTopicRecord) Key() int16        { return 9 }
func (*RemoveTopicRecord) MaxVersion() int16 { return 0 }
func (r *RemoveTopicRecord) fields(c *codec) {
	c.uuid(&r.ID)
	c.noTags()
}

// PartitionRecord states a partition whole. ELR and LastKnownELR nil are absent.
type PartitionRecord struct {
	Index   int32
	TopicID UUID
	Partition
}

func (*PartitionRecord) Key() int16        { return 3 }
func (*PartitionRecord) MaxVersion() int16 { return 2 }
func (r *PartitionRecord) fields(c *codec) {
	c.int32(&r.Index)
	c.uuid(&r.TopicID)
	c.nonNullInt32s(&r.Replicas)
	c.nonNullInt32s(&r.ISR)
	c.nonNullInt32s(&r.Removing)
	c.nonNullInt32s(&r.Adding)
	c.int32(&r.Leader)
	c.int32(&r.LeaderEpoch)
	c.int32(&r.PartitionEpoch)
	if c.version >= 1 {
		c.nonNullUUIDs(&r.Directories)
	}
	known := []tag{{0, r.LeaderRecoveryState != 0, func(c *codec) { c.int8(&r.LeaderRecoveryState) }}}
	if c.version >= 2 {
		known = append(known,
			tag{1, r.ELR != nil, func(c *codec) { c.int32s(&r.ELR) }},
			tag{2, r.LastKnownELR != nil, func(c *codec) { c.int32s(&r.LastKnownELR) }})
	}
	c.tags(known...)
}

// nonNullInt32s is an array for which nil and empty are the same: written empty, read as nil.
func (c *codec) nonNullInt32s(v *[]int32) { nonNull(c, v, (*codec).int32s) }
func (c *codec) nonNullUUIDs(v *[]UUID)   { nonNull(c, v, (*codec).uuids) }

func nonNull[T any](c *codec, v *[]T, visit func(*codec, *[]T)) {
	value := *v
	if c.writing && value == nil {
		value = []T{}
	}
	visit(c, &value)
	if len(value) == 0 {
		value = nil
	}
	*v = value
}

// Values of PartitionChangeRecord and BrokerRegistrationChangeRecord that mean no change.
const (
	LeaderUnchanged        = int32(-2)
	RecoveryStateUnchanged = int8(-1)
)

// PartitionChangeRecord changes a partition; nil slices and the Unchanged constants leave a field as it is. An
// applied one raises the partition epoch, and the leader epoch when Leader is set (also to the same leader).
type PartitionChangeRecord struct {
	Index               int32
	TopicID             UUID
	ISR                 []int32
	Leader              int32
	Replicas            []int32
	Removing, Adding    []int32
	LeaderRecoveryState int8
	ELR, LastKnownELR   []int32
	Directories         []UUID
}

// NewPartitionChange is a record that changes nothing yet.
func NewPartitionChange(topic UUID, index int32) *PartitionChangeRecord {
	return &PartitionChangeRecord{
		Index: index, TopicID: topic, Leader: LeaderUnchanged, LeaderRecoveryState: RecoveryStateUnchanged,
	}
}

func (*PartitionChangeRecord) Key() int16        { return 5 }
func (*PartitionChangeRecord) MaxVersion() int16 { return 2 }
func (r *PartitionChangeRecord) fields(c *codec) {
	c.int32(&r.Index)
	c.uuid(&r.TopicID)
	known := []tag{
		int32sTag(0, &r.ISR),
		{1, r.Leader != LeaderUnchanged, func(c *codec) { c.int32(&r.Leader) }},
		int32sTag(2, &r.Replicas),
		int32sTag(3, &r.Removing),
		int32sTag(4, &r.Adding),
		{5, r.LeaderRecoveryState != RecoveryStateUnchanged, func(c *codec) { c.int8(&r.LeaderRecoveryState) }},
	}
	if c.version >= 2 {
		known = append(known, int32sTag(6, &r.ELR), int32sTag(7, &r.LastKnownELR))
	}
	if c.version >= 1 {
		known = append(known, tag{8, r.Directories != nil, func(c *codec) { c.uuids(&r.Directories) }})
	}
	c.tags(known...)
}

func int32sTag(id uint32, v *[]int32) tag {
	return tag{id, *v != nil, func(c *codec) { c.int32s(v) }}
}

// ClearELRRecord forgets the eligible leader replicas of a topic, or of all topics when Topic is "".
type ClearELRRecord struct{ Topic string }

func (*ClearELRRecord) Key() int16        { return 28 }
func (*ClearELRRecord) MaxVersion() int16 { return 0 }
func (r *ClearELRRecord) fields(c *codec) {
	c.string(&r.Topic)
	c.noTags()
}

// ConfigRecord sets a dynamic configuration, or removes it when Value is nil.
type ConfigRecord struct {
	Type   ResourceType
	Name   string // of the resource; "" is the default of all brokers
	Config string
	Value  *string
}

func (*ConfigRecord) Key() int16        { return 4 }
func (*ConfigRecord) MaxVersion() int16 { return 0 }
func (r *ConfigRecord) fields(c *codec) {
	c.int8((*int8)(&r.Type))
	c.string(&r.Name)
	c.string(&r.Config)
	c.nullableString(&r.Value)
	c.noTags()
}
