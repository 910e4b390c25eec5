package oracle

import "github.com/twmb/franz-go/pkg/kmsg"

// Builders of the requests that many scenarios send. Where a version has topic ids and another has names, both are
// set: the encoding takes what it knows.

func ptr[T any](v T) *T { return &v }

func produce(t topic, partition int32, acks int16, records []byte) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = acks, 5000
	req.Topics = []kmsg.ProduceRequestTopic{produceTopic(t, partition, records)}
	return req
}

func produceTopic(t topic, partition int32, records []byte) kmsg.ProduceRequestTopic {
	rt := kmsg.NewProduceRequestTopic()
	rt.Topic, rt.TopicID = t.name, t.id
	rt.Partitions = append(rt.Partitions, producePartition(partition, records))
	return rt
}

func producePartition(partition int32, records []byte) kmsg.ProduceRequestTopicPartition {
	rp := kmsg.NewProduceRequestTopicPartition()
	rp.Partition, rp.Records = partition, records
	return rp
}

// fetch asks for one partition, full and sessionless, waiting at most 500 ms for a byte.
func fetch(t topic, partition int32, offset int64) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = 500, 1, 1<<20
	req.SessionEpoch = -1
	req.Topics = []kmsg.FetchRequestTopic{fetchTopic(t, fetchPartition(partition, offset))}
	return req
}

func fetchTopic(t topic, partitions ...kmsg.FetchRequestTopicPartition) kmsg.FetchRequestTopic {
	rt := kmsg.NewFetchRequestTopic()
	rt.Topic, rt.TopicID, rt.Partitions = t.name, t.id, partitions
	return rt
}

func fetchPartition(partition int32, offset int64) kmsg.FetchRequestTopicPartition {
	rp := kmsg.NewFetchRequestTopicPartition()
	rp.Partition, rp.FetchOffset, rp.PartitionMaxBytes = partition, offset, 1<<20
	return rp
}

func listOffsets(t topic, partition int32, timestamp int64, isolation int8) *kmsg.ListOffsetsRequest {
	req := kmsg.NewPtrListOffsetsRequest()
	req.IsolationLevel, req.TimeoutMillis = isolation, 5000
	rt := kmsg.NewListOffsetsRequestTopic()
	rt.Topic = t.name
	rt.Partitions = append(rt.Partitions, listPartition(partition, timestamp))
	req.Topics = append(req.Topics, rt)
	return req
}

func listPartition(partition int32, timestamp int64) kmsg.ListOffsetsRequestTopicPartition {
	rp := kmsg.NewListOffsetsRequestTopicPartition()
	rp.Partition, rp.Timestamp = partition, timestamp
	return rp
}

func initProducerID(transactionalID *string) *kmsg.InitProducerIDRequest {
	req := kmsg.NewPtrInitProducerIDRequest()
	req.TransactionalID, req.TransactionTimeoutMillis = transactionalID, 60_000
	return req
}

func newTopic(name string, partitions int32, replication int16) kmsg.CreateTopicsRequestTopic {
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, partitions, replication
	return t
}

func topicConfig(name string, value *string) kmsg.CreateTopicsRequestTopicConfig {
	c := kmsg.NewCreateTopicsRequestTopicConfig()
	c.Name, c.Value = name, value
	return c
}

func createTopics(topics ...kmsg.CreateTopicsRequestTopic) *kmsg.CreateTopicsRequest {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis, req.Topics = 10_000, topics
	return req
}

func metadata(topics ...*string) *kmsg.MetadataRequest {
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{}
	for _, name := range topics {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = name
		req.Topics = append(req.Topics, t)
	}
	return req
}
