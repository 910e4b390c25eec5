package metrics

import "github.com/prometheus/client_golang/prometheus"

// Detail says what has series of its own: a broker of many partitions has pages of many megabytes else.
type Detail int

// A coarser detail has the sums of what it leaves out, where these mean something.
const (
	PerPartition Detail = iota
	PerTopic
	PerBroker
)

// Details are the values of admin.metrics.detail.
var Details = map[string]Detail{"partition": PerPartition, "topic": PerTopic, "broker": PerBroker}

// SetDetail comes before Logs and Lags, and before the first scrape that is to know of it.
func (m *Metrics) SetDetail(d Detail) {
	m.detail = d
	m.Topics.summed.Store(d == PerBroker)
}

// labels of a partition's series, as far as d has them.
func (d Detail) labels() []string { return d.values("topic", "partition") }

func (d Detail) values(topic, partition string) []string {
	return []string{topic, partition}[:PerBroker-d]
}

// LogState is what is shown of one partition's log.
type LogState struct {
	Topic                                   string
	Partition                               string
	SizeBytes, LogStartOffset, LogEndOffset int64
	Segments                                int
}

// Logs registers the logs' sizes and offsets; each is called at each scrape and passes every log to yield.
func (m *Metrics) Logs(each func(yield func(LogState))) {
	m.Registry.MustRegister(logCollector{m.detail, each, [4]*prometheus.Desc{
		prometheus.NewDesc("kafka_log_log_size", "Bytes of a partition's log.", m.detail.labels(), nil),
		prometheus.NewDesc("kafka_log_log_numlogsegments", "Segments of a partition's log.", m.detail.labels(), nil),
		prometheus.NewDesc("kafka_log_log_logstartoffset", "First offset of a partition's log.", m.detail.labels(), nil),
		prometheus.NewDesc("kafka_log_log_logendoffset", "Offset after the last record of a partition's log.", m.detail.labels(), nil),
	}})
}

type logCollector struct {
	detail Detail
	each   func(yield func(LogState))
	descs  [4]*prometheus.Desc // size, segments, start and end
}

// Describe implements prometheus.Collector. Offsets of several logs have no sum.
func (c logCollector) Describe(ch chan<- *prometheus.Desc) {
	for i, d := range c.descs {
		if i < 2 || c.detail == PerPartition {
			ch <- d
		}
	}
}

// Collect implements prometheus.Collector.
func (c logCollector) Collect(ch chan<- prometheus.Metric) {
	gauge := func(i int, v int64, labels []string) {
		ch <- prometheus.MustNewConstMetric(c.descs[i], prometheus.GaugeValue, float64(v), labels...)
	}
	sums := map[string]*LogState{}
	c.each(func(s LogState) {
		if c.detail != PerPartition {
			c.add(sums, s)
			return
		}
		labels := c.detail.values(s.Topic, s.Partition)
		gauge(0, s.SizeBytes, labels)
		gauge(1, int64(s.Segments), labels)
		gauge(2, s.LogStartOffset, labels)
		gauge(3, s.LogEndOffset, labels)
	})
	for topic, s := range sums {
		labels := c.detail.values(topic, "")
		gauge(0, s.SizeBytes, labels)
		gauge(1, int64(s.Segments), labels)
	}
}

// add counts s with its topic, or with all.
func (c logCollector) add(sums map[string]*LogState, s LogState) {
	topic := s.Topic
	if c.detail == PerBroker {
		topic = ""
	}
	if sums[topic] == nil {
		sums[topic] = &LogState{}
	}
	sums[topic].SizeBytes += s.SizeBytes
	sums[topic].Segments += s.Segments
}
