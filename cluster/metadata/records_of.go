package metadata

import (
	"iter"
	"maps"
	"slices"
)

// metadataVersion leads every snapshot, as Kafka's readers want it.
const metadataVersion = "metadata.version"

// Records gives the records that build this image from an empty one: the content of a snapshot.
func (im *Image) Records() iter.Seq[Record] {
	parts := []func(func(Record) bool) bool{
		im.featureRecords, im.brokerRecords, im.controllerRecords, im.topicRecords, im.configRecords, im.quotaRecords, im.securityRecords,
	}
	return func(yield func(Record) bool) {
		for _, part := range parts {
			if !part(yield) {
				return
			}
		}
	}
}

func (im *Image) featureRecords(yield func(Record) bool) bool {
	if level := im.Feature(metadataVersion); level != 0 && !yield(&FeatureLevelRecord{metadataVersion, level}) {
		return false
	}
	for name, level := range im.Features() {
		if name != metadataVersion && !yield(&FeatureLevelRecord{name, level}) {
			return false
		}
	}
	return im.nextProducer == 0 || yield(&ProducerIDsRecord{BrokerID: -1, BrokerEpoch: -1, Next: im.nextProducer})
}

func (im *Image) brokerRecords(yield func(Record) bool) bool {
	for b := range im.Brokers() {
		r := &RegisterBrokerRecord{
			BrokerID: b.ID, Incarnation: b.Incarnation, BrokerEpoch: b.Epoch,
			Endpoints: b.Endpoints, Features: b.Features,
			Fenced: b.Fenced, InControlledShutdown: b.InControlledShutdown,
			LogDirs: b.LogDirs, CordonedLogDirs: b.CordonedLogDirs,
		}
		if b.Rack != "" {
			r.Rack = &b.Rack
		}
		if !yield(r) {
			return false
		}
	}
	return true
}

func (im *Image) controllerRecords(yield func(Record) bool) bool {
	for c := range im.Controllers() {
		if !yield(c) {
			return false
		}
	}
	return true
}

func (im *Image) topicRecords(yield func(Record) bool) bool {
	for t := range im.Topics() {
		if !yield(&TopicRecord{t.Name, t.ID}) {
			return false
		}
		for i, p := range t.Partitions {
			if !yield(&PartitionRecord{int32(i), t.ID, p}) {
				return false
			}
		}
	}
	return true
}

func (im *Image) configRecords(yield func(Record) bool) bool {
	for at, values := range im.configs.all() {
		for _, key := range slices.Sorted(maps.Keys(values)) {
			value := values[key]
			if !yield(&ConfigRecord{at.Type, at.Name, key, &value}) {
				return false
			}
		}
	}
	return true
}

func (im *Image) quotaRecords(yield func(Record) bool) bool {
	for q := range im.ClientQuotas() {
		for _, limit := range slices.Sorted(maps.Keys(q.Limits)) {
			if !yield(&ClientQuotaRecord{Entity: q.Entity, Limit: limit, Value: q.Limits[limit]}) {
				return false
			}
		}
	}
	return true
}

func (im *Image) securityRecords(yield func(Record) bool) bool {
	for c := range im.ScramCredentials() {
		if !yield(c) {
			return false
		}
	}
	for t := range im.Tokens() {
		if !yield(t) {
			return false
		}
	}
	for a := range im.ACLs() {
		if !yield(a) {
			return false
		}
	}
	return true
}
