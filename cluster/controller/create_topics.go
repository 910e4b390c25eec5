package controller

import (
	"maps"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster/metadata"
	"grete/internal/uuid"
)

// createTopics is ControllerApis.createTopics with ReplicationControlManager.createTopics. Topics of one request do not
// see each other.
func (v *view) createTopics(req *kmsg.CreateTopicsRequest) ([]metadata.Record, *kmsg.CreateTopicsResponse) {
	resp := req.ResponseKind().(*kmsg.CreateTopicsResponse)
	topics, twice := withoutRepeated(req.Topics, func(t kmsg.CreateTopicsRequestTopic) string { return t.Topic })
	var records []metadata.Record
	tooMany := v.checkPartitionCount(topics)
	for _, t := range topics {
		made, result := v.createOrRefuse(t, tooMany)
		records = append(records, made...)
		resp.Topics = append(resp.Topics, result)
	}
	if f := tooLarge(records); f != nil {
		records, resp.Topics = nil, nil
		for _, t := range topics {
			resp.Topics = append(resp.Topics, notCreated(t.Topic, f))
		}
	}
	for _, name := range twice {
		resp.Topics = append(resp.Topics, notCreated(name, refuse(kerr.InvalidRequest, "Duplicate topic name.")))
	}
	if req.ValidateOnly {
		records = nil
	}
	return records, resp
}

// withoutRepeated drops the items whose name occurs more than once, and returns those names.
func withoutRepeated[T any](items []T, name func(T) string) (once []T, twice []string) {
	count := map[string]int{}
	for _, item := range items {
		count[name(item)]++
	}
	for _, item := range items {
		switch n := name(item); {
		case count[n] == 1:
			once = append(once, item)
		case count[n] > 1:
			twice = append(twice, n)
			count[n] = 0 // is told
		}
	}
	return once, twice
}

// checkPartitionCount refuses a request whole when it asks for more partitions than one batch may have.
func (v *view) checkPartitionCount(topics []kmsg.CreateTopicsRequestTopic) *fault {
	var sum int64
	for _, t := range topics {
		switch {
		case len(t.ReplicaAssignment) > 0:
			sum += int64(len(t.ReplicaAssignment))
		case t.NumPartitions == -1:
			sum += v.config.Int("num.partitions")
		default:
			sum += max(0, int64(t.NumPartitions))
		}
	}
	if sum > partitionsPerOp {
		return refuse(kerr.PolicyViolation, "Excessively large number of partitions per request.")
	}
	return nil
}

func notCreated(name string, f *fault) kmsg.CreateTopicsResponseTopic {
	r := kmsg.NewCreateTopicsResponseTopic()
	r.Topic, r.Configs = name, []kmsg.CreateTopicsResponseTopicConfig{}
	r.ErrorCode, r.ErrorMessage = f.fields()
	return r
}

func (v *view) createOrRefuse(t kmsg.CreateTopicsRequestTopic, refused *fault) ([]metadata.Record, kmsg.CreateTopicsResponseTopic) {
	configs, f := map[string]string(nil), refused
	if t.Topic == LogID.Topic {
		f = refuse(kerr.InvalidRequest, "Creation of internal topic %s is prohibited.", LogID.Topic)
	}
	if f == nil {
		f = v.checkNewName(t.Topic)
	}
	if f == nil {
		configs, f = v.checkNewConfigs(t.Configs)
	}
	var partitions []metadata.Partition
	if f == nil {
		partitions, f = v.layOut(t)
	}
	if f != nil {
		return nil, notCreated(t.Topic, f)
	}
	id := v.newTopicID()
	return newTopicRecords(t.Topic, id, configs, partitions), v.created(t.Topic, id, configs, partitions)
}

func (v *view) checkNewName(name string) *fault {
	if f := checkTopicName(name); f != nil {
		return f
	}
	if v.image.Topic(name) != nil {
		return refuse(kerr.TopicAlreadyExists, "Topic '%s' already exists.", name)
	}
	if other := collision(v.image, name); other != "" {
		return refuse(kerr.InvalidTopicException, "Topic '%s' collides with existing topic: %s", name, other)
	}
	return nil
}

func (v *view) checkNewConfigs(given []kmsg.CreateTopicsRequestTopicConfig) (map[string]string, *fault) {
	configs := map[string]string{}
	var null []string
	for _, c := range given {
		if c.Value == nil {
			null = append(null, c.Name)
			continue
		}
		configs[c.Name] = *c.Value
	}
	if len(null) > 0 {
		return nil, refuse(kerr.InvalidConfig, "Null value not supported for topic configs: %s", strings.Join(null, ","))
	}
	if err := v.config.ValidateTopic(configs); err != nil {
		return nil, refuse(kerr.InvalidConfig, "%s", err)
	}
	return configs, nil
}

// newTopicID avoids Kafka's reserved ids and, though chance would never, ids in use.
func (v *view) newTopicID() metadata.UUID {
	for {
		id := v.newID()
		if v.image.TopicByID(id) == nil {
			return id
		}
	}
}

func (v *view) newID() metadata.UUID {
	return uuid.New(func(p []byte) {
		for i := range p {
			p[i] = byte(v.rand.Uint32())
		}
	})
}

// newTopicRecords are in Kafka's order: configs come before partitions.
func newTopicRecords(name string, id metadata.UUID, configs map[string]string, partitions []metadata.Partition) []metadata.Record {
	records := []metadata.Record{&metadata.TopicRecord{Name: name, ID: id}}
	for _, key := range slices.Sorted(maps.Keys(configs)) {
		value := configs[key]
		records = append(records, &metadata.ConfigRecord{Type: metadata.TopicResource, Name: name, Config: key, Value: &value})
	}
	for i, p := range partitions {
		records = append(records, &metadata.PartitionRecord{Index: int32(i), TopicID: id, Partition: p})
	}
	return records
}

func (v *view) created(name string, id metadata.UUID, configs map[string]string, partitions []metadata.Partition) kmsg.CreateTopicsResponseTopic {
	r := kmsg.NewCreateTopicsResponseTopic()
	r.Topic, r.TopicID = name, id
	r.NumPartitions, r.ReplicationFactor = int32(len(partitions)), int16(len(partitions[0].Replicas))
	for _, d := range v.config.DescribeTopic(configs) {
		c := kmsg.NewCreateTopicsResponseTopicConfig()
		c.Name, c.Source, c.IsSensitive = d.Def.Name, int8(d.Source), d.Def.Sensitive()
		if !c.IsSensitive {
			c.Value = d.Value
		}
		if asked, set := configs[c.Name]; set {
			c.Value = &asked // as it was written, not as it is described
		}
		r.Configs = append(r.Configs, c)
	}
	return r
}
