package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"path"
	"strconv"
	"strings"

	"grete/cluster"
	"grete/cluster/controller"
	"grete/cluster/metadata"
	"grete/cluster/raftlog"
	"grete/internal/uuid"
	"grete/logstore"
	"grete/protocol"
)

// errNoMetadataLog: a node that has been part of a cluster has lost its vote with its metadata log.
var errNoMetadataLog = errors.New("the metadata log is gone")

// seeds are where others may know the cluster: controller.quorum.voters, by id, else
// controller.quorum.bootstrap.servers, in their order, else what gossip has found. None for a node that is alone.
func (n *Node) seeds() []cluster.Seed {
	if n.o.Config.Finds() {
		return n.found()
	}
	var out []cluster.Seed
	for _, v := range n.o.Config.Voters {
		out = append(out, cluster.Seed{NodeID: v.ID, Address: v.Address})
	}
	if len(out) == 0 {
		for _, address := range n.o.Config.BootstrapServers {
			out = append(out, cluster.Seed{NodeID: cluster.AnyNode, Address: address})
		}
	}
	if len(out) == 1 && n.o.Config.IsController && (out[0].NodeID == n.o.Config.NodeID || n.isOwnAddress(out[0].Address)) {
		return nil
	}
	return out
}

func (n *Node) isOwnAddress(address string) bool {
	host, port, _ := net.SplitHostPort(address)
	for _, l := range n.controllerEndpoints() {
		local := host == "localhost" || host == "127.0.0.1"
		if port == strconv.Itoa(int(l.Port)) && (host == l.Host || local && (l.Host == "localhost" || l.Host == "127.0.0.1")) {
			return true
		}
	}
	return false
}

// neededToForm is how many of the seeds must be there before a cluster is begun: most, or all that gossip is to find.
func (n *Node) neededToForm() int {
	switch {
	case !n.o.Config.Finds():
		return len(n.seeds())/2 + 1
	case n.o.Config.Gossip.Expect == 0:
		return cluster.Never
	}
	return int(n.o.Config.Gossip.Expect)
}

// controllerEndpoints are this node's controller listeners as other nodes reach them.
func (n *Node) controllerEndpoints() []metadata.Endpoint {
	var out []metadata.Endpoint
	for _, l := range n.o.Config.ControllersAdvertised(n.o.Config.Hostname) {
		if l.Port == 0 {
			l.Port = n.sockets.port(l.Name)
		}
		out = append(out, metadata.Endpoint{Listener: l.Name, Host: l.Host, Port: l.Port, SecurityProtocol: int16(l.Protocol)})
	}
	return out
}

// joinCluster serves the controller listeners and finds out which cluster this node is of, and whether it begins it.
func (n *Node) joinCluster(ctx context.Context) error {
	n.newIdentity()
	n.quorum = &quorum{Knowledge: cluster.NewKnowledge(n.o.Config.NodeID, n.incarnation, n.seeds, n.o.Clock)}
	n.quorum.Knowledge.Expect = n.o.Config.Gossip.Expect
	n.metadataDir = n.findMetadataDir()
	if err := n.startGossip(ctx); err != nil {
		return err
	}
	if len(n.o.Config.Controllers) > 0 {
		n.serveControllers()
	}
	n.awaitSeeds(ctx)
	n.clusterID, n.begins = n.o.Config.ClusterID, !n.o.Config.Finds() && len(n.seeds()) == 0
	if n.begins {
		return nil
	}
	known, err := n.clusterOnDisk()
	if err == nil {
		err = n.checkMetadataLog(known)
	}
	if err != nil {
		return err
	}
	if known == "" {
		known = n.clusterID
	}
	if err := n.checkDoubtful(ctx, known); err != nil {
		return err
	}
	n.clusterID, n.begins, err = cluster.Form(ctx, cluster.FormOptions{
		NodeID: n.o.Config.NodeID, Incarnation: n.incarnation, ClusterID: known, Seeds: n.seeds, Needed: n.neededToForm(), Ask: n.askSeed, Own: n.quorum.Knowledge,
		NewID: n.newClusterID, Unjoined: n.unjoined, Waiting: n.progress.waits, Clock: n.o.Clock, Log: n.o.Log,
	})
	if n.begins {
		n.o.Log.Info().Str("cluster", n.clusterID).Msg("this node begins the cluster, and votes in its metadata quorum")
	}
	return err
}

// findMetadataDir is the log directory that has the metadata log, else the one where it is to be.
func (n *Node) findMetadataDir() string {
	for _, dir := range n.o.Config.LogDirs {
		if begun, err := raftlog.Begun(n.o.FS, metadataLogDir(dir)); begun || errors.Is(err, raftlog.ErrDamaged) {
			return dir
		}
	}
	return n.o.Config.MetadataDir
}

func metadataLogDir(dir string) string { return path.Join(dir, controller.LogID.String()) }

// checkMetadataLog refuses a directory that has been of a cluster, and whose metadata log is gone: with its vote
// forgotten the node could help to elect two leaders.
func (n *Node) checkMetadataLog(clusterID string) error {
	meta, err := logstore.ReadMetaProperties(n.o.FS, n.metadataDir)
	if err != nil || meta.DirectoryID == metadata.ZeroUUID {
		return nil // not of a cluster yet; or PrepareDirs says what is wrong with it
	}
	if begun, err := raftlog.Begun(n.o.FS, metadataLogDir(n.metadataDir)); begun || err != nil {
		return nil // likewise
	}
	return fmt.Errorf("%w: %s is of cluster %s, and has none; bring it back, or take the node out of the voters (kafka-metadata-quorum remove-controller "+
		"--controller-id %d --controller-directory-id %v) and remove meta.properties", errNoMetadataLog, n.metadataDir, clusterID, n.o.Config.NodeID, metadata.UUID(meta.DirectoryID))
}

// clusterOnDisk is the id in the first directory that has one, "" when none has. Contradictions among directories are
// the store's to find.
func (n *Node) clusterOnDisk() (string, error) {
	for _, dir := range n.o.Config.LogDirs {
		m, err := logstore.ReadMetaProperties(n.o.FS, dir)
		switch {
		case err == nil:
			return m.ClusterID, nil
		case errors.Is(err, logstore.ErrCorrupt):
			return "", fmt.Errorf("%s: %w", dir, err)
		case !errors.Is(err, fs.ErrNotExist):
			n.o.Log.Warn().Err(err).Str("dir", dir).Msg("whose directory this is cannot be read")
		}
	}
	return "", nil
}

func (n *Node) newClusterID() string {
	return uuid.New(n.random).String()
}

// beginMetadataLog is told the id of each new directory: in that of the metadata log a quorum begins with this node, or
// the node waits to be made a member of one.
func (n *Node) beginMetadataLog(dir string, id [16]byte) error {
	if dir != n.metadataDir {
		return nil
	}
	var members raftlog.Members
	if n.begins {
		members = raftlog.Members{{NodeID: n.o.Config.NodeID, DirectoryID: id, Voter: true, Listeners: n.controllerEndpoints()}}
	}
	return raftlog.Begin(n.o.FS, metadataLogDir(dir), members)
}

// directoryID is that of the metadata log.
func (n *Node) directoryID() metadata.UUID {
	for _, dir := range n.store.Dirs() {
		if dir.Path == n.metadataDir {
			return dir.DirectoryID
		}
	}
	return metadata.ZeroUUID
}

// askSeed asks over a connection of its own: it happens a few times, at the start.
func (n *Node) askSeed(ctx context.Context, address string, req *protocol.FormRequest) (*protocol.FormResponse, error) {
	resp, err := n.callOnce(ctx, address, n.clientOptions(n.o.Config.Quorum.Name), req)
	if err != nil {
		return nil, err
	}
	return resp.(*protocol.FormResponse), nil
}

// clientOptions are those of connections to other nodes' listeners of that name.
func (n *Node) clientOptions(listener string) protocol.ClientOptions {
	return protocol.ClientOptions{
		ClientID: fmt.Sprintf("node-%d", n.o.Config.NodeID), MaxResponseBytes: int(n.o.Config.Int("socket.request.max.bytes")),
		Dial: n.dialer(listener), Login: n.logins[listener], Clock: n.o.Clock,
	}
}

// quorumListener is the name that controller listeners have among the nodes of the quorum.
func (n *Node) quorumListener() string {
	if names := n.o.Config.List("controller.listener.names"); len(names) > 0 {
		return strings.ToUpper(names[0])
	}
	return ""
}
