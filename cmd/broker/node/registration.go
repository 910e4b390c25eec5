package node

import (
	"context"
	"errors"
	"fmt"

	"grete/cluster/controller"
	"grete/cluster/metadata"
	"grete/protocol"
)

// register makes this broker known to the controller; from then on it is given partitions.
func (n *Node) register(ctx context.Context) error {
	cfg := n.o.Config
	n.lifecycle = controller.NewLifecycle(controller.LifecycleOptions{
		Controller: n.controller, Principal: protocol.Principal{Type: "User", Name: "ANONYMOUS"},
		Clock: n.o.Clock, Logger: n.o.Log, NodeID: cfg.NodeID, ClusterID: n.clusterID,
		Incarnation: n.incarnation, StoppedEpoch: n.store.StoppedEpoch(),
		Endpoints: n.endpoints(), Rack: cfg.Text("broker.rack"), LogDirs: n.directoryIDs(true), OfflineDirs: func() []metadata.UUID { return n.directoryIDs(false) },
		IntervalMs: cfg.Int("broker.heartbeat.interval.ms"), LeaderGone: n.controller.LeaderGone, Hopeless: n.controller.Raft().MajorityGone, Registered: n.listen,
	})
	n.leaversTo.Store(n.lifecycle)
	ctx, cancel := context.WithTimeout(ctx, millis(cfg.Int("initial.broker.registration.timeout.ms")))
	defer cancel()
	if err := n.lifecycle.Start(ctx); errors.Is(err, errListener) {
		return err
	} else if err != nil {
		return fmt.Errorf("the controller does not let this broker in: %w", err)
	}
	n.registered.Store(true)
	n.onStop("registration", func(context.Context) error { n.lifecycle.Stop(); return nil })
	n.replicas.SetAsideStrays()
	n.replicas.Start()
	n.onStop("replication", func(context.Context) error { n.replicas.Stop(); return nil })
	return nil
}

func (n *Node) endpoints() []metadata.Endpoint {
	var out []metadata.Endpoint
	for _, l := range n.advertised() {
		out = append(out, metadata.Endpoint{Listener: l.Name, Host: l.Host, Port: l.Port, SecurityProtocol: int16(l.Protocol)})
	}
	return out
}

// directoryIDs are those of the directories that serve, or of those that do not.
func (n *Node) directoryIDs(online bool) []metadata.UUID {
	var out []metadata.UUID
	for _, id := range n.store.DirectoryIDs(online) {
		if id != metadata.ZeroUUID {
			out = append(out, id)
		}
	}
	return out
}
