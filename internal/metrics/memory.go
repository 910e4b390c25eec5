package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"grete/internal/memory"
)

var (
	memoryLimit   = prometheus.NewDesc("kafka_server_memory_limit_bytes", "Memory that the process may use.", nil, nil)
	memoryShare   = prometheus.NewDesc("kafka_server_memory_share_bytes", "Memory that a borrower may hold.", []string{"borrower"}, nil)
	memoryUsed    = prometheus.NewDesc("kafka_server_memory_used_bytes", "Memory that a borrower holds.", []string{"borrower"}, nil)
	memoryWaiting = prometheus.NewDesc("kafka_server_memory_waiting", "Requests that wait for memory of a borrower's.", []string{"borrower"}, nil)
)

// Memory registers what the ledger has lent.
func (m *Metrics) Memory(l *memory.Ledger) { m.Registry.MustRegister(memoryCollector{l}) }

type memoryCollector struct{ ledger *memory.Ledger }

func (c memoryCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{memoryLimit, memoryShare, memoryUsed, memoryWaiting} {
		ch <- d
	}
}

func (c memoryCollector) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v int64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v), labels...)
	}
	gauge(memoryLimit, c.ledger.LimitBytes())
	for _, a := range c.ledger.Accounts() {
		gauge(memoryShare, a.ShareBytes(), a.Name())
		gauge(memoryUsed, a.UsedBytes(), a.Name())
		gauge(memoryWaiting, int64(a.Waiting()), a.Name())
	}
}
