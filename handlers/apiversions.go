package handlers

import (
	"context"
	"regexp"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/protocol"
)

const apiVersionsKey = 18

// softwareName is what a client may call itself and its version (KIP-511).
var softwareName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?$`)

// ApiVersions announces the table and the features. A version that we do not know is answered in the form of version 0
// with the range of ApiVersions alone, so that the client can ask again.
func ApiVersions(b *Broker, _ context.Context, r *protocol.Request) {
	if r.Body == nil {
		r.Respond(b.unsupportedApiVersions())
		return
	}
	req := r.Body.(*kmsg.ApiVersionsRequest)
	resp := req.ResponseKind().(*kmsg.ApiVersionsResponse)
	if resp.ErrorCode = b.refuseClient(req, r.Version); resp.ErrorCode != 0 {
		r.Respond(resp)
		return
	}
	resp.ApiKeys = make([]kmsg.ApiVersionsResponseApiKey, 0, len(b.apis().list))
	for _, api := range b.apis().list {
		resp.ApiKeys = append(resp.ApiKeys, announce(api))
	}
	b.announceFeatures(resp, r.Version)
	r.Respond(resp)
}

// refuseClient checks who the client says it is (KIP-511) and whom it thinks it talks to (v5): cluster and node come
// together or not at all.
func (b *Broker) refuseClient(req *kmsg.ApiVersionsRequest, version int16) int16 {
	named := softwareName.MatchString(req.ClientSoftwareName) && softwareName.MatchString(req.ClientSoftwareVersion)
	switch {
	case version < 3:
		return 0
	case !named:
		return kerr.InvalidRequest.Code
	case version < 5 || req.ClusterID == nil && req.NodeID == -1:
		return 0
	case req.ClusterID == nil || req.NodeID == -1:
		return kerr.InvalidRequest.Code
	case *req.ClusterID != b.clusterID() || req.NodeID != b.NodeID:
		return kerr.RebootstrapRequired.Code
	}
	return 0
}

func announce(api API) kmsg.ApiVersionsResponseApiKey {
	key := kmsg.NewApiVersionsResponseApiKey()
	key.ApiKey, key.MinVersion, key.MaxVersion = api.Key, api.Min, api.Max
	return key
}

func (b *Broker) unsupportedApiVersions() *kmsg.ApiVersionsResponse {
	resp := kmsg.NewPtrApiVersionsResponse()
	resp.ErrorCode = kerr.UnsupportedVersion.Code
	resp.ApiKeys = append(resp.ApiKeys, announce(*b.apis().rows[apiVersionsKey]))
	return resp
}

// announceFeatures adds what this broker supports and what the cluster has finalized. Clients before v4 take a minimum
// of 0 for an error (KAFKA-17011), so such features are not shown to them.
func (b *Broker) announceFeatures(resp *kmsg.ApiVersionsResponse, version int16) {
	for _, f := range b.Features {
		if version < 4 && f.Min < 1 {
			continue
		}
		s := kmsg.NewApiVersionsResponseSupportedFeature()
		s.Name, s.MinVersion, s.MaxVersion = f.Name, f.Min, f.Max
		resp.SupportedFeatures = append(resp.SupportedFeatures, s)
	}
	im := b.Image()
	resp.FinalizedFeaturesEpoch = im.Offset()
	finalized := func(name string, level int16) {
		if level > 0 {
			f := kmsg.NewApiVersionsResponseFinalizedFeature()
			f.Name, f.MinVersionLevel, f.MaxVersionLevel = name, level, level
			resp.FinalizedFeatures = append(resp.FinalizedFeatures, f)
		}
	}
	for name, level := range im.Features() {
		finalized(name, level)
	}
	for _, f := range b.Features {
		finalized(f.Name, f.Level)
	}
}
