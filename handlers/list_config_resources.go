package handlers

import (
	"context"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster/metadata"
	"grete/protocol"
)

// listable are the resource types of ListConfigResources v1 (KIP-1142), as Kafka lists them; version 0 knows client
// metrics only.
var listable = []metadata.ResourceType{
	metadata.GroupResource, metadata.ClientMetricsResource, metadata.BrokerLoggerResource, metadata.BrokerResource, metadata.TopicResource,
}

// ListConfigResources names what can be configured: topics and brokers that exist, and groups and subscriptions that
// have a configuration.
func ListConfigResources(b *Broker, _ context.Context, r *protocol.Request) {
	req := r.Body.(*kmsg.ListConfigResourcesRequest)
	resp := req.ResponseKind().(*kmsg.ListConfigResourcesResponse)
	types := listable
	switch {
	case r.Version == 0:
		types = []metadata.ResourceType{metadata.ClientMetricsResource}
	case len(req.ResourceTypes) > 0:
		types = nil
		for _, t := range req.ResourceTypes {
			if !slices.Contains(listable, metadata.ResourceType(t)) {
				resp.ErrorCode = kerr.UnsupportedVersion.Code
				r.Respond(resp)
				return
			}
			types = append(types, metadata.ResourceType(t))
		}
	}
	for _, t := range listable {
		if slices.Contains(types, t) {
			listResources(b.Image(), t, r.Conn.Listener, resp)
		}
	}
	r.Respond(resp)
}

func listResources(im *metadata.Image, t metadata.ResourceType, listener string, resp *kmsg.ListConfigResourcesResponse) {
	add := func(name string) {
		res := kmsg.NewListConfigResourcesResponseConfigResource()
		res.Name, res.Type = name, int8(t)
		resp.ConfigResources = append(resp.ConfigResources, res)
	}
	switch t {
	case metadata.TopicResource:
		for topic := range im.Topics() {
			add(topic.Name)
		}
	case metadata.BrokerResource, metadata.BrokerLoggerResource:
		for _, n := range nodes(im, listener, false) {
			add(strconv.Itoa(int(n.id)))
		}
	default:
		for res := range im.ConfigResources() {
			if res.Type == t {
				add(res.Name)
			}
		}
	}
}
