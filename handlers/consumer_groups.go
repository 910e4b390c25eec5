package handlers

import (
	"context"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/protocol"
)

// groupVersionFeature is the cluster feature that turns the consumer protocol on.
const groupVersionFeature = "group.version"

// servesConsumerGroups tells whether the protocol of KIP-848 is on (group.version,
// group.coordinator.rebalance.protocols).
func (b *Broker) servesConsumerGroups() bool {
	return b.Image().Feature(groupVersionFeature) >= 1 &&
		slices.Contains(b.Static.List("group.coordinator.rebalance.protocols"), "consumer")
}

// ConsumerGroupHeartbeat serves versions 0–1 (KIP-848).
func ConsumerGroupHeartbeat(b *Broker, _ context.Context, r *protocol.Request) {
	respond := func(resp *kmsg.ConsumerGroupHeartbeatResponse) {
		resp.Version = r.Version
		r.Respond(resp)
	}
	if !b.servesConsumerGroups() {
		respond(&kmsg.ConsumerGroupHeartbeatResponse{ErrorCode: kerr.UnsupportedVersion.Code, ErrorMessage: unsupportedText()})
		return
	}
	b.Groups.ConsumerGroupHeartbeat(b.groupContext(r), r.Body.(*kmsg.ConsumerGroupHeartbeatRequest), respond)
}

// ConsumerGroupDescribe serves versions 0–1.
func ConsumerGroupDescribe(b *Broker, _ context.Context, r *protocol.Request) {
	req := r.Body.(*kmsg.ConsumerGroupDescribeRequest)
	all := newGather(len(req.Groups), func(groups []kmsg.ConsumerGroupDescribeResponseGroup) {
		resp := kmsg.NewPtrConsumerGroupDescribeResponse()
		resp.Version, resp.Groups = r.Version, groups
		r.Respond(resp)
	})
	for i, id := range req.Groups {
		if !b.servesConsumerGroups() {
			g := kmsg.NewConsumerGroupDescribeResponseGroup()
			g.Group, g.ErrorCode, g.ErrorMessage = id, kerr.UnsupportedVersion.Code, unsupportedText()
			all.set(i, g)
			continue
		}
		b.Groups.DescribeConsumerGroup(id, func(g kmsg.ConsumerGroupDescribeResponseGroup) {
			if req.IncludeAuthorizedOperations && g.ErrorCode == 0 {
				g.AuthorizedOperations = b.groupPermissions(r, id)
			}
			all.set(i, g)
		})
	}
}

func unsupportedText() *string {
	text := "The version of API is not supported."
	return &text
}
