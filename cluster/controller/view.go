package controller

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster/metadata"
	"grete/internal/config"
	"grete/protocol"
)

// view is all that a decision may know. Decisions change nothing but sessions, which are no part of the metadata.
type view struct {
	image     *metadata.Image
	index     *partitionIndex // of image
	now       time.Time
	rand      *rand.Rand
	config    config.Layers // with the image's dynamic values
	static    config.Layers
	nodeID    int32
	clusterID string
	features  []Feature
	sessions  *sessions
	tokens    *tokens
	principal protocol.Principal // who asks
	// lost says whether the connection that a broker's heartbeats came in on has ended.
	lost func(id int32) bool
	// nextOffset is the lowest offset that the decision's first record can have in the log. Broker epochs are made of
	// it: they need only rise. Entries of the Raft group's own may move the record up.
	nextOffset int64
}

func (d *decider) view(ahead int64) *view {
	o := &d.n.o
	im := d.pending
	return &view{
		image: im, index: d.index, now: o.Clock.Now(), rand: o.Rand, static: o.Config,
		config: o.Config.WithDynamic(im.Configs(metadata.BrokerResource, fmt.Sprint(o.NodeID)), im.Configs(metadata.BrokerResource, "")),
		nodeID: o.NodeID, clusterID: o.ClusterID, features: o.Features, sessions: d.sessions, tokens: d.tokens, lost: d.n.presence.lost,
		nextOffset: im.Offset() + 1 + ahead,
	}
}

// decide gives the records that a request makes, and its answer. An error means that there is no answer.
func (v *view) decide(req kmsg.Request) ([]metadata.Record, kmsg.Response, error) {
	switch r := req.(type) {
	case *kmsg.CreateTopicsRequest:
		return decided(v.createTopics(r))
	case *kmsg.DeleteTopicsRequest:
		return decided(v.deleteTopics(r))
	case *kmsg.CreatePartitionsRequest:
		return decided(v.createPartitions(r))
	case *kmsg.AlterConfigsRequest:
		return decided(v.alterConfigs(r))
	case *kmsg.IncrementalAlterConfigsRequest:
		return decided(v.incrementalAlterConfigs(r))
	case *kmsg.AllocateProducerIDsRequest:
		return decided(v.allocateProducerIDs(r))
	case *kmsg.BrokerRegistrationRequest:
		return decided(v.registerBroker(r))
	case *kmsg.BrokerHeartbeatRequest:
		return decided(v.heartbeat(r))
	case *kmsg.UnregisterBrokerRequest:
		return decided(v.unregisterBroker(r))
	case *kmsg.AlterPartitionRequest:
		return decided(v.alterPartition(r))
	case *kmsg.ElectLeadersRequest:
		return decided(v.electLeaders(r))
	case *kmsg.AlterPartitionAssignmentsRequest:
		return decided(v.alterReassignments(r))
	case *kmsg.ListPartitionReassignmentsRequest:
		return decided(v.listReassignments(r))
	case *kmsg.AssignReplicasToDirsRequest:
		return decided(v.assignDirs(r))
	case *kmsg.ControllerRegistrationRequest:
		return decided(v.registerController(r))
	case *kmsg.UnregisterControllerRequest:
		return decided(v.unregisterController(r))
	case *kmsg.AlterUserSCRAMCredentialsRequest:
		return decided(v.alterScram(r))
	case *kmsg.CreateDelegationTokenRequest:
		return decided(v.createToken(r))
	case *kmsg.RenewDelegationTokenRequest:
		return decided(v.renewToken(r))
	case *kmsg.ExpireDelegationTokenRequest:
		return decided(v.expireToken(r))
	case *kmsg.UpdateFeaturesRequest:
		return decided(v.updateFeatures(r))
	case *kmsg.CreateACLsRequest:
		return decided(v.createACLs(r))
	case *kmsg.DeleteACLsRequest:
		return decided(v.deleteACLs(r))
	}
	return nil, nil, fmt.Errorf("%w: key %d", ErrUnsupported, req.Key())
}

func decided[R kmsg.Response](records []metadata.Record, response R) ([]metadata.Record, kmsg.Response, error) {
	return records, response, nil
}

// fault is a refusal as a client sees it; message nil where Kafka sends none.
type fault struct {
	code    *kerr.Error
	message *string
}

func refuse(code *kerr.Error, format string, args ...any) *fault {
	message := fmt.Sprintf(format, args...)
	return &fault{code, &message}
}

// bare is a refusal without a message; standard one with the code's own.
func bare(code *kerr.Error) *fault     { return &fault{code, nil} }
func standard(code *kerr.Error) *fault { return &fault{code, &code.Description} }

// fields gives code and message for a response; nil is success.
func (f *fault) fields() (code int16, message *string) {
	if f == nil {
		return 0, nil
	}
	return f.code.Code, f.message
}

// tooLarge is Kafka's answer to a request that makes more than recordsPerOp records.
func tooLarge(records []metadata.Record) *fault {
	if len(records) <= recordsPerOp {
		return nil
	}
	return refuse(kerr.PolicyViolation, "Unable to perform excessively large batch operation.")
}
