package metrics

import "github.com/prometheus/client_golang/prometheus"

// LagState is how many records a follower's log is behind the leader's high watermark (kafka.server:type=FetcherLagMetrics).
type LagState struct {
	Fetcher, Topic, Partition string
	Lag                       int64
}

// Lags registers the lags; each is called at each scrape and passes every followed partition to yield.
func (m *Metrics) Lags(each func(yield func(LagState))) { m.Registry.MustRegister(lagCollector{each}) }

type lagCollector struct{ each func(yield func(LagState)) }

var (
	consumerLag = prometheus.NewDesc("kafka_server_fetcherlagmetrics_consumerlag",
		"Records that a follower's log is behind its leader's high watermark.", []string{"clientId", "topic", "partition"}, nil)
	maxLag = prometheus.NewDesc("kafka_server_replicafetchermanager_maxlag", "The largest of them.", []string{"clientId"}, nil)
)

// Describe implements prometheus.Collector.
func (c lagCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- consumerLag
	ch <- maxLag
}

// Collect implements prometheus.Collector.
func (c lagCollector) Collect(ch chan<- prometheus.Metric) {
	largest := int64(0)
	c.each(func(s LagState) {
		largest = max(largest, s.Lag)
		ch <- prometheus.MustNewConstMetric(consumerLag, prometheus.GaugeValue, float64(s.Lag), s.Fetcher, s.Topic, s.Partition)
	})
	ch <- prometheus.MustNewConstMetric(maxLag, prometheus.GaugeValue, float64(largest), "Replica")
}
