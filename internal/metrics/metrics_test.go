package metrics

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"grete/internal/clock"
)

// scrape returns all samples as name{labels} → value, sorted by what Gather gives.
func scrape(t *testing.T, m *Metrics) map[string]float64 {
	t.Helper()
	families, err := m.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		for _, s := range f.Metric {
			var labels []string
			for _, l := range s.Label {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			value := s.GetGauge().GetValue() + s.GetCounter().GetValue() + s.GetUntyped().GetValue()
			out[f.GetName()+"{"+strings.Join(labels, ",")+"}"] = value
		}
	}
	return out
}

func expect(t *testing.T, got map[string]float64, want map[string]float64) {
	t.Helper()
	for name, v := range want {
		if g, ok := got[name]; !ok || math.Abs(g-v) > v/8 {
			t.Errorf("%s is %v (there: %v), want %v", name, g, ok, v)
		}
	}
}

func TestRequestTimes(t *testing.T) {
	m := New(clock.NewManual(time.Unix(1000, 0)))
	s := m.Network.Request(0)
	for i := range 100 {
		s.Received(9)
		ms := int64(time.Millisecond)
		start := int64(i) * ms
		s.Done(RequestTimes{Received: start, Served: start + 2*ms, Answered: start + 10*ms, Sending: start + 13*ms, Sent: start + 20*ms})
	}
	s.Done(RequestTimes{Received: 5, Answered: 5, Sending: 5, Sent: 5}) // answered at once
	name := "kafka_network_requestmetrics_"
	expect(t, scrape(t, m), map[string]float64{
		name + "requests_total{request=Produce,version=9}":          100,
		name + "totaltimems{quantile=0.99,request=Produce}":         20,
		name + "totaltimems{quantile=0.50,request=Produce}":         20,
		name + "localtimems{quantile=0.50,request=Produce}":         2,
		name + "remotetimems{quantile=0.50,request=Produce}":        8,
		name + "responsequeuetimems{quantile=0.50,request=Produce}": 3,
		name + "responsesendtimems{quantile=0.50,request=Produce}":  7,
		name + "totaltimems_count{request=Produce}":                 101,
		name + "totaltimems_sum{request=Produce}":                   2000,
	})
}

// Quantiles forget what lies more than two windows back, counts do not.
func TestQuantilesAreRecent(t *testing.T) {
	c := clock.NewManual(time.Unix(1000, 0))
	m := New(c)
	s := m.Network.Request(1)
	s.Done(RequestTimes{Sent: int64(time.Hour)})
	for range 3 {
		scrape(t, m)
		c.Advance(windowLength)
	}
	for range 10 {
		s.Done(RequestTimes{Sent: int64(time.Millisecond)})
	}
	expect(t, scrape(t, m), map[string]float64{
		"kafka_network_requestmetrics_totaltimems{quantile=0.999,request=Fetch}": 1,
		"kafka_network_requestmetrics_totaltimems_count{request=Fetch}":          11,
	})
}

func TestHistogramQuantilesAreNearTheTruth(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	var h Histogram
	var all []float64
	for range 20_000 {
		d := time.Duration(math.Exp(rnd.Float64()*20)) * time.Microsecond / 1000
		h.Observe(d)
		all = append(all, float64(d/time.Microsecond)/1000)
	}
	slices.Sort(all)
	s := h.snapshot()
	for _, q := range quantiles {
		want := all[int(q.q*float64(len(all)))]
		if got := s.quantileMs(q.q); got < want-0.001 || got > want*1.13+0.001 {
			t.Errorf("quantile %s is %v, want %v", q.label, got, want)
		}
	}
	h.Observe(-time.Second)
	h.Observe(math.MaxInt64)
	for micros := range uint64(5000) {
		if b := bucketOf(micros); micros > bucketTop(b) || b > 0 && micros <= bucketTop(b-1) {
			t.Fatalf("%d µs in bucket %d up to %d", micros, b, bucketTop(b))
		}
	}
}

func TestTopicsAndTheirSum(t *testing.T) {
	m := New(clock.System)
	m.Topics.Topic("a").MessagesIn.Add(3)
	m.Topics.Topic("b").MessagesIn.Add(4)
	m.Topics.Remove("b")
	got := scrape(t, m)
	name := "kafka_server_brokertopicmetrics_messagesin_total"
	expect(t, got, map[string]float64{name + "{topic=a}": 3, name + "{}": 7})
	if _, ok := got[name+"{topic=b}"]; ok {
		t.Error("a deleted topic is shown")
	}
}

func TestNetworkReplicasLogsAndGauges(t *testing.T) {
	m := New(clock.System)
	m.Network.ConnectionOpened("PLAINTEXT")
	m.Network.ConnectionOpened("PLAINTEXT")
	m.Network.ConnectionClosed("PLAINTEXT")
	m.Network.BytesReceived(10)
	m.Network.BytesSent(20)
	m.Network.SetBudget(func() (int64, int64) { return 30, 100 })
	m.Replicas.ISRShrinks.Add(2)
	m.Replicas.SetState(func() ReplicaState { return ReplicaState{Partitions: 5, Leaders: 4, UnderReplicated: 1} })
	m.Logs(func(yield func(LogState)) {
		yield(LogState{Topic: "a", Partition: "0", SizeBytes: 1000, LogStartOffset: 2, LogEndOffset: 9, Segments: 3})
	})
	m.Controller.ELRElections.Add(3)
	m.Controller.SetState(func() ControllerState {
		return ControllerState{ActiveControllers: 1, OfflinePartitions: 2, FencedBrokers: 1}
	})
	m.Gauge("log_logmanager_offlinelogdirectorycount", "Log directories that are offline.", func() float64 { return 1 })
	expect(t, scrape(t, m), map[string]float64{
		"kafka_server_socketservermetrics_connection_count{listener=PLAINTEXT}":          1,
		"kafka_server_socketservermetrics_connection_creation_total{listener=PLAINTEXT}": 2,
		"kafka_server_socketservermetrics_incoming_byte_total{}":                         10,
		"kafka_server_socketservermetrics_outgoing_byte_total{}":                         20,
		"kafka_network_socketserver_memorypoolused{}":                                    30,
		"kafka_network_socketserver_memorypoolavailable{}":                               70,
		"kafka_server_replicamanager_isrshrinks_total{}":                                 2,
		"kafka_server_replicamanager_partitioncount{}":                                   5,
		"kafka_server_replicamanager_leadercount{}":                                      4,
		"kafka_server_replicamanager_underreplicatedpartitions{}":                        1,
		"kafka_log_log_size{partition=0,topic=a}":                                        1000,
		"kafka_log_log_logendoffset{partition=0,topic=a}":                                9,
		"kafka_log_log_numlogsegments{partition=0,topic=a}":                              3,
		"kafka_log_logmanager_offlinelogdirectorycount{}":                                1,
		"kafka_controller_kafkacontroller_activecontrollercount{}":                       1,
		"kafka_controller_kafkacontroller_offlinepartitionscount{}":                      2,
		"kafka_controller_kafkacontroller_fencedbrokercount{}":                           1,
		"kafka_controller_controllerstats_electionfromeligibleleaderreplicas_total{}":    3,
	})
}

// Every series is named and typed so that the registry finds no fault, and has a help text.
func TestEverySeriesIsDescribed(t *testing.T) {
	m := New(clock.System)
	m.Network.Request(3).Done(RequestTimes{Sent: 1})
	families, err := prometheus.Gatherers{m.Registry}.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetHelp() == "" {
			t.Errorf("%s has no help", f.GetName())
		}
	}
}

// A coarser detail has sums, and no series of a topic that nothing was counted for has begun.
func TestDetail(t *testing.T) {
	for name, want := range map[string]map[string]float64{
		"partition": {
			"kafka_log_log_size{partition=0,topic=a}": 1000, "kafka_log_log_size{partition=1,topic=a}": 500, "kafka_log_log_logendoffset{partition=0,topic=b}": 7,
			"kafka_server_fetcherlagmetrics_consumerlag{clientId=f,partition=1,topic=a}": 3,
		},
		"topic": {
			"kafka_log_log_size{topic=a}": 1500, "kafka_log_log_numlogsegments{topic=b}": 1, "kafka_server_fetcherlagmetrics_consumerlag{clientId=f,topic=a}": 5,
			"kafka_server_brokertopicmetrics_bytesin_total{topic=a}": 4,
		},
		"broker": {
			"kafka_log_log_size{}": 1501, "kafka_log_log_numlogsegments{}": 4, "kafka_server_fetcherlagmetrics_consumerlag{clientId=f}": 5,
			"kafka_server_replicafetchermanager_maxlag{clientId=Replica}": 3, "kafka_server_brokertopicmetrics_bytesin_total{}": 4,
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := New(clock.System)
			m.SetDetail(Details[name])
			m.Topics.Topic("a").BytesIn.Add(4)
			m.Topics.Topic("b")
			m.Logs(func(yield func(LogState)) {
				yield(LogState{Topic: "a", Partition: "0", SizeBytes: 1000, LogEndOffset: 9, Segments: 2})
				yield(LogState{Topic: "a", Partition: "1", SizeBytes: 500, LogEndOffset: 9, Segments: 1})
				yield(LogState{Topic: "b", Partition: "0", SizeBytes: 1, LogEndOffset: 7, Segments: 1})
			})
			m.Lags(func(yield func(LagState)) {
				yield(LagState{Fetcher: "f", Topic: "a", Partition: "0", Lag: 2})
				yield(LagState{Fetcher: "f", Topic: "a", Partition: "1", Lag: 3})
			})
			got := scrape(t, m)
			expect(t, got, want)
			for series := range got {
				labels := strings.Count(series, "topic=") + strings.Count(series, "partition=")
				if labels > 2-int(Details[name]) || strings.Contains(series, "brokertopicmetrics") && strings.Contains(series, "topic=b") {
					t.Errorf("%s", series)
				}
			}
		})
	}
}
