// Package controller is the active controller of the cluster and the broker's side of it: requests that change
// metadata are decided one after the other against an image (pure functions), appended to the metadata log, applied on
// every broker, and answered once this broker's image has them.
package controller

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster/metadata"
	"grete/cluster/raftlog"
	"grete/internal/clock"
	"grete/internal/config"
	"grete/internal/vfs"
	"grete/logstore"
	"grete/protocol"
)

// LogID is the metadata log, which belongs to the topic id metadata.MetadataTopicID.
var LogID = logstore.ID{Topic: "__cluster_metadata", Partition: 0}

// LogConfig is how the metadata log is to be created: nothing expires, snapshots alone let go of it.
func LogConfig(defaults logstore.Config) logstore.Config {
	c := defaults
	c.RetentionMs, c.RetentionBytes = -1, -1
	c.Delete, c.Compact = false, false
	c.SegmentBytes, c.MaxMessageBytes = segmentBytes, maxBatchBytes
	c.FlushMessages, c.FlushMs = 0, 0 // raftlog flushes
	return c
}

// Feature is a feature that this software knows: the levels it can run at, and the one that a new cluster gets.
type Feature struct {
	Name              string
	Min, Max, Default int16
}

// Levels of metadata.version: what Kafka 4.4 knows and finalizes (4.4-IV2).
const (
	minMetadataVersion = 7
	maxMetadataVersion = 33
)

// DefaultFeatures are the features that this software serves. Those that belong to work still to come are left out, so
// that no client relies on them.
func DefaultFeatures() []Feature {
	return []Feature{
		{Name: metadataVersionFeature, Min: minMetadataVersion, Max: maxMetadataVersion, Default: maxMetadataVersion},
		{Name: groupVersionFeature, Min: 0, Max: 1, Default: 1},       // KIP-848
		{Name: transactionVersionFeature, Min: 0, Max: 2, Default: 2}, // KIP-890 part 2
		{Name: elrVersionFeature, Min: 0, Max: 1, Default: 1},         // KIP-966
	}
}

const (
	metadataVersionFeature    = "metadata.version"
	groupVersionFeature       = "group.version"
	transactionVersionFeature = "transaction.version"
	elrVersionFeature         = "eligible.leader.replicas.version"
	quorumFeature             = "kraft.version"
)

// QuorumFeature is kraft.version, which belongs to the quorum and not to the metadata: voters always come and go at
// runtime (KIP-853), so that its level is 1 from the start, and stays.
func QuorumFeature() Feature { return Feature{Name: quorumFeature, Min: 0, Max: 1, Default: 1} }

// Options describe a node.
type Options struct {
	NodeID    int32
	ClusterID string
	Voters    []int32     // of a new metadata log; nil: this node alone
	Log       raftlog.Log // the metadata log, created with LogID and LogConfig
	FS        vfs.FS
	Dir       string            // of the metadata log's partition
	Bootstrap []metadata.Record // what a new cluster begins with, beside its features
	Clock     clock.Clock
	Rand      *rand.Rand // used by the node alone from now on
	Logger    zerolog.Logger
	Transport raftlog.Transport
	Forward   Forwarder // to the leader, when another node leads; nil: there are no other nodes
	// Probe connects to an address and lets go: nil when somebody listens there. Nil: brokers are not probed.
	Probe func(ctx context.Context, address string) error
	// Witness asks broker witness whether b answers it; nil: there is nobody to ask, and silence proves nothing.
	Witness func(ctx context.Context, witness int32, b *metadata.Broker) (silent bool, err error)
	// Unseen says whether gossip sees no node of this id; nil: there is no gossip.
	Unseen   func(id int32) bool
	Config   config.Layers // what the broker was started with
	Features []Feature     // nil: DefaultFeatures
	// DirectoryID and Listeners are this node's, for a log that begins with it.
	DirectoryID metadata.UUID
	Listeners   []metadata.Endpoint
	// QuorumListener is the first of controller.listener.names: the nodes of the quorum use it among themselves.
	QuorumListener string

	// Answering is who answers where a member of the quorum is known to listen; nil: nobody can be asked.
	Answering func(ctx context.Context, m raftlog.Member) []Answer

	// OnImage is told every new image with what changed since old, in order, before Image returns it and before the
	// requests that caused it are answered. It runs on the applier's goroutine.
	OnImage func(old, new *metadata.Image, d metadata.Delta)
	// OnMembers is told the quorum's configuration when it has changed; it must not block.
	OnMembers func(raftlog.Members)
	// OnTimeout is told of every broker whose session ends without a heartbeat, on the decider's goroutine.
	OnTimeout func(broker int32)
	// OnFailure is told once that this node can no longer take part: a failed write, or a log it cannot apply.
	OnFailure func(error)
}

// Answer is what came back from an address of a member of the quorum: a node's, or the error of the attempt.
type Answer struct {
	Address     string
	NodeID      int32
	Incarnation metadata.UUID
	Err         error
}

// Bounds; those with Kafka's name in the comment are Kafka's.
const (
	queuedOps       = 1000     // requests waiting for the controller; more wait in Do
	opsPerBatch     = 100      // requests decided before their records are appended together
	bytesPerOp      = 8 << 20  // KafkaRaftClient.MAX_BATCH_SIZE_BYTES; a batch takes no further request beyond it
	maxBatchBytes   = 64 << 20 // of one batch in the log
	segmentBytes    = 1 << 30  // metadata.log.segment.bytes; far above any batch, whatever log.segment.bytes is
	recordsPerOp    = 10_000   // QuorumController.MAX_RECORDS_PER_USER_OP
	partitionsPerOp = 10_000   // partitions that one request may create
	producerIDBlock = 1000     // ProducerIdsBlock.PRODUCER_ID_BLOCK_SIZE
	applyChunkBytes = 1 << 20
)

var (
	// ErrNotController: another node leads the quorum, or this one has just lost it. Kafka code 41.
	ErrNotController = errors.New("this node is not the active controller")
	// ErrStopped: the node is stopping, or has failed.
	ErrStopped = errors.New("the controller is stopped")
	// ErrUnsupported: no rule for this request.
	ErrUnsupported = errors.New("the controller does not serve this request")
)

// op is a request on its way through the controller.
type op struct {
	principal protocol.Principal
	request   kmsg.Request
	gone      <-chan struct{} // closed when nobody waits any more
	reply     chan<- outcome
}

type outcome struct {
	response kmsg.Response
	err      error
	end      int64 // from where on an image has what came of it
}

func (o *Options) fill() error {
	if o.Features == nil {
		o.Features = DefaultFeatures()
	}
	if o.Voters == nil {
		o.Voters = []int32{o.NodeID}
	}
	if o.OnImage == nil {
		o.OnImage = func(_, _ *metadata.Image, _ metadata.Delta) {}
	}
	if o.Unseen == nil {
		o.Unseen = func(int32) bool { return true }
	}
	if o.OnTimeout == nil {
		o.OnTimeout = func(int32) {}
	}
	if o.OnFailure == nil {
		o.OnFailure = func(error) {}
	}
	if o.Log == nil || o.FS == nil || o.Clock == nil || o.Rand == nil {
		return fmt.Errorf("controller: Log, FS, Clock and Rand are needed")
	}
	return nil
}
