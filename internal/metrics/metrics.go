// Package metrics is what a broker measures of itself, under the names that the Prometheus JMX exporter gives to Kafka's own
// metrics, so that dashboards made for Kafka work. docs/METRICS.md lists them.
//
// Rooms get the part that concerns them injected, resolve what they update often once, and update it with atomic operations.
package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"grete/internal/clock"
)

// Metrics is one broker's registry and its parts.
type Metrics struct {
	Registry   *prometheus.Registry
	Network    *Network
	Topics     *Topics
	Replicas   *Replicas
	Controller *Controller
}

// New makes a registry that holds everything, and the Go runtime's and the process's own metrics.
func New(c clock.Clock) *Metrics {
	m := &Metrics{Registry: prometheus.NewRegistry(), Network: newNetwork(c), Topics: newTopics(), Replicas: newReplicas(), Controller: newController()}
	m.Registry.MustRegister(m.Network, m.Topics, m.Replicas, m.Controller,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Gauge registers a value that is asked for at each scrape. name is without its "kafka_" prefix; it panics on a name that
// is taken or wrong, as that is the program's own mistake.
func (m *Metrics) Gauge(name, help string, value func() float64) {
	m.Registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "kafka", Name: name, Help: help}, value))
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
	m.Registry.MustRegister(logCollector{each})
}

type logCollector struct{ each func(yield func(LogState)) }

var logLabels = []string{"topic", "partition"}

var (
	logSize     = prometheus.NewDesc("kafka_log_log_size", "Bytes of a partition's log.", logLabels, nil)
	logStart    = prometheus.NewDesc("kafka_log_log_logstartoffset", "First offset of a partition's log.", logLabels, nil)
	logEnd      = prometheus.NewDesc("kafka_log_log_logendoffset", "Offset after the last record of a partition's log.", logLabels, nil)
	logSegments = prometheus.NewDesc("kafka_log_log_numlogsegments", "Segments of a partition's log.", logLabels, nil)
)

func (c logCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{logSize, logStart, logEnd, logSegments} {
		ch <- d
	}
}

func (c logCollector) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v int64, s LogState) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v), s.Topic, s.Partition)
	}
	c.each(func(s LogState) {
		gauge(logSize, s.SizeBytes, s)
		gauge(logStart, s.LogStartOffset, s)
		gauge(logEnd, s.LogEndOffset, s)
		gauge(logSegments, int64(s.Segments), s)
	})
}
