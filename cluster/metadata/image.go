// Package metadata holds the records of the cluster metadata log (Kafka's own formats) and the immutable image that
// they build. It is pure: no clock, no IO, no lock.
package metadata

import (
	"iter"
)

// Image is the metadata at one offset; it never changes. The zero Image is empty. Images made one from the other
// share what is the same.
type Image struct {
	last         position
	topics       tree[string, *Topic, byName]
	topicNames   tree[UUID, string, byUUID]
	brokers      tree[int32, *Broker, byID]
	controllers  tree[int32, *RegisterControllerRecord, byID]
	configs      tree[ConfigResource, map[string]string, byResource]
	features     tree[string, int16, byName]
	quotas       tree[string, *ClientQuota, byName]
	scram        tree[ScramKey, *UserScramCredentialRecord, byScramKey]
	acls         aclIndex
	tokens       tokenIndex
	nextProducer int64
	partitions   int
}

// position is where an image stands; the zero value says nowhere.
type position struct {
	offsetPlusOne     int64
	epoch             int32
	controllerPlusOne int32
}

// Offset is that of the last record applied, -1 when none; Epoch its leader epoch.
func (im *Image) Offset() int64 { return im.last.offsetPlusOne - 1 }
func (im *Image) Epoch() int32  { return im.last.epoch }

// ControllerID is the node that leads the metadata quorum as far as this image knows, -1 when unknown.
func (im *Image) ControllerID() int32 { return im.last.controllerPlusOne - 1 }

// WithController is the same image with another ControllerID; leadership is no record of the log.
func (im *Image) WithController(id int32) *Image {
	next := *im
	next.last.controllerPlusOne = id + 1
	return &next
}

// Topic returns the topic of that name, nil when unknown.
func (im *Image) Topic(name string) *Topic { return im.topics.get(name) }

// TopicByID returns the topic of that id, nil when unknown.
func (im *Image) TopicByID(id UUID) *Topic {
	name, ok := im.topicNames.find(id)
	if !ok {
		return nil
	}
	return im.topics.get(name)
}

// TopicCount and PartitionCount count over the cluster.
func (im *Image) TopicCount() int     { return im.topics.len() }
func (im *Image) PartitionCount() int { return im.partitions }

// Topics iterates by name; TopicsFrom starts at the first name >= start.
func (im *Image) Topics() iter.Seq[*Topic]                 { return im.topics.values() }
func (im *Image) TopicsFrom(start string) iter.Seq[*Topic] { return im.topics.valuesFrom(start) }

// Broker returns the registration of a broker, nil when unknown.
func (im *Image) Broker(id int32) *Broker { return im.brokers.get(id) }

// Brokers iterates by id, fenced ones too.
func (im *Image) Brokers() iter.Seq[*Broker] { return im.brokers.values() }

// Controller returns the registration of a controller, nil when unknown.
func (im *Image) Controller(id int32) *RegisterControllerRecord { return im.controllers.get(id) }

// Controllers iterates by id.
func (im *Image) Controllers() iter.Seq[*RegisterControllerRecord] { return im.controllers.values() }

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
	LeaderRecoveryState              int8 // 1: recovering from an unclean election
}

// Broker as RegisterBrokerRecord and its changes made it.
type Broker struct {
	ID                           int32
	Epoch                        int64
	Incarnation                  UUID
	Endpoints                    []Endpoint
	Features                     []FeatureRange
	Rack                         string // "" when none
	Fenced, InControlledShutdown bool
	LogDirs, CordonedLogDirs     []UUID
}

// Active says whether the broker may lead partitions and get new replicas.
func (b *Broker) Active() bool { return !b.Fenced && !b.InControlledShutdown }

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

// ConfigResource names a resource.
type ConfigResource struct {
	Type ResourceType
	Name string
}

// Configs returns the dynamic overrides of a resource (nil when none), not to be changed; broker defaults are
// BrokerResource "".
func (im *Image) Configs(t ResourceType, name string) map[string]string {
	return im.configs.get(ConfigResource{t, name})
}

// ConfigResources iterates over the resources that have overrides, by type and name.
func (im *Image) ConfigResources() iter.Seq[ConfigResource] { return im.configs.keys() }

// Feature returns the finalized level of a feature such as metadata.version, 0 when absent.
func (im *Image) Feature(name string) int16 { return im.features.get(name) }

// Features iterates over the finalized features by name.
func (im *Image) Features() iter.Seq2[string, int16] { return im.features.all() }

// NextProducerID is the first producer id that no block handed out yet holds.
func (im *Image) NextProducerID() int64 { return im.nextProducer }

// ClientQuota is the limits of one entity.
type ClientQuota struct {
	Entity []QuotaEntity
	Limits map[string]float64
}

// ClientQuotas iterates in the order of the entities' text form.
func (im *Image) ClientQuotas() iter.Seq[*ClientQuota] { return im.quotas.values() }

// ScramKey names a SCRAM credential.
type ScramKey struct {
	User      string
	Mechanism int8
}

// ScramCredential returns a user's credential, nil when there is none.
func (im *Image) ScramCredential(user string, mechanism int8) *UserScramCredentialRecord {
	return im.scram.get(ScramKey{user, mechanism})
}

// ScramCredentials iterates by user and mechanism.
func (im *Image) ScramCredentials() iter.Seq[*UserScramCredentialRecord] { return im.scram.values() }

// Delta names what changed between two images, for appliers; its lists are sorted.
type Delta struct {
	Topics  []string // created, deleted, or with a changed partition; a deleted one is absent from the new image
	Configs []ConfigResource
	Brokers []int32

	Features, ClientQuotas, ScramCredentials, ACLs, Tokens bool
}

// All is the delta from an empty image.
func (im *Image) All() Delta {
	b := NewBuilder(im)
	b.Replaces(im)
	_, d := b.Build(im.Offset(), im.Epoch())
	return d
}

// Empty says whether nothing changed.
func (d Delta) Empty() bool {
	return len(d.Topics)+len(d.Configs)+len(d.Brokers) == 0 &&
		!d.Features && !d.ClientQuotas && !d.ScramCredentials && !d.ACLs && !d.Tokens
}
