package node

import (
	"context"
	"errors"
	"strconv"

	"grete/internal/admin"
	"grete/internal/metrics"
)

// startAdmin serves metrics, health and profiles. The address that nobody asked for may be taken, by another broker of
// this machine: that is no reason not to start.
func (n *Node) startAdmin(context.Context) error {
	address := n.o.Config.Text("admin.listen")
	if address == "" {
		return nil
	}
	n.metrics.Logs(n.eachLog)
	n.metrics.Lags(n.replicas.Lags)
	n.gauges()
	if n.o.Config.IsBroker {
		n.metrics.Replicas.SetState(n.replicas.State)
		n.brokerGauges()
		n.cleanerGauges()
	}
	server, err := admin.Start(address, admin.Options{Gatherer: n.metrics.Registry, Healthy: n.healthy, Ready: n.ready})
	if err != nil {
		if _, asked := n.o.Config.Static["admin.listen"]; asked {
			return err
		}
		n.o.Log.Warn().Err(err).Msg("no metrics and health over HTTP")
		return nil
	}
	n.adminAddr = server.Addr().String()
	n.o.Log.Info().Str("address", n.adminAddr).Msg("metrics and health")
	n.onStop("admin", server.Shutdown)
	return nil
}

// eachLog shows the logs to the metrics.
func (n *Node) eachLog(yield func(metrics.LogState)) {
	for _, l := range n.store.Logs() {
		id := l.ID()
		yield(metrics.LogState{
			Topic: id.Topic, Partition: strconv.Itoa(int(id.Partition)),
			SizeBytes: l.SizeBytes(), LogStartOffset: l.StartOffset(), LogEndOffset: l.EndOffset(), Segments: l.SegmentCount(),
		})
	}
}

// gauges are the figures that are asked for at each scrape (KafkaController's and FetchSessionCache's).
func (n *Node) gauges() {
	n.metrics.Controller.SetState(n.controllerState)
	n.metrics.Gauge("log_logscrubber_damaged_segments", "Segments with records that are damaged on disk.", func() float64 {
		return float64(n.store.ScrubStats().DamagedSegments)
	})
	n.metrics.Gauge("log_logscrubber_read_bytes", "Bytes read to find damage on disk, since the start.", func() float64 {
		return float64(n.store.ScrubStats().Bytes)
	})
	n.metrics.Gauge("log_logmanager_offlinelogdirectorycount", "Log directories that are offline.", func() float64 {
		offline := 0
		for _, dir := range n.store.Dirs() {
			if dir.Offline != nil {
				offline++
			}
		}
		return float64(offline)
	})
}

// brokerGauges are those that a controller alone has not.
func (n *Node) brokerGauges() {
	n.metrics.Gauge("server_fetchsessioncache_numincrementalfetchsessions", "Incremental fetch sessions.", func() float64 {
		sessions, _ := n.fetchSessions.Counts()
		return float64(sessions)
	})
	n.metrics.Gauge("server_fetchsessioncache_numincrementalfetchpartitionscached", "Partitions in incremental fetch sessions.", func() float64 {
		_, partitions := n.fetchSessions.Counts()
		return float64(partitions)
	})
}

var (
	errNoDirectory = errors.New("no log directory is online")
	errFenced      = errors.New("the controller does not count on this broker")
)

// healthy: there is somewhere to write.
func (n *Node) healthy() error {
	for _, dir := range n.store.Dirs() {
		if dir.Offline == nil {
			return nil
		}
	}
	return errNoDirectory
}

// ready: healthy, and, a broker, known to clients.
func (n *Node) ready() error {
	if b := n.controller.Image().Broker(n.o.Config.NodeID); n.o.Config.IsBroker && (b == nil || !b.Active()) {
		return errFenced
	}
	return n.healthy()
}
