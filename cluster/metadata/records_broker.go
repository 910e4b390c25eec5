package metadata

// FeatureRange is what a broker supports of a feature.
type FeatureRange struct {
	Name     string
	Min, Max int16
}

func (c *codec) featureRange(f *FeatureRange) {
	c.string(&f.Name)
	c.int16(&f.Min)
	c.int16(&f.Max)
	c.noTags()
}

func (c *codec) endpoint(e *Endpoint) {
	c.string(&e.Listener)
	c.string(&e.Host)
	c.uint16(&e.Port)
	c.int16(&e.SecurityProtocol)
	c.noTags()
}

// RegisterBrokerRecord registers a broker, replacing an earlier registration of the same id.
type RegisterBrokerRecord struct {
	BrokerID             int32
	Incarnation          UUID
	BrokerEpoch          int64 // the record's own offset, so that it grows with every registration
	Endpoints            []Endpoint
	Features             []FeatureRange
	Rack                 *string
	Fenced               bool
	InControlledShutdown bool
	LogDirs              []UUID
	CordonedLogDirs      []UUID // nil: unknown
	migratingZK          bool   // of the years with ZooKeeper: always false
}

func (*RegisterBrokerRecord) Key() int16        { return 0 }
func (*RegisterBrokerRecord) MaxVersion() int16 { return 4 }
func (r *RegisterBrokerRecord) fields(c *codec) {
	c.int32(&r.BrokerID)
	if c.version >= 2 {
		c.bool(&r.migratingZK)
	}
	c.uuid(&r.Incarnation)
	c.int64(&r.BrokerEpoch)
	nonNull(c, &r.Endpoints, func(c *codec, v *[]Endpoint) { array(c, v, 7, (*codec).endpoint) })
	nonNull(c, &r.Features, func(c *codec, v *[]FeatureRange) { array(c, v, 6, (*codec).featureRange) })
	c.nullableString(&r.Rack)
	c.bool(&r.Fenced)
	if c.version >= 1 {
		c.bool(&r.InControlledShutdown)
	}
	var known []tag
	if c.version >= 3 {
		known = append(known, tag{0, len(r.LogDirs) > 0, func(c *codec) { c.uuids(&r.LogDirs) }})
	}
	if c.version >= 4 {
		known = append(known, tag{1, r.CordonedLogDirs != nil, func(c *codec) { c.uuids(&r.CordonedLogDirs) }})
	}
	c.tags(known...)
}

// BrokerRegistrationChangeRecord changes a registration. Fenced: 1 fences, -1 unfences, 0 leaves;
// InControlledShutdown: 1 starts it, 0 leaves; empty LogDirs and nil CordonedLogDirs leave them.
type BrokerRegistrationChangeRecord struct {
	BrokerID             int32
	BrokerEpoch          int64
	Fenced               int8
	InControlledShutdown int8
	LogDirs              []UUID
	CordonedLogDirs      []UUID
}

func (*BrokerRegistrationChangeRecord) Key() int16        { return 17 }
func (*BrokerRegistrationChangeRecord) MaxVersion() int16 { return 3 }
func (r *BrokerRegistrationChangeRecord) fields(c *codec) {
	c.int32(&r.BrokerID)
	c.int64(&r.BrokerEpoch)
	known := []tag{{0, r.Fenced != 0, func(c *codec) { c.int8(&r.Fenced) }}}
	if c.version >= 1 {
		known = append(known, tag{1, r.InControlledShutdown != 0, func(c *codec) { c.int8(&r.InControlledShutdown) }})
	}
	if c.version >= 2 {
		known = append(known, tag{2, len(r.LogDirs) > 0, func(c *codec) { c.uuids(&r.LogDirs) }})
	}
	if c.version >= 3 {
		known = append(known, tag{3, r.CordonedLogDirs != nil, func(c *codec) { c.uuids(&r.CordonedLogDirs) }})
	}
	c.tags(known...)
}

// FenceBrokerRecord and UnfenceBrokerRecord are the older forms of a registration change; they are read only.
type FenceBrokerRecord struct {
	BrokerID    int32
	BrokerEpoch int64
}

func (*FenceBrokerRecord) Key() int16        { return 7 }
func (*FenceBrokerRecord) MaxVersion() int16 { return 0 }
func (r *FenceBrokerRecord) fields(c *codec) { c.brokerAndEpoch(&r.BrokerID, &r.BrokerEpoch) }

// UnfenceBrokerRecord undoes FenceBrokerRecord.
type UnfenceBrokerRecord struct {
	BrokerID    int32
	BrokerEpoch int64
}

func (*UnfenceBrokerRecord) Key() int16        { return 8 }
func (*UnfenceBrokerRecord) MaxVersion() int16 { return 0 }
func (r *UnfenceBrokerRecord) fields(c *codec) { c.brokerAndEpoch(&r.BrokerID, &r.BrokerEpoch) }

// UnregisterBrokerRecord removes a registration.
type UnregisterBrokerRecord struct {
	BrokerID    int32
	BrokerEpoch int64
}

func (*UnregisterBrokerRecord) Key() int16        { return 1 }
func (*UnregisterBrokerRecord) MaxVersion() int16 { return 0 }
func (r *UnregisterBrokerRecord) fields(c *codec) { c.brokerAndEpoch(&r.BrokerID, &r.BrokerEpoch) }

func (c *codec) brokerAndEpoch(id *int32, epoch *int64) {
	c.int32(id)
	c.int64(epoch)
	c.noTags()
}

// ProducerIDsRecord hands a block of producer ids, which ends before Next, to a broker.
type ProducerIDsRecord struct {
	BrokerID    int32
	BrokerEpoch int64
	Next        int64
}

func (*ProducerIDsRecord) Key() int16        { return 15 }
func (*ProducerIDsRecord) MaxVersion() int16 { return 0 }
func (r *ProducerIDsRecord) fields(c *codec) {
	c.int32(&r.BrokerID)
	c.int64(&r.BrokerEpoch)
	c.int64(&r.Next)
	c.noTags()
}

// FeatureLevelRecord finalizes a feature at a level; 0 removes it.
type FeatureLevelRecord struct {
	Name  string
	Level int16
}

func (*FeatureLevelRecord) Key() int16        { return 12 }
func (*FeatureLevelRecord) MaxVersion() int16 { return 0 }
func (r *FeatureLevelRecord) fields(c *codec) {
	c.string(&r.Name)
	c.int16(&r.Level)
	c.noTags()
}

// NoOpRecord changes nothing; Kafka's controllers write it to move the high watermark.
type NoOpRecord struct{}

func (*NoOpRecord) Key() int16        { return 20 }
func (*NoOpRecord) MaxVersion() int16 { return 0 }
func (r *NoOpRecord) fields(c *codec) { c.noTags() }
