package metadata

// RegisterControllerRecord registers a controller, replacing an earlier registration of the same id.
type RegisterControllerRecord struct {
	ControllerID int32
	Incarnation  UUID
	Endpoints    []Endpoint
	Features     []FeatureRange
	migratingZK  bool // of the years with ZooKeeper: always false
}

func (*RegisterControllerRecord) Key() int16        { return 27 }
func (*RegisterControllerRecord) MaxVersion() int16 { return 0 }
func (r *RegisterControllerRecord) fields(c *codec) {
	c.int32(&r.ControllerID)
	c.uuid(&r.Incarnation)
	c.bool(&r.migratingZK)
	nonNull(c, &r.Endpoints, func(c *codec, v *[]Endpoint) { array(c, v, 7, (*codec).endpoint) })
	nonNull(c, &r.Features, func(c *codec, v *[]FeatureRange) { array(c, v, 6, (*codec).featureRange) })
	c.noTags()
}

// UnregisterControllerRecord removes a registration.
type UnregisterControllerRecord struct{ ControllerID int32 }

func (*UnregisterControllerRecord) Key() int16        { return 29 }
func (*UnregisterControllerRecord) MaxVersion() int16 { return 0 }
func (r *UnregisterControllerRecord) fields(c *codec) {
	c.int32(&r.ControllerID)
	c.noTags()
}
