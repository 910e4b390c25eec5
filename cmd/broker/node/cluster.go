package node

import (
	"context"
	"path"

	"grete/cluster/controller"
	"grete/cluster/metadata"
)

// startController opens the metadata log and joins its quorum, of which this node is the only voter.
func (n *Node) startController(ctx context.Context) error {
	cfg := n.o.Config
	log, err := n.store.Create(controller.LogID, metadata.MetadataTopicID, controller.LogConfig(n.logDefaults))
	if err != nil {
		return err
	}
	n.controller, err = controller.Start(ctx, controller.Options{
		NodeID: cfg.NodeID, ClusterID: n.clusterID, Log: log, FS: n.o.FS, Dir: path.Join(log.Dir(), controller.LogID.String()),
		Clock: n.o.Clock, Rand: n.newRand(), Logger: n.o.Log, Config: cfg.Layers,
		OnImage: n.applyImage, OnFailure: n.fail,
	})
	if err != nil {
		return err
	}
	n.onStop("controller", n.controller.Stop)
	return nil
}
