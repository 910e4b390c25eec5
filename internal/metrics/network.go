package metrics

import (
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/internal/clock"
)

const (
	apiKeyCount  = 128
	versionCount = 32
	// windowLength is the least that quantiles reach back; old observations are forgotten at scrapes.
	windowLength = 5 * time.Minute
)

// Network measures connections and requests.
type Network struct {
	requests      [apiKeyCount]atomic.Pointer[RequestStats]
	bytesReceived atomic.Int64
	bytesSent     atomic.Int64
	clock         clock.Clock

	mu          sync.Mutex
	connections map[string]*listenerStats
	budget      func() (usedBytes, maxBytes int64)
	rotated     time.Time
}

type listenerStats struct{ open, created, authenticated, refused int64 }

// RequestStats measures the requests of one key.
type RequestStats struct {
	versions [versionCount]atomic.Int64
	times    [len(timeNames)]requestTime
}

// requestTime is one of the times of a request, with what its quantiles do not reach back to.
type requestTime struct {
	Histogram
	older, old *histogramCounts // at the last two rotations; Network.mu
}

// The parts of a request's time (kafka.network.RequestMetrics).
const (
	totalTime         = iota // received until sent
	localTime                // in the handler on the connection's reader
	remoteTime               // parked until answered
	responseQueueTime        // answered until its sending began: earlier requests of the connection were not answered
	responseSendTime         // sending
)

var timeNames = [...]string{"totaltimems", "localtimems", "remotetimems", "responsequeuetimems", "responsesendtimems"}

func newNetwork(c clock.Clock) *Network {
	return &Network{clock: c, connections: map[string]*listenerStats{}}
}

// Request returns the stats of a key, to be kept.
func (n *Network) Request(key int16) *RequestStats {
	slot := &n.requests[int(key)&(apiKeyCount-1)]
	if s := slot.Load(); s != nil {
		return s
	}
	slot.CompareAndSwap(nil, new(RequestStats))
	return slot.Load()
}

// Received counts a request when it was decoded.
func (s *RequestStats) Received(version int16) { s.versions[int(version)&(versionCount-1)].Add(1) }

// RequestTimes are the moments of one request. Served is when its handler returned; zero when it was answered by then.
type RequestTimes struct{ Received, Served, Answered, Sending, Sent int64 } // nanoseconds

// Done counts a request whose response was sent.
func (s *RequestStats) Done(t RequestTimes) {
	if t.Served == 0 || t.Served > t.Answered {
		t.Served = t.Answered
	}
	s.times[totalTime].Observe(time.Duration(t.Sent - t.Received))
	s.times[localTime].Observe(time.Duration(t.Served - t.Received))
	s.times[remoteTime].Observe(time.Duration(t.Answered - t.Served))
	s.times[responseQueueTime].Observe(time.Duration(t.Sending - t.Answered))
	s.times[responseSendTime].Observe(time.Duration(t.Sent - t.Sending))
}

// BytesReceived and BytesSent count the bytes of connections.
func (n *Network) BytesReceived(count int) { n.bytesReceived.Add(int64(count)) }
func (n *Network) BytesSent(count int)     { n.bytesSent.Add(int64(count)) }

// ConnectionOpened counts a connection of a listener.
func (n *Network) ConnectionOpened(listener string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := n.connections[listener]
	if l == nil {
		l = &listenerStats{}
		n.connections[listener] = l
	}
	l.open++
	l.created++
}

// ConnectionClosed ends what ConnectionOpened began.
func (n *Network) ConnectionClosed(listener string) {
	n.mu.Lock()
	n.connections[listener].open--
	n.mu.Unlock()
}

// SucceededAuthentication and FailedAuthentication count ends of TLS handshakes, and of SASL exchanges where there is
// SASL.
func (n *Network) SucceededAuthentication(listener string) {
	n.mu.Lock()
	n.connections[listener].authenticated++
	n.mu.Unlock()
}

func (n *Network) FailedAuthentication(listener string) {
	n.mu.Lock()
	n.connections[listener].refused++
	n.mu.Unlock()
}

// SetBudget says where to ask for the use of queued.max.request.bytes.
func (n *Network) SetBudget(use func() (usedBytes, maxBytes int64)) {
	n.mu.Lock()
	n.budget = use
	n.mu.Unlock()
}

var (
	connectionCount    = prometheus.NewDesc("kafka_server_socketservermetrics_connection_count", "Open connections.", []string{"listener"}, nil)
	connectionCreation = prometheus.NewDesc("kafka_server_socketservermetrics_connection_creation_total", "Connections accepted.", []string{"listener"}, nil)
	authenticated      = prometheus.NewDesc("kafka_server_socketservermetrics_successful_authentication_total", "Connections authenticated by TLS or SASL.", []string{"listener"}, nil)
	notAuthenticated   = prometheus.NewDesc("kafka_server_socketservermetrics_failed_authentication_total", "TLS handshakes and SASL exchanges that failed.", []string{"listener"}, nil)
	incomingBytes      = prometheus.NewDesc("kafka_server_socketservermetrics_incoming_byte_total", "Bytes received on connections.", nil, nil)
	outgoingBytes      = prometheus.NewDesc("kafka_server_socketservermetrics_outgoing_byte_total", "Bytes sent on connections.", nil, nil)
	memoryPoolUsed     = prometheus.NewDesc("kafka_network_socketserver_memorypoolused", "Bytes of requests being received or handled.", nil, nil)
	memoryPoolFree     = prometheus.NewDesc("kafka_network_socketserver_memorypoolavailable", "Bytes of queued.max.request.bytes left.", nil, nil)
	requestsTotal      = prometheus.NewDesc("kafka_network_requestmetrics_requests_total", "Requests received.", []string{"request", "version"}, nil)
	timeDescs          = makeTimeDescs()
)

// timeDesc is one request time as the JMX exporter shows a Kafka histogram: a series per quantile, and a count.
type timeDesc struct{ quantile, count, sum *prometheus.Desc }

func makeTimeDescs() (descs [len(timeNames)]timeDesc) {
	for i, name := range timeNames {
		name = "kafka_network_requestmetrics_" + name
		descs[i] = timeDesc{
			quantile: prometheus.NewDesc(name, "Milliseconds per request, recently.", []string{"request", "quantile"}, nil),
			count:    prometheus.NewDesc(name+"_count", "Requests counted.", []string{"request"}, nil),
			sum:      prometheus.NewDesc(name+"_sum", "Milliseconds of all requests counted.", []string{"request"}, nil),
		}
	}
	return descs
}

var quantiles = []struct {
	label string
	q     float64
}{{"0.50", .5}, {"0.75", .75}, {"0.95", .95}, {"0.98", .98}, {"0.99", .99}, {"0.999", .999}}

// Describe implements prometheus.Collector.
func (n *Network) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{connectionCount, connectionCreation, authenticated, notAuthenticated, incomingBytes, outgoingBytes, memoryPoolUsed, memoryPoolFree, requestsTotal} {
		ch <- d
	}
	for _, d := range timeDescs {
		ch <- d.quantile
		ch <- d.count
		ch <- d.sum
	}
}

// Collect implements prometheus.Collector.
func (n *Network) Collect(ch chan<- prometheus.Metric) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for listener, l := range n.connections {
		ch <- prometheus.MustNewConstMetric(connectionCount, prometheus.GaugeValue, float64(l.open), listener)
		ch <- prometheus.MustNewConstMetric(connectionCreation, prometheus.CounterValue, float64(l.created), listener)
		ch <- prometheus.MustNewConstMetric(authenticated, prometheus.CounterValue, float64(l.authenticated), listener)
		ch <- prometheus.MustNewConstMetric(notAuthenticated, prometheus.CounterValue, float64(l.refused), listener)
	}
	ch <- prometheus.MustNewConstMetric(incomingBytes, prometheus.CounterValue, float64(n.bytesReceived.Load()))
	ch <- prometheus.MustNewConstMetric(outgoingBytes, prometheus.CounterValue, float64(n.bytesSent.Load()))
	if n.budget != nil {
		used, limit := n.budget()
		ch <- prometheus.MustNewConstMetric(memoryPoolUsed, prometheus.GaugeValue, float64(used))
		ch <- prometheus.MustNewConstMetric(memoryPoolFree, prometheus.GaugeValue, float64(limit-used))
	}
	rotate := n.rotateNow(n.clock.Now())
	for key := range n.requests {
		if s := n.requests[key].Load(); s != nil {
			s.collect(ch, kmsg.NameForKey(int16(key)), rotate)
		}
	}
}

// rotateNow says whether a window has passed since the last rotation; n.mu is held.
func (n *Network) rotateNow(now time.Time) bool {
	if now.Sub(n.rotated) < windowLength {
		return false
	}
	n.rotated = now
	return true
}

func (s *RequestStats) collect(ch chan<- prometheus.Metric, name string, rotate bool) {
	for v := range s.versions {
		if count := s.versions[v].Load(); count > 0 {
			ch <- prometheus.MustNewConstMetric(requestsTotal, prometheus.CounterValue, float64(count), name, strconv.Itoa(v))
		}
	}
	for i := range s.times {
		s.times[i].collect(ch, timeDescs[i], rotate, name)
	}
}

func (t *requestTime) collect(ch chan<- prometheus.Metric, d timeDesc, rotate bool, labels ...string) {
	all := t.snapshot()
	if rotate {
		t.older, t.old = t.old, all
	}
	recent := all.since(t.older)
	for _, q := range quantiles {
		ch <- prometheus.MustNewConstMetric(d.quantile, prometheus.UntypedValue, recent.quantileMs(q.q), append(slices.Clip(labels), q.label)...)
	}
	ch <- prometheus.MustNewConstMetric(d.count, prometheus.CounterValue, float64(all.total), labels...)
	ch <- prometheus.MustNewConstMetric(d.sum, prometheus.CounterValue, float64(t.sumMicro.Load())/1000, labels...)
}
