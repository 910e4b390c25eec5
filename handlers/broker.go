package handlers

import (
	"context"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster/metadata"
	"grete/cluster/replica"
	"grete/coordinator/group"
	"grete/coordinator/txn"
	"grete/internal/clock"
	"grete/internal/config"
	"grete/logstore"
	"grete/protocol"
)

// Controller runs requests that change cluster metadata, here or on the node that leads the quorum. It returns once
// this broker's image has reached the change.
type Controller interface {
	Do(ctx context.Context, p protocol.Principal, req kmsg.Request) (kmsg.Response, error)
}

// Broker is what handlers call; cmd/broker fills it.
type Broker struct {
	NodeID     int32
	ClusterID  string
	Image      func() *metadata.Image
	Controller Controller
	Clock      clock.Clock
	Log        zerolog.Logger

	// ForControllers makes this the handler of a controller listener, which serves Quorum to other nodes.
	ForControllers bool
	Quorum         Quorum
	Prober         Prober   // answers the controller that asks whether another broker is silent
	Identity       Identity // of this node and of others; nil: followers are taken at their word

	// Static is what the broker was started with; config adds the dynamic values.
	Static   config.Layers
	Features []Feature // supported
	Loggers  Loggers
	LogDirs  func() []logstore.DirInfo

	// Groups and Txns are the coordinators; CoordinatorTopics makes their topics when a client first needs them.
	Groups            *group.Service
	Txns              *txn.Service
	Markers           *Markers
	Others            Others
	CoordinatorTopics *CoordinatorTopics

	Replicas      *replica.Manager
	FetchSessions *FetchSessions
	ProducerIDs   *ProducerIDs
	Limits        Limits
	// Authorizer decides what clients may do; nil: everything.
	Authorizer *Authorizer
	// Changes tells the log what clients administer; nil: it does not.
	Changes *Changes
	// VerifyTransactions is transaction.partition.verification.enable as it is now.
	VerifyTransactions func() bool
	// CheckSecurity says why a dynamic configuration of this broker cannot be put in force; nil: nothing is in its way.
	CheckSecurity func(config.Layers) error
}

// clusterID is the id of the cluster, "" while a controller listener knows none.
func (b *Broker) clusterID() string {
	if b.ForControllers {
		return b.Quorum.ClusterID()
	}
	return b.ClusterID
}

// Limits are the broker's settings that handlers apply themselves.
type Limits struct {
	FetchMaxBytes int32 // fetch.max.bytes
}
