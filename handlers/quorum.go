package handlers

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/protocol"
)

// Quorum is this node's part in the metadata quorum, for the requests of other nodes.
type Quorum interface {
	// ClusterID is "" until the cluster is formed.
	ClusterID() string
	// Receive takes Raft's messages; respond is called once. Of a sender that is not proven to be who it says, only
	// what cannot harm.
	Receive(req *protocol.RaftRequest, proven bool, respond func(*protocol.RaftResponse))
	// Decide decides a forwarded request here. It may take as long as the request's timeout.
	Decide(ctx context.Context, p protocol.Principal, req kmsg.Request) (resp kmsg.Response, end int64, err error)
	// Form says what this node knows of the cluster.
	Form(req *protocol.FormRequest) *protocol.FormResponse
	// Join has the leader take a node in.
	Join(ctx context.Context, req *protocol.JoinRequest) (*protocol.JoinResponse, error)
}

// Raft hands messages of another node to the quorum.
func Raft(b *Broker, _ context.Context, r *protocol.Request) {
	req, peer := r.Body.(*protocol.RaftRequest), r.Conn.Peer()
	respond := func(resp *protocol.RaftResponse) {
		switch resp.ErrorCode {
		case kerr.InvalidRequest.Code, kerr.ClusterAuthorizationFailed.Code:
			r.Conn.Refused("messages of the quorum that this node does not send")
		}
		r.Respond(resp)
	}
	if peer == nil || peer.NodeID != req.From {
		r.Conn.Refused("messages of the quorum from somebody who is not their sender")
		r.Respond(&protocol.RaftResponse{ErrorCode: kerr.ClusterAuthorizationFailed.Code})
		return
	}
	if !b.mayEnter(r) {
		r.Respond(&protocol.RaftResponse{ErrorCode: kerr.ClusterAuthorizationFailed.Code})
		return
	}
	b.Quorum.Receive(req, peer.Proven, respond)
}

// Form answers a node that looks for its cluster.
func Form(b *Broker, _ context.Context, r *protocol.Request) {
	r.Respond(b.Quorum.Form(r.Body.(*protocol.FormRequest)))
}

// Join asks the leader to let a node in. Like Forward it runs on a goroutine of its own.
func Join(b *Broker, ctx context.Context, r *protocol.Request) {
	req := r.Body.(*protocol.JoinRequest)
	p := r.Conn.Peer()
	if p == nil || p.NodeID != req.NodeID {
		r.Conn.Refused("a node that does not join for itself")
		r.Respond(&protocol.JoinResponse{ErrorCode: kerr.ClusterAuthorizationFailed.Code, LeaderID: -1})
		return
	}
	if !b.mayEnter(r) {
		r.Respond(&protocol.JoinResponse{ErrorCode: kerr.ClusterAuthorizationFailed.Code, LeaderID: -1})
		return
	}
	req.Emptied = req.Emptied && p.Proven && p.Incarnation == req.Incarnation
	go func() {
		defer b.contain(r)
		resp, err := b.Quorum.Join(ctx, req)
		if err != nil {
			resp = &protocol.JoinResponse{ErrorCode: codeOf(err), LeaderID: -1}
		}
		r.Respond(resp)
	}()
}

// Forward decides a request for another node. It runs on a goroutine of its own, which ends with the answer: those of
// one connection must not wait for each other. The server bounds them as it bounds the requests in flight.
func Forward(b *Broker, ctx context.Context, r *protocol.Request) {
	go forward(b, ctx, r)
}

func forward(b *Broker, ctx context.Context, r *protocol.Request) {
	defer b.contain(r)
	req := r.Body.(*protocol.ForwardRequest)
	if req.ClusterID != b.Quorum.ClusterID() {
		r.Respond(&protocol.ForwardResponse{ErrorCode: kerr.InconsistentClusterID.Code})
		return
	}
	asked, err := protocol.DecodeRequest(req.APIKey, req.APIVersion, req.Body)
	if err != nil {
		r.Respond(&protocol.ForwardResponse{ErrorCode: codeOf(err)})
		return
	}
	if !mayDecide(b.Image(), r.Conn.Peer(), asked) || !b.mayEnter(r) {
		r.Conn.Refused("a request among nodes from somebody who may not send it")
		r.Respond(&protocol.ForwardResponse{ErrorCode: kerr.ClusterAuthorizationFailed.Code})
		return
	}
	resp, end, err := b.Quorum.Decide(ctx, protocol.Principal{Type: req.PrincipalType, Name: req.PrincipalName}, asked)
	if err != nil {
		r.Respond(&protocol.ForwardResponse{ErrorCode: codeOf(err)})
		return
	}
	resp.SetVersion(req.APIVersion)
	r.Respond(&protocol.ForwardResponse{EndOffset: end, Body: resp.AppendTo(nil)})
}
