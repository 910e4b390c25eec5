package controller

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster/metadata"
)

// registerBroker is ClusterControlManager.registerBroker: a new incarnation gets a new epoch, the offset of its record,
// and starts fenced; the same incarnation amends its registration.
func (v *view) registerBroker(req *kmsg.BrokerRegistrationRequest) ([]metadata.Record, *kmsg.BrokerRegistrationResponse) {
	resp := req.ResponseKind().(*kmsg.BrokerRegistrationResponse)
	old := v.image.Broker(req.BrokerID)
	same := old != nil && old.Incarnation == req.IncarnationID
	if code := v.checkRegistration(req, old, same); code != nil {
		resp.ErrorCode = code.Code
		return nil, resp
	}
	r := registrationRecord(req)
	var records []metadata.Record
	if same {
		r.BrokerEpoch, r.Fenced, r.InControlledShutdown = old.Epoch, old.Fenced, old.InControlledShutdown
		r.CordonedLogDirs = old.CordonedLogDirs
	} else {
		records = v.endOfLife(req, old)
		r.BrokerEpoch, r.Fenced = v.nextOffset+int64(len(records)), true
		v.sessions.forget(req.BrokerID)
	}
	resp.BrokerEpoch = r.BrokerEpoch
	return append(records, r), resp
}

// endOfLife has others take over what the broker led in its life before. If that did not end cleanly its logs may lack
// what they had, so that it is not electable until it has caught up.
func (v *view) endOfLife(req *kmsg.BrokerRegistrationRequest, old *metadata.Broker) []metadata.Record {
	clean := req.Version >= 3 && old != nil && req.PreviousBrokerEpoch == old.Epoch
	if v.hasELR() && !clean {
		return v.withoutUnclean(req.BrokerID)
	}
	return v.withoutBroker(req.BrokerID)
}

func (v *view) checkRegistration(req *kmsg.BrokerRegistrationRequest, old *metadata.Broker, same bool) *kerr.Error {
	switch {
	case req.ClusterID != v.clusterID:
		return kerr.InconsistentClusterID
	case old != nil && !same && !old.Fenced && v.sessions.alive(req.BrokerID, v.now) && !v.lost(req.BrokerID):
		return kerr.DuplicateBrokerRegistration
	case req.IsMigratingZkBroker:
		return kerr.BrokerIDNotRegistered
	case !v.validDirs(req):
		return kerr.InvalidRegistration
	case !v.supportsFinalized(req):
		return kerr.UnsupportedVersion
	}
	return nil
}

// validDirs: log directory ids are there, not reserved, and of this broker alone.
func (v *view) validDirs(req *kmsg.BrokerRegistrationRequest) bool {
	seen := map[metadata.UUID]bool{}
	for _, id := range req.LogDirs {
		if metadata.UUID(id).Reserved() || seen[id] {
			return false
		}
		seen[id] = true
	}
	for b := range v.image.Brokers() {
		if b.ID != req.BrokerID && slices.ContainsFunc(b.LogDirs, func(id metadata.UUID) bool { return seen[id] }) {
			return false
		}
	}
	return len(req.LogDirs) > 0
}

// supportsFinalized: a broker must be able to run at every finalized level.
func (v *view) supportsFinalized(req *kmsg.BrokerRegistrationRequest) bool {
	for name, level := range v.image.Features() {
		i := slices.IndexFunc(req.Features, func(f kmsg.BrokerRegistrationRequestFeature) bool { return f.Name == name })
		if i < 0 || level < req.Features[i].MinSupportedVersion || level > req.Features[i].MaxSupportedVersion {
			return false
		}
	}
	return true
}

func registrationRecord(req *kmsg.BrokerRegistrationRequest) *metadata.RegisterBrokerRecord {
	r := &metadata.RegisterBrokerRecord{BrokerID: req.BrokerID, Incarnation: req.IncarnationID, Rack: req.Rack}
	for _, l := range req.Listeners {
		r.Endpoints = append(r.Endpoints, metadata.Endpoint{
			Listener: l.Name, Host: l.Host, Port: l.Port, SecurityProtocol: l.SecurityProtocol,
		})
	}
	for _, f := range req.Features {
		r.Features = append(r.Features, metadata.FeatureRange{Name: f.Name, Min: f.MinSupportedVersion, Max: f.MaxSupportedVersion})
	}
	for _, id := range req.LogDirs {
		r.LogDirs = append(r.LogDirs, id)
	}
	return r
}

func (v *view) unregisterBroker(req *kmsg.UnregisterBrokerRequest) ([]metadata.Record, *kmsg.UnregisterBrokerResponse) {
	resp := req.ResponseKind().(*kmsg.UnregisterBrokerResponse)
	b := v.image.Broker(req.BrokerID)
	if b == nil {
		resp.ErrorCode, resp.ErrorMessage = refuse(kerr.BrokerIDNotRegistered,
			"Broker ID %d is not currently registered", req.BrokerID).fields()
		return nil, resp
	}
	v.sessions.forget(req.BrokerID)
	records := v.withoutBroker(b.ID)
	return append(records, &metadata.UnregisterBrokerRecord{BrokerID: b.ID, BrokerEpoch: b.Epoch}), resp
}

// currentBroker is the registration that a broker's request speaks for, nil when its epoch is not the current one.
func (v *view) currentBroker(id int32, epoch int64) *metadata.Broker {
	if b := v.image.Broker(id); b != nil && b.Epoch == epoch {
		return b
	}
	return nil
}

// allocateProducerIDs hands out the next block (ProducerIdControlManager).
func (v *view) allocateProducerIDs(req *kmsg.AllocateProducerIDsRequest) ([]metadata.Record, *kmsg.AllocateProducerIDsResponse) {
	resp := req.ResponseKind().(*kmsg.AllocateProducerIDsResponse)
	first := v.image.NextProducerID()
	switch {
	case v.currentBroker(req.BrokerID, req.BrokerEpoch) == nil:
		resp.ErrorCode = kerr.StaleBrokerEpoch.Code
		return nil, resp
	case first+producerIDBlock < first:
		resp.ErrorCode = kerr.UnknownServerError.Code
		return nil, resp
	}
	resp.ProducerIDStart, resp.ProducerIDLen = first, producerIDBlock
	return []metadata.Record{&metadata.ProducerIDsRecord{
		BrokerID: req.BrokerID, BrokerEpoch: req.BrokerEpoch, Next: first + producerIDBlock,
	}}, resp
}
