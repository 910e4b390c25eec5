package node

import (
	"context"
	"crypto/tls"
	"errors"
	"strconv"

	"grete/internal/admin"
	"grete/internal/config"
	"grete/internal/metrics"
)

// startAdmin serves health and profiles, and what the process measures of itself, from the beginning of the start on.
// The address that nobody asked for may be taken, by another broker of this machine: that is no reason not to start.
func (n *Node) startAdmin(context.Context) error {
	n.onStop("admin", n.stopAdmin)
	address := n.o.Config.Text("admin.listen")
	if address == "" {
		return nil
	}
	security, err := n.adminTLS()
	if err != nil {
		return err
	}
	server, err := admin.Start(address, admin.Options{
		TLS: security, Token: n.o.Config.Text("admin.token"),
		Gatherer: n.metrics.Registry, Healthy: n.healthy, Ready: n.ready, Notes: n.notes, Profiles: n.o.Config.Text(pprofListen) == pprofBesideMetrics, Property: "admin.listen",
	})
	if err != nil {
		if _, asked := n.o.Config.Static["admin.listen"]; asked {
			return err
		}
		n.o.Log.Warn().Err(err).Msg("no metrics and health over HTTP")
		return nil
	}
	n.admin, n.adminAddr = append(n.admin, server), server.Addr().String()
	n.o.Log.Info().Str("address", n.adminAddr).Msg("metrics and health")
	return nil
}

// adminTLS is the TLS of the HTTP listeners, nil where they have none.
func (n *Node) adminTLS() (*tls.Config, error) {
	l := config.Listener{Name: "ADMIN", Protocol: config.SSL}
	if n.o.Config.Text("admin.security.protocol") != l.Protocol.String() {
		return nil, nil
	}
	if err := n.openTLS(l, true); err != nil {
		return nil, err
	}
	return n.security.byListener[l.Name].source.Server(), nil
}

const (
	pprofListen = "admin.pprof.listen"
	// pprofBesideMetrics: on admin.listen, where that is a loopback address.
	pprofBesideMetrics = "admin"
)

// startProfiles serves Go's profiles on a listener of their own.
func (n *Node) startProfiles(context.Context) error {
	address := n.o.Config.Text(pprofListen)
	if address == "" || address == pprofBesideMetrics {
		return nil
	}
	security, err := n.adminTLS()
	if err != nil {
		return err
	}
	server, err := admin.Start(address, admin.Options{Profiles: true, Property: pprofListen, TLS: security, Token: n.o.Config.Text("admin.token")})
	if err != nil {
		return err
	}
	n.admin, n.pprofAddr = append(n.admin, server), server.Addr().String()
	n.o.Log.Info().Str("address", n.pprofAddr).Msg("profiles")
	return nil
}

// stopAdmin runs first of all in a stop, before what the metrics show is gone; and last when a start fails.
func (n *Node) stopAdmin(ctx context.Context) error {
	var errs []error
	for _, server := range n.admin {
		errs = append(errs, server.Shutdown(ctx))
	}
	n.admin = nil
	return errors.Join(errs...)
}

// showState adds to the metrics what there is to show once all parts run.
func (n *Node) showState(context.Context) error {
	if n.adminAddr == "" {
		return nil
	}
	n.metrics.SetDetail(metrics.Details[n.o.Config.Text("admin.metrics.detail")])
	n.metrics.Logs(n.eachLog)
	n.metrics.Lags(n.replicas.Lags)
	n.gauges()
	if n.o.Config.IsBroker {
		n.metrics.Replicas.SetState(n.replicas.State)
		n.brokerGauges()
		n.cleanerGauges()
	}
	n.onStop("admin", n.stopAdmin)
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
	n.troubleGauges()
	n.metrics.Counter("server_authorizermetrics_authorization_denied_total", "Denials of what clients asked for.", func() float64 {
		return float64(n.authorizer.Denials())
	})
	n.metrics.Memory(n.o.Memory)
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
