package handlers

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/coordinator/group"
	"grete/protocol"
)

// JoinGroup serves versions 0–9. It is answered when the rebalance completes.
func JoinGroup(b *Broker, _ context.Context, r *protocol.Request) {
	b.Groups.JoinGroup(b.groupContext(r), r.Body.(*kmsg.JoinGroupRequest), func(resp *kmsg.JoinGroupResponse) {
		resp.Version = r.Version
		r.Respond(resp)
	})
}

// SyncGroup serves versions 0–5. It is answered when the leader has assigned.
func SyncGroup(b *Broker, _ context.Context, r *protocol.Request) {
	b.Groups.SyncGroup(r.Body.(*kmsg.SyncGroupRequest), func(resp *kmsg.SyncGroupResponse) {
		resp.Version = r.Version
		r.Respond(resp)
	})
}

// Heartbeat serves versions 0–4.
func Heartbeat(b *Broker, _ context.Context, r *protocol.Request) {
	b.Groups.Heartbeat(r.Body.(*kmsg.HeartbeatRequest), func(code int16) {
		resp := kmsg.NewPtrHeartbeatResponse()
		resp.Version, resp.ErrorCode = r.Version, code
		r.Respond(resp)
	})
}

// LeaveGroup serves versions 0–5: up to 2 one member leaves, and its error is the request's.
func LeaveGroup(b *Broker, _ context.Context, r *protocol.Request) {
	req := r.Body.(*kmsg.LeaveGroupRequest)
	if r.Version < 3 {
		m := kmsg.NewLeaveGroupRequestMember()
		m.MemberID = req.MemberID
		req.Members = []kmsg.LeaveGroupRequestMember{m}
	}
	b.Groups.LeaveGroup(req, func(resp *kmsg.LeaveGroupResponse) {
		resp.Version = r.Version
		if r.Version < 3 && resp.ErrorCode == 0 && len(resp.Members) == 1 {
			resp.ErrorCode = resp.Members[0].ErrorCode
		}
		r.Respond(resp)
	})
}

func (b *Broker) groupContext(r *protocol.Request) group.RequestContext {
	rc := group.RequestContext{Version: r.Version, ClientHost: javaHost(r.Conn.RemoteAddr)}
	if r.ClientID != nil {
		rc.ClientID = *r.ClientID
	}
	if b.Authorizer != nil {
		rc.Describable = func(topic string) bool { return b.allows(r, kmsg.ACLOperationDescribe, topicResource(topic)) }
	}
	return rc
}

// javaHost is an address as Java's InetAddress without a name prints it, which is what tools show as the host of a
// member: a slash, and all eight groups of an IPv6 address.
func javaHost(addr net.Addr) string {
	ap, err := netip.ParseAddrPort(addr.String())
	if err != nil {
		return "/" + addr.String()
	}
	ip := ap.Addr().Unmap()
	if ip.Is4() {
		return "/" + ip.String()
	}
	b := ip.As16()
	groups := make([]string, 8)
	for i := range groups {
		groups[i] = fmt.Sprintf("%x", uint16(b[2*i])<<8|uint16(b[2*i+1]))
	}
	host := "/" + strings.Join(groups, ":")
	if zone := ip.Zone(); zone != "" {
		host += "%" + zone
	}
	return host
}
