package metrics

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// Replicas counts what happens to replicas (kafka.server:type=ReplicaManager) and shows their state.
type Replicas struct {
	ISRShrinks, ISRExpands, FailedISRUpdates atomic.Int64

	state atomic.Pointer[func() ReplicaState]
}

// ReplicaState is the state of this broker's replicas at one moment.
type ReplicaState struct {
	Partitions, Leaders, UnderReplicated, UnderMinISR, AtMinISR, OfflineReplicas, Reassigning int
}

func newReplicas() *Replicas { return &Replicas{} }

// SetState says where to ask for the state; until then it is not shown.
func (r *Replicas) SetState(state func() ReplicaState) { r.state.Store(&state) }

type replicaGauge struct {
	desc  *prometheus.Desc
	value func(ReplicaState) int
}

func replicaDesc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("kafka_server_replicamanager_"+name, help, nil, nil)
}

var replicaGauges = []replicaGauge{
	{replicaDesc("partitioncount", "Replicas on this broker."), func(s ReplicaState) int { return s.Partitions }},
	{replicaDesc("leadercount", "Partitions led by this broker."), func(s ReplicaState) int { return s.Leaders }},
	{replicaDesc("underreplicatedpartitions", "Led partitions with fewer in-sync replicas than replicas."), func(s ReplicaState) int { return s.UnderReplicated }},
	{replicaDesc("underminisrpartitioncount", "Led partitions with fewer in-sync replicas than min.insync.replicas."), func(s ReplicaState) int { return s.UnderMinISR }},
	{replicaDesc("atminisrpartitioncount", "Led partitions with exactly min.insync.replicas in-sync replicas."), func(s ReplicaState) int { return s.AtMinISR }},
	{replicaDesc("offlinereplicacount", "Replicas on log directories that are offline."), func(s ReplicaState) int { return s.OfflineReplicas }},
	{replicaDesc("reassigningpartitions", "Led partitions that are being reassigned."), func(s ReplicaState) int { return s.Reassigning }},
}

var (
	isrShrinks       = replicaDesc("isrshrinks_total", "In-sync replica sets that this broker shrank.")
	isrExpands       = replicaDesc("isrexpands_total", "In-sync replica sets that this broker expanded.")
	failedISRUpdates = replicaDesc("failedisrupdates_total", "In-sync replica changes that the controller refused.")
)

// Describe implements prometheus.Collector.
func (r *Replicas) Describe(ch chan<- *prometheus.Desc) {
	for _, g := range replicaGauges {
		ch <- g.desc
	}
	ch <- isrShrinks
	ch <- isrExpands
	ch <- failedISRUpdates
}

// Collect implements prometheus.Collector.
func (r *Replicas) Collect(ch chan<- prometheus.Metric) {
	ch <- prometheus.MustNewConstMetric(isrShrinks, prometheus.CounterValue, float64(r.ISRShrinks.Load()))
	ch <- prometheus.MustNewConstMetric(isrExpands, prometheus.CounterValue, float64(r.ISRExpands.Load()))
	ch <- prometheus.MustNewConstMetric(failedISRUpdates, prometheus.CounterValue, float64(r.FailedISRUpdates.Load()))
	state := r.state.Load()
	if state == nil {
		return
	}
	now := (*state)()
	for _, g := range replicaGauges {
		ch <- prometheus.MustNewConstMetric(g.desc, prometheus.GaugeValue, float64(g.value(now)))
	}
}
