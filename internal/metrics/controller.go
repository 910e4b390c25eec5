package metrics

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// Controller counts what the metadata log tells of elections and controllers, and shows the cluster's state
// (kafka.controller).
type Controller struct {
	UncleanElections, ELRElections, NewControllers, TimedOutSessions atomic.Int64

	state atomic.Pointer[func() ControllerState]
}

// ControllerState is the cluster as a node's metadata has it.
type ControllerState struct {
	ActiveControllers                                 int // 1 on the node that leads the quorum
	Topics, Partitions                                int
	OfflinePartitions, ImbalancedPartitions           int
	ActiveBrokers, FencedBrokers, ShuttingDownBrokers int
	LastAppliedOffset                                 int64
}

func newController() *Controller { return &Controller{} }

// SetState says where to ask for the state; until then it is not shown.
func (c *Controller) SetState(state func() ControllerState) { c.state.Store(&state) }

func controllerDesc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("kafka_controller_"+name, help, nil, nil)
}

var controllerGauges = []struct {
	desc  *prometheus.Desc
	value func(ControllerState) int64
}{
	{controllerDesc("kafkacontroller_activecontrollercount", "Whether this node leads the metadata quorum."), func(s ControllerState) int64 { return int64(s.ActiveControllers) }},
	{controllerDesc("kafkacontroller_globaltopiccount", "Topics of the cluster."), func(s ControllerState) int64 { return int64(s.Topics) }},
	{controllerDesc("kafkacontroller_globalpartitioncount", "Partitions of the cluster."), func(s ControllerState) int64 { return int64(s.Partitions) }},
	{controllerDesc("kafkacontroller_offlinepartitionscount", "Partitions that nobody leads."), func(s ControllerState) int64 { return int64(s.OfflinePartitions) }},
	{controllerDesc("kafkacontroller_preferredreplicaimbalancecount", "Partitions that another than their first replica leads, or nobody."), func(s ControllerState) int64 { return int64(s.ImbalancedPartitions) }},
	{controllerDesc("kafkacontroller_activebrokercount", "Registered brokers in service."), func(s ControllerState) int64 { return int64(s.ActiveBrokers) }},
	{controllerDesc("kafkacontroller_fencedbrokercount", "Registered brokers out of service."), func(s ControllerState) int64 { return int64(s.FencedBrokers) }},
	{controllerDesc("kafkacontroller_controlledshutdownbrokercount", "Registered brokers that are handing over before they stop."), func(s ControllerState) int64 { return int64(s.ShuttingDownBrokers) }},
	{controllerDesc("kafkacontroller_lastappliedrecordoffset", "Offset of the newest metadata record applied here."), func(s ControllerState) int64 { return s.LastAppliedOffset }},
}

var controllerCounters = []struct {
	desc  *prometheus.Desc
	value func(*Controller) *atomic.Int64
}{
	{controllerDesc("controllerstats_uncleanleaderelections_total", "Elections of leaders that may lack records."), func(c *Controller) *atomic.Int64 { return &c.UncleanElections }},
	{controllerDesc("controllerstats_electionfromeligibleleaderreplicas_total", "Elections of leaders that were eligible without being in sync."), func(c *Controller) *atomic.Int64 { return &c.ELRElections }},
	{controllerDesc("kafkacontroller_newactivecontrollerscount", "Changes of the active controller that this node has seen."), func(c *Controller) *atomic.Int64 { return &c.NewControllers }},
	{controllerDesc("kafkacontroller_timedoutbrokerheartbeatcount", "Sessions of brokers that ended without a heartbeat while this node was the active controller."), func(c *Controller) *atomic.Int64 { return &c.TimedOutSessions }},
}

// Describe implements prometheus.Collector.
func (c *Controller) Describe(ch chan<- *prometheus.Desc) {
	for _, g := range controllerGauges {
		ch <- g.desc
	}
	for _, counter := range controllerCounters {
		ch <- counter.desc
	}
}

// Collect implements prometheus.Collector.
func (c *Controller) Collect(ch chan<- prometheus.Metric) {
	for _, counter := range controllerCounters {
		ch <- prometheus.MustNewConstMetric(counter.desc, prometheus.CounterValue, float64(counter.value(c).Load()))
	}
	state := c.state.Load()
	if state == nil {
		return
	}
	now := (*state)()
	for _, g := range controllerGauges {
		ch <- prometheus.MustNewConstMetric(g.desc, prometheus.GaugeValue, float64(g.value(now)))
	}
}
