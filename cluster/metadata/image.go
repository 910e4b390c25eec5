// Package metadata holds the records of the cluster metadata log (Kafka's own formats) and the immutable image that
// they build. It is pure: no clock, no IO, no lock.
package metadata

// Contract file: signatures that other rooms compile against. The owner fills in and splits.

import "iter"

// UUID is a Kafka topic, directory or incarnation id.
type UUID [16]byte

// Image is the metadata at one offset; it never changes. The zero Image is empty.
type Image struct{}

// Offset is that of the last record applied, -1 when none; Epoch its leader epoch.
func (im *Image) Offset() int64 { panic("unwritten") }
func (im *Image) Epoch() int32  { panic("unwritten") }

// ControllerID is the node that leads the metadata quorum as far as this image knows, -1 when unknown.
func (im *Image) ControllerID() int32 { panic("unwritten") }

func (im *Image) Topic(name string) *Topic   { panic("unwritten") } // nil when unknown
func (im *Image) TopicByID(id UUID) *Topic   { panic("unwritten") }
func (im *Image) TopicCount() int            { panic("unwritten") }
func (im *Image) Topics() iter.Seq[*Topic]   { panic("unwritten") } // by name
func (im *Image) Broker(id int32) *Broker    { panic("unwritten") } // nil when unknown
func (im *Image) Brokers() iter.Seq[*Broker] { panic("unwritten") } // by id, fenced ones too

// Topic and its partitions; immutable.
type Topic struct {
	Name       string
	ID         UUID
	Partitions []Partition
}

// Partition as PartitionRecord and PartitionChangeRecord made it.
type Partition struct {
	Replicas, ISR, ELR, LastKnownELR []int32
	Adding, Removing                 []int32
	Directories                      []UUID
	Leader                           int32 // -1: none
	LeaderEpoch, PartitionEpoch      int32
}

// Broker as RegisterBrokerRecord and its changes made it.
type Broker struct {
	ID                           int32
	Epoch                        int64
	Incarnation                  UUID
	Endpoints                    []Endpoint
	Rack                         string // "" when none
	Fenced, InControlledShutdown bool
	LogDirs                      []UUID
}

// Endpoint is one listener a broker advertises.
type Endpoint struct {
	Listener         string
	Host             string
	Port             uint16
	SecurityProtocol int16
}

// ResourceType numbers config resources as the protocol does.
type ResourceType int8

const (
	TopicResource         ResourceType = 2
	BrokerResource        ResourceType = 4
	BrokerLoggerResource  ResourceType = 8
	ClientMetricsResource ResourceType = 16
	GroupResource         ResourceType = 32
)

// Configs returns the dynamic overrides of a resource (nil when none); broker defaults are BrokerResource "".
func (im *Image) Configs(t ResourceType, name string) map[string]string { panic("unwritten") }

// Feature returns the finalized level of a feature such as metadata.version, 0 when absent.
func (im *Image) Feature(name string) int16 { panic("unwritten") }

// Delta names what changed between two images, for appliers.
type Delta struct {
	Topics  []string // created, deleted, or with a changed partition; a deleted one is absent from the new image
	Configs []ConfigResource
	Brokers []int32
}

// ConfigResource names a resource.
type ConfigResource struct {
	Type ResourceType
	Name string
}
