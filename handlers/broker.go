package handlers

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster/metadata"
	"grete/cluster/replica"
	"grete/coordinator/group"
	"grete/internal/clock"
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

	// Groups is the group coordinator; CoordinatorTopics makes __consumer_offsets when a client first needs it.
	Groups            *group.Service
	CoordinatorTopics *CoordinatorTopics

	Replicas      *replica.Manager
	FetchSessions *FetchSessions
	ProducerIDs   *ProducerIDs
	Limits        Limits
}

// Limits are the broker's settings that handlers apply themselves.
type Limits struct {
	FetchMaxBytes int32 // fetch.max.bytes
}
