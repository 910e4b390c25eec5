package controller

import (
	"math"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster/metadata"
)

// heartbeat is BrokerHeartbeatManager: a fenced broker that has caught up is unfenced, one that wants to shut down
// first loses what it leads, then is told to go.
func (v *view) heartbeat(req *kmsg.BrokerHeartbeatRequest) ([]metadata.Record, *kmsg.BrokerHeartbeatResponse) {
	resp := req.ResponseKind().(*kmsg.BrokerHeartbeatResponse)
	b := v.currentBroker(req.BrokerID, req.BrokerEpoch)
	if b == nil {
		resp.ErrorCode = kerr.StaleBrokerEpoch.Code
		return nil, resp
	}
	v.sessions.heard(b.ID, v.now, req.CurrentMetadataOffset)
	resp.IsCaughtUp = req.CurrentMetadataOffset >= b.Epoch
	next := v.nextState(b, req)
	records := append(v.transition(b, next), v.dirsOffline(b, req.OfflineLogDirs)...)
	resp.IsFenced = next == fenced || next == shutDownNow
	resp.ShouldShutdown = next == shutDownNow
	return records, resp
}

// brokerState is Kafka's BrokerControlState.
type brokerState int

const (
	fenced brokerState = iota
	unfenced
	controlledShutdown
	shutDownNow
)

func stateOf(b *metadata.Broker) brokerState {
	switch {
	case b.Fenced:
		return fenced
	case b.InControlledShutdown:
		return controlledShutdown
	}
	return unfenced
}

func (v *view) nextState(b *metadata.Broker, req *kmsg.BrokerHeartbeatRequest) brokerState {
	state := stateOf(b)
	switch {
	case state == fenced && req.WantShutdown:
		return shutDownNow
	case state == fenced && !req.WantFence && req.CurrentMetadataOffset >= b.Epoch:
		return unfenced
	case state == unfenced && req.WantFence && req.WantShutdown:
		return shutDownNow
	case state == unfenced && req.WantFence:
		return fenced
	case state == unfenced && req.WantShutdown, state == controlledShutdown:
		if v.index.leads(b.ID) || state == controlledShutdown && !v.othersKnow(b.ID) {
			return controlledShutdown
		}
		return shutDownNow
	}
	return state
}

// othersKnow says whether every active broker has seen this one lose its partitions.
func (v *view) othersKnow(id int32) bool {
	lowest := int64(math.MaxInt64)
	for b := range v.image.Brokers() {
		if b.Active() {
			lowest = min(lowest, v.sessions.offset(b.ID))
		}
	}
	return v.sessions.leaving(id) <= lowest
}

func (v *view) transition(b *metadata.Broker, next brokerState) []metadata.Record {
	change := &metadata.BrokerRegistrationChangeRecord{BrokerID: b.ID, BrokerEpoch: b.Epoch}
	switch state := stateOf(b); {
	case state == next && next == controlledShutdown:
		records := v.withoutBroker(b.ID) // what was decided before may have been written in part
		if len(records) > 0 {
			v.sessions.leave(b.ID)
		}
		return records
	case state == next:
		return nil
	case next == unfenced:
		change.Fenced = -1
		return append([]metadata.Record{change}, v.withBroker(b.ID)...)
	case next == controlledShutdown:
		change.InControlledShutdown = 1
		v.sessions.leave(b.ID)
		return append([]metadata.Record{change}, v.withoutBroker(b.ID)...)
	case state != fenced:
		return v.fence(b)
	}
	return nil
}

// fence takes a broker out of service.
func (v *view) fence(b *metadata.Broker) []metadata.Record {
	return append(v.withoutBroker(b.ID), &metadata.BrokerRegistrationChangeRecord{BrokerID: b.ID, BrokerEpoch: b.Epoch, Fenced: 1})
}
