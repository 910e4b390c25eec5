package node

import (
	"context"
	"errors"
	"math"
	"net"

	"grete/cluster/controller"
	"grete/cluster/metadata"
	"grete/cluster/metadata/acl"
	"grete/handlers"
	"grete/internal/config"
	"grete/internal/sched"
	"grete/protocol"
)

// serve answers clients from now on.
func (n *Node) serve(context.Context) error {
	n.server = protocol.NewServer(n.newBroker(), n.serverOptions(n.o.Config.Listeners))
	n.beginLimiting(n.server)
	n.onStop("connections", n.stopServing)
	for _, l := range n.o.Config.Listeners {
		for _, socket := range n.sockets.listening[l.Name] {
			n.serving.Go(func() { n.accept(n.server, l.Name, socket) })
		}
	}
	n.logListeners()
	return nil
}

// logListeners tells, above all, which port a listener has that took a free one.
func (n *Node) logListeners() {
	advertised := map[string]string{}
	for _, l := range n.advertised() {
		advertised[l.Name] = l.Address()
	}
	for _, l := range n.o.Config.Listeners {
		n.o.Log.Info().Str("listener", l.Name).Str("address", n.Addr(l.Name)).Str("advertised", advertised[l.Name]).Msg("listening")
	}
}

func (n *Node) accept(server *protocol.Server, name string, socket net.Listener) {
	if err := server.Serve(name, socket); err != nil && !errors.Is(err, protocol.ErrServerClosed) {
		n.o.Log.Error().Err(err).Str("listener", name).Msg("listener failed")
	}
}

// stopServing finishes what was accepted. Fetches that are parked are told to answer with what there is; requests that
// are parked at the coordinator are answered by its end, which must not wait for them.
func (n *Node) stopServing(ctx context.Context) error {
	done := make(chan error, 1)
	n.serving.Go(func() { done <- n.server.Shutdown(ctx) })
	n.replicas.Drain()
	n.groups.Close()
	n.txns.Close()
	err := <-done
	n.serving.Wait()
	return err
}

func (n *Node) serverOptions(listeners []config.Listener) protocol.Options {
	l := n.o.Config.Layers
	return protocol.Options{
		Security: n.securities(listeners),
		Clock:    n.o.Clock, Log: n.o.Log, Metrics: n.metrics.Network, Memory: n.o.Memory,
		MaxRequestBytes:    int(l.Int("socket.request.max.bytes")),
		MaxIdle:            millis(l.Int("connections.max.idle.ms")),
		SendBufferBytes:    bufferBytes(l, "socket.send.buffer.bytes"),
		ReceiveBufferBytes: bufferBytes(l, "socket.receive.buffer.bytes"),
	}
}

// connectionLimits are those of l. With several listeners, the brokers' own is not held up by clients.
func (n *Node) connectionLimits(l config.Layers) protocol.Limits {
	overrides, _ := l.ConnectionsPerIPOverrides() // config has checked it
	out := protocol.Limits{
		Descriptors: processDescriptors().connections,
		Connections: connectionBound(l.Int("max.connections")), PerIP: connectionBound(l.Int("max.connections.per.ip")), PerIPOverrides: overrides,
		CreationRate: connectionBound(l.Int("max.connection.creation.rate")), Listeners: map[string]protocol.ListenerLimits{},
	}
	for _, listener := range n.o.Config.Listeners {
		out.Listeners[listener.Name] = protocol.ListenerLimits{
			Connections: connectionBound(l.OfListener(listener.Name, "max.connections")), CreationRate: connectionBound(l.OfListener(listener.Name, "max.connection.creation.rate")),
		}
	}
	if len(n.o.Config.Listeners) > 1 {
		out.Protected = n.o.Config.InterBroker
	}
	return out
}

// connectionBound is Kafka's number as protocol.Limits has it.
func connectionBound(value int64) int {
	switch value {
	case math.MaxInt32:
		return 0
	case 0:
		return -1
	}
	return int(value)
}

// connectionLimiter gives the server the limits of the newest image.
type connectionLimiter struct {
	mu     sched.Mutex
	server *protocol.Server // nil before it serves
	at     int64            // the image's offset
}

// limitConnections follows the broker's dynamic configuration.
func (n *Node) limitConnections(im *metadata.Image) {
	l := &n.limiter
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.server != nil && im.Offset() >= l.at {
		l.at = im.Offset()
		l.server.Limit(n.connectionLimits(n.dynamicLayers(im)))
	}
}

func (n *Node) beginLimiting(server *protocol.Server) {
	n.limiter.mu.Lock()
	n.limiter.server = server
	n.limiter.mu.Unlock()
	n.limitConnections(n.controller.Image())
}

// bufferBytes is -1, the system's choice, unless somebody chose: Kafka's default of 100 KiB switches off the kernel's
// own tuning, which costs a fifth of the CPU of produces of 64 KiB (measured on loopback).
func bufferBytes(l config.Layers, name string) int {
	if _, chosen := l.Static[name]; !chosen {
		return -1
	}
	return int(l.Int(name))
}

// newBroker gathers what the handlers call.
func (n *Node) newBroker() *handlers.Broker {
	cfg := n.o.Config
	n.topics = handlers.NewCoordinatorTopics(n.controller, n.o.Clock, n.o.Log, coordinatorTopics(cfg.Layers)...)
	n.onStop("internal topics", func(context.Context) error { n.topics.Close(); return nil })
	n.producers = handlers.NewProducerIDs(n.controller, cfg.NodeID, n.brokerEpoch)
	n.onStop("producer ids", func(context.Context) error { n.producers.Close(); return nil })
	n.fetchSessions = handlers.NewFetchSessions(int(cfg.Int("max.incremental.fetch.session.cache.slots")), n.o.Memory.Sessions, n.o.Clock, n.newRand())
	return &handlers.Broker{
		NodeID: cfg.NodeID, ClusterID: n.clusterID, Identity: n.identity, Prober: &controller.Prober{Clock: n.o.Clock, Dial: n.probe, Image: n.controller.Image}, Image: n.controller.Image, Controller: n.controller,
		Clock: n.o.Clock, Log: n.o.Log, Static: cfg.Layers, Features: features(), Loggers: n.o.Loggers, LogDirs: n.store.Dirs,
		Groups: n.groups, Txns: n.txns, Markers: n.markers, Others: n.others, CoordinatorTopics: n.topics, Replicas: n.replicas, ProducerIDs: n.producers,
		FetchSessions: n.fetchSessions, Limits: limits(cfg.Layers),
		VerifyTransactions: n.verifiesTransactions, CheckSecurity: n.checkDynamicSecurity, Authorizer: n.authorizer, Changes: n.changes(),
	}
}

// newAuthorizer makes the authorizer of all this node's listeners, nil where everyone may do everything.
func newAuthorizer(o Options) *handlers.Authorizer {
	cfg := o.Config.Authorizer
	if cfg == nil {
		return nil
	}
	rules := acl.Rules{SuperUsers: map[string]bool{}, AllowWithoutACL: cfg.AllowWithoutACL}
	for _, name := range cfg.SuperUsers {
		rules.SuperUsers[name] = true
	}
	return handlers.NewAuthorizer(rules, o.Clock, o.Log)
}

// changes tells the log what clients administer, where audit.changes.enable has it so.
func (n *Node) changes() *handlers.Changes {
	if !n.o.Config.Bool("audit.changes.enable") {
		return nil
	}
	return handlers.NewChanges(n.o.Log)
}

func limits(l config.Layers) handlers.Limits {
	return handlers.Limits{FetchMaxBytes: int32(l.Int("fetch.max.bytes"))}
}

func features() []handlers.Feature {
	var out []handlers.Feature
	for _, f := range controller.DefaultFeatures() {
		out = append(out, handlers.Feature{Name: f.Name, Min: f.Min, Max: f.Max})
	}
	q := controller.QuorumFeature()
	return append(out, handlers.Feature{Name: q.Name, Min: q.Min, Max: q.Max, Level: q.Default})
}

// brokerEpoch is this broker's epoch as it is registered.
func (n *Node) brokerEpoch() int64 {
	if b := n.controller.Image().Broker(n.o.Config.NodeID); b != nil {
		return b.Epoch
	}
	return -1
}
