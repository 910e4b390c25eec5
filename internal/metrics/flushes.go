package metrics

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"grete/internal/clock"
)

// Flushes measures how long logs take to be made durable (kafka.log:type=LogFlushStats).
type Flushes struct {
	clock clock.Clock
	times requestTime

	mu      sync.Mutex
	rotated time.Time
}

const flushTimeName = "kafka_log_logflushstats_logflushrateandtimems"

var flushTime = timeDesc{
	quantile: prometheus.NewDesc(flushTimeName, "Milliseconds that flushes of logs took, recently.", []string{"quantile"}, nil),
	count:    prometheus.NewDesc(flushTimeName+"_count", "Flushes of logs.", nil, nil),
	sum:      prometheus.NewDesc(flushTimeName+"_sum", "Milliseconds of all flushes of logs.", nil, nil),
}

// Observe counts a flush.
func (f *Flushes) Observe(took time.Duration) { f.times.Observe(took) }

// Describe implements prometheus.Collector.
func (f *Flushes) Describe(ch chan<- *prometheus.Desc) {
	ch <- flushTime.quantile
	ch <- flushTime.count
	ch <- flushTime.sum
}

// Collect implements prometheus.Collector.
func (f *Flushes) Collect(ch chan<- prometheus.Metric) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.clock.Now()
	rotate := now.Sub(f.rotated) >= windowLength
	if rotate {
		f.rotated = now
	}
	f.times.collect(ch, flushTime, rotate)
}
