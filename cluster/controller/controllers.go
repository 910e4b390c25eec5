package controller

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster/metadata"
)

// registerController is ClusterControlManager.registerController: a controller must be able to run at every finalized
// level.
func (v *view) registerController(req *kmsg.ControllerRegistrationRequest) ([]metadata.Record, *kmsg.ControllerRegistrationResponse) {
	resp := req.ResponseKind().(*kmsg.ControllerRegistrationResponse)
	r := &metadata.RegisterControllerRecord{ControllerID: req.ControllerID, Incarnation: req.IncarnationID}
	for _, l := range req.Listeners {
		r.Endpoints = append(r.Endpoints, metadata.Endpoint{Listener: l.Name, Host: l.Host, Port: l.Port, SecurityProtocol: l.SecurityProtocol})
	}
	for _, f := range req.Features {
		r.Features = append(r.Features, metadata.FeatureRange{Name: f.Name, Min: f.MinSupportedVersion, Max: f.MaxSupportedVersion})
	}
	for name, level := range v.image.Features() {
		i := slices.IndexFunc(r.Features, func(f metadata.FeatureRange) bool { return f.Name == name })
		if i < 0 || level < r.Features[i].Min || level > r.Features[i].Max {
			resp.ErrorCode, resp.ErrorMessage = refuse(kerr.UnsupportedVersion,
				"Unable to register because the controller does not support finalized version %d of %s.", level, name).fields()
			return nil, resp
		}
	}
	return []metadata.Record{r}, resp
}

// unregisterController is ClusterControlManager.unregisterController.
func (v *view) unregisterController(req *kmsg.UnregisterControllerRequest) ([]metadata.Record, *kmsg.UnregisterControllerResponse) {
	resp := req.ResponseKind().(*kmsg.UnregisterControllerResponse)
	switch {
	case v.image.Controller(req.ControllerID) == nil:
		resp.ErrorCode, resp.ErrorMessage = refuse(kerr.ControllerIDNotRegistered, "Controller ID %d is not currently registered.", req.ControllerID).fields()
	case req.ControllerID == v.nodeID:
		resp.ErrorCode, resp.ErrorMessage = refuse(kerr.InvalidRequest, "Controller cannot unregister itself while it is active.").fields()
	default:
		resp.ErrorMessage = kmsg.StringPtr("")
		return []metadata.Record{&metadata.UnregisterControllerRecord{ControllerID: req.ControllerID}}, resp
	}
	return nil, resp
}
