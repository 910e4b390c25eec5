package metrics

import (
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// Topics measures the traffic of topics (kafka.server:type=BrokerTopicMetrics): a series per topic, and one without
// topic for all.
type Topics struct {
	all    TopicStats
	summed atomic.Bool // no series per topic

	mu     sync.RWMutex
	byName map[string]*TopicStats
}

// TopicStats counts one topic's traffic. Update the fields of the topic alone: sums over topics are made at scrapes,
// and what deleted topics had counted is kept in them.
type TopicStats struct {
	BytesIn, BytesOut, BytesRejected, MessagesIn   atomic.Int64
	TotalProduceRequests, FailedProduceRequests    atomic.Int64
	TotalFetchRequests, FailedFetchRequests        atomic.Int64
	ReplicationBytesIn, ReplicationBytesOut        atomic.Int64
	InvalidMagicNumberRecords, InvalidCRCRecords   atomic.Int64
	InvalidOffsetOrSequenceRecords, NoKeyCompacted atomic.Int64
}

func newTopics() *Topics { return &Topics{byName: map[string]*TopicStats{}} }

// Topic returns the stats of a topic, to be kept until Remove.
func (t *Topics) Topic(name string) *TopicStats {
	t.mu.RLock()
	s := t.byName[name]
	t.mu.RUnlock()
	if s != nil {
		return s
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if s = t.byName[name]; s == nil {
		s = &TopicStats{}
		t.byName[name] = s
	}
	return s
}

// Remove forgets a topic that was deleted.
func (t *Topics) Remove(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.byName[name]; s != nil {
		for _, c := range topicCounters {
			c.value(&t.all).Add(c.value(s).Load())
		}
		delete(t.byName, name)
	}
}

// topicCounter is one counter with its two descriptions: per topic, and over all.
type topicCounter struct {
	perTopic, total *prometheus.Desc
	value           func(*TopicStats) *atomic.Int64
}

func newTopicCounter(name, help string, value func(*TopicStats) *atomic.Int64) topicCounter {
	full := "kafka_server_brokertopicmetrics_" + name + "_total"
	return topicCounter{
		perTopic: prometheus.NewDesc(full, help, []string{"topic"}, nil),
		total:    prometheus.NewDesc(full, help, nil, nil),
		value:    value,
	}
}

var topicCounters = []topicCounter{
	newTopicCounter("bytesin", "Bytes of record batches produced by clients.", func(s *TopicStats) *atomic.Int64 { return &s.BytesIn }),
	newTopicCounter("bytesout", "Bytes of record batches fetched by clients.", func(s *TopicStats) *atomic.Int64 { return &s.BytesOut }),
	newTopicCounter("bytesrejected", "Bytes of record batches that were too large.", func(s *TopicStats) *atomic.Int64 { return &s.BytesRejected }),
	newTopicCounter("messagesin", "Records produced by clients.", func(s *TopicStats) *atomic.Int64 { return &s.MessagesIn }),
	newTopicCounter("totalproducerequests", "Produce requests, once per partition.", func(s *TopicStats) *atomic.Int64 { return &s.TotalProduceRequests }),
	newTopicCounter("failedproducerequests", "Produce requests that failed, once per partition.", func(s *TopicStats) *atomic.Int64 { return &s.FailedProduceRequests }),
	newTopicCounter("totalfetchrequests", "Fetch requests, once per partition.", func(s *TopicStats) *atomic.Int64 { return &s.TotalFetchRequests }),
	newTopicCounter("failedfetchrequests", "Fetch requests that failed, once per partition.", func(s *TopicStats) *atomic.Int64 { return &s.FailedFetchRequests }),
	newTopicCounter("replicationbytesin", "Bytes fetched from leaders.", func(s *TopicStats) *atomic.Int64 { return &s.ReplicationBytesIn }),
	newTopicCounter("replicationbytesout", "Bytes fetched by followers.", func(s *TopicStats) *atomic.Int64 { return &s.ReplicationBytesOut }),
	newTopicCounter("invalidmagicnumberrecords", "Batches refused for their magic.", func(s *TopicStats) *atomic.Int64 { return &s.InvalidMagicNumberRecords }),
	newTopicCounter("invalidmessagecrcrecords", "Batches refused for their checksum.", func(s *TopicStats) *atomic.Int64 { return &s.InvalidCRCRecords }),
	newTopicCounter("invalidoffsetorsequencerecords", "Batches refused for offsets or sequence.", func(s *TopicStats) *atomic.Int64 { return &s.InvalidOffsetOrSequenceRecords }),
	newTopicCounter("nokeycompactedtopicrecords", "Records without key refused on compacted topics.", func(s *TopicStats) *atomic.Int64 { return &s.NoKeyCompacted }),
}

// Describe implements prometheus.Collector. It sends nothing: one name has series with and without the topic, as with
// Kafka, and the registry checks only what is described.
func (t *Topics) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (t *Topics) Collect(ch chan<- prometheus.Metric) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, c := range topicCounters {
		sum := c.value(&t.all).Load()
		for name, s := range t.byName {
			n := c.value(s).Load()
			if sum += n; n == 0 || t.summed.Load() { // as Kafka's, that begin when something is counted
				continue
			}
			ch <- prometheus.MustNewConstMetric(c.perTopic, prometheus.CounterValue, float64(n), name)
		}
		ch <- prometheus.MustNewConstMetric(c.total, prometheus.CounterValue, float64(sum))
	}
}
