package node

import (
	"slices"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"grete/cluster/metadata"
	"grete/internal/config"
	"grete/logstore"
)

// cleanerConfig is the log.cleaner.* part of l (Kafka's CleanerConfig).
func (n *Node) cleanerConfig(l config.Layers) logstore.CleanerConfig {
	return logstore.CleanerConfig{
		Disabled:          !l.Bool("log.cleaner.enable"),
		Threads:           int(l.Int("log.cleaner.threads")),
		DedupeBufferBytes: min(l.Int("log.cleaner.dedupe.buffer.size"), n.o.Memory.HeldBytes()),
		MaxHeldBytes:      int(n.o.Memory.HeldBytes()),
		Memory:            n.o.Memory.Compacted,
		LoadFactor:        l.Float("log.cleaner.io.buffer.load.factor"),
		IOBufferBytes:     int(l.Int("log.cleaner.io.buffer.size")),
		MaxBytesPerSecond: l.Float("log.cleaner.io.max.bytes.per.second"),
		Backoff:           millis(l.Int("log.cleaner.backoff.ms")),
		Entropy:           n.o.Entropy,
	}
}

// configureCleaner follows the broker's dynamic configuration.
func (n *Node) configureCleaner(im *metadata.Image) {
	n.store.ConfigureCleaner(n.cleanerConfig(n.dynamicLayers(im)))
}

func configuresBrokers(delta metadata.Delta) bool {
	return slices.ContainsFunc(delta.Configs, func(r metadata.ConfigResource) bool { return r.Type == metadata.BrokerResource })
}

// dynamicLayers is this broker's configuration under an image.
func (n *Node) dynamicLayers(im *metadata.Image) config.Layers {
	own := im.Configs(metadata.BrokerResource, strconv.Itoa(int(n.o.Config.NodeID)))
	return n.o.Config.WithDynamic(own, im.Configs(metadata.BrokerResource, ""))
}

// cleanerGauges shows Kafka's LogCleaner and LogCleanerManager.
func (n *Node) cleanerGauges() {
	for _, g := range []struct {
		name, help string
		value      func(logstore.CleanerStats) float64
	}{
		{"log_logcleaner_max_buffer_utilization_percent", "Use of the buffer for keys, of the last compactions.", func(s logstore.CleanerStats) float64 { return 100 * s.MaxBufferUse }},
		{"log_logcleaner_cleaner_recopy_percent", "Bytes written by bytes read, of the last compactions.", func(s logstore.CleanerStats) float64 { return 100 * s.RecopyRatio }},
		{"log_logcleaner_max_clean_time_secs", "Longest of the last compactions.", func(s logstore.CleanerStats) float64 { return s.MaxCleanSeconds }},
		{"log_logcleaner_max_compaction_delay_secs", "By how much max.compaction.lag.ms is exceeded.", func(s logstore.CleanerStats) float64 { return s.MaxOverdueSeconds }},
		{"log_logcleanermanager_max_dirty_percent", "Dirty share of the dirtiest log.", func(s logstore.CleanerStats) float64 { return 100 * s.MaxDirtyRatio }},
		{"log_logcleanermanager_time_since_last_run_ms", "Since the cleaner last looked for work.", func(s logstore.CleanerStats) float64 { return float64(s.SinceLastRunMs) }},
	} {
		n.metrics.Gauge(g.name, g.help, func() float64 { return g.value(n.store.CleanerStats()) })
	}
	n.metrics.Registry.MustRegister(uncleanable{n.store})
}

// uncleanable shows, by log directory, what compaction has given up on.
type uncleanable struct{ store *logstore.Store }

var (
	uncleanablePartitions = prometheus.NewDesc("kafka_log_logcleanermanager_uncleanable_partitions_count",
		"Partitions whose compaction failed.", []string{"logDirectory"}, nil)
	uncleanableBytes = prometheus.NewDesc("kafka_log_logcleanermanager_uncleanable_bytes",
		"Bytes to be compacted in those partitions.", []string{"logDirectory"}, nil)
)

// Describe implements prometheus.Collector.
func (u uncleanable) Describe(ch chan<- *prometheus.Desc) {
	ch <- uncleanablePartitions
	ch <- uncleanableBytes
}

// Collect implements prometheus.Collector.
func (u uncleanable) Collect(ch chan<- prometheus.Metric) {
	stats := u.store.CleanerStats()
	for dir, partitions := range stats.UncleanablePartitions {
		ch <- prometheus.MustNewConstMetric(uncleanablePartitions, prometheus.GaugeValue, float64(partitions), dir)
		ch <- prometheus.MustNewConstMetric(uncleanableBytes, prometheus.GaugeValue, float64(stats.UncleanableBytes[dir]), dir)
	}
}
