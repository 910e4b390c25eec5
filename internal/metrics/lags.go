package metrics

import "github.com/prometheus/client_golang/prometheus"

// LagState is how many records a follower's log is behind the leader's high watermark
// (kafka.server:type=FetcherLagMetrics).
type LagState struct {
	Fetcher, Topic, Partition string
	Lag                       int64
}

// Lags registers the lags; each is called at each scrape and passes every followed partition to yield.
func (m *Metrics) Lags(each func(yield func(LagState))) {
	m.Registry.MustRegister(lagCollector{m.detail, each, prometheus.NewDesc("kafka_server_fetcherlagmetrics_consumerlag",
		"Records that a follower's log is behind its leader's high watermark.", append([]string{"clientId"}, m.detail.labels()...), nil)})
}

type lagCollector struct {
	detail Detail
	each   func(yield func(LagState))
	lag    *prometheus.Desc
}

var maxLag = prometheus.NewDesc("kafka_server_replicafetchermanager_maxlag", "The largest of a partition.", []string{"clientId"}, nil)

// Describe implements prometheus.Collector.
func (c lagCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.lag
	ch <- maxLag
}

// Collect implements prometheus.Collector.
func (c lagCollector) Collect(ch chan<- prometheus.Metric) {
	largest := int64(0)
	gauge := func(s LagState) {
		labels := append([]string{s.Fetcher}, c.detail.values(s.Topic, s.Partition)...)
		ch <- prometheus.MustNewConstMetric(c.lag, prometheus.GaugeValue, float64(s.Lag), labels...)
	}
	sums := map[LagState]int64{} // by all but Lag
	c.each(func(s LagState) {
		largest = max(largest, s.Lag)
		if c.detail == PerPartition {
			gauge(s)
			return
		}
		of := LagState{Fetcher: s.Fetcher}
		if c.detail == PerTopic {
			of.Topic = s.Topic
		}
		sums[of] += s.Lag
	})
	for s, lag := range sums {
		s.Lag = lag
		gauge(s)
	}
	ch <- prometheus.MustNewConstMetric(maxLag, prometheus.GaugeValue, float64(largest), "Replica")
}
