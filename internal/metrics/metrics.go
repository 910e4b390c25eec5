// Package metrics is what a broker measures of itself, under the names that the Prometheus JMX exporter gives to
// Kafka's own metrics, so that dashboards made for Kafka work. docs/METRICS.md lists them.
//
// Rooms get the part that concerns them injected, resolve what they update often once, and update it with atomic
// operations.
package metrics

import (
	"time"

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
	Flushes    *Flushes
	detail     Detail
}

// New makes a registry that holds everything, and the Go runtime's and the process's own metrics.
func New(c clock.Clock) *Metrics {
	m := &Metrics{Registry: prometheus.NewRegistry(), Network: newNetwork(c), Topics: newTopics(), Replicas: newReplicas(), Controller: newController(), Flushes: &Flushes{clock: c}}
	m.Registry.MustRegister(m.Network, m.Topics, m.Replicas, m.Controller, m.Flushes,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Certificate shows when the certificate of a listener expires.
func (m *Metrics) Certificate(listener string, notAfter func() time.Time) {
	m.Registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: "kafka", Name: "server_certificate_expiry_timestamp_seconds", Help: "When the first certificate of the listener's chain expires.",
		ConstLabels: prometheus.Labels{"listener": listener},
	}, func() float64 { return float64(notAfter().Unix()) }))
}

// Gauge registers a value that is asked for at each scrape. name is without its "kafka_" prefix; it panics on a name
// that is taken or wrong, as that is the program's own mistake.
func (m *Metrics) Gauge(name, help string, value func() float64) {
	m.Registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "kafka", Name: name, Help: help}, value))
}

// Counter is Gauge for a value that only grows; its name ends in "_total".
func (m *Metrics) Counter(name, help string, value func() float64) {
	m.Registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Namespace: "kafka", Name: name, Help: help}, value))
}
