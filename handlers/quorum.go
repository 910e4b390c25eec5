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
	// Receive takes Raft's messages; respond is called once.
	Receive(req *protocol.RaftRequest, respond func(*protocol.RaftResponse))
	// Decide decides a forwarded request here. It may take as long as the request's timeout.
	Decide(ctx context.Context, p protocol.Principal, req kmsg.Request) (resp kmsg.Response, end int64, err error)
	// Form says what this node knows of the cluster.
	Form(req *protocol.FormRequest) *protocol.FormResponse
	// Join has the leader take a node in.
	Join(ctx context.Context, req *protocol.JoinRequest) (*protocol.JoinResponse, error)
}

// Raft hands messages of another node to the quorum.
func Raft(b *Broker, _ context.Context, r *protocol.Request) {
	b.Quorum.Receive(r.Body.(*protocol.RaftRequest), func(resp *protocol.RaftResponse) { r.Respond(resp) })
}

// Form answers a node that looks for its cluster.
func Form(b *Broker, _ context.Context, r *protocol.Request) {
	r.Respond(b.Quorum.Form(r.Body.(*protocol.FormRequest)))
}

// Join asks the leader to let a node in. Like Forward it runs on a goroutine of its own.
func Join(b *Broker, ctx context.Context, r *protocol.Request) {
	go func() {
		defer b.contain(r)
		resp, err := b.Quorum.Join(ctx, r.Body.(*protocol.JoinRequest))
		if err != nil {
			resp = &protocol.JoinResponse{ErrorCode: codeOf(err), LeaderID: -1}
		}
		r.Respond(resp)
	}()
}

// Forward decides a request for another node. It runs on a goroutine of its own, which ends with the answer: those of one
// connection must not wait for each other. The server bounds them as it bounds the requests in flight.
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
	resp, end, err := b.Quorum.Decide(ctx, protocol.Principal{Type: req.PrincipalType, Name: req.PrincipalName}, asked)
	if err != nil {
		r.Respond(&protocol.ForwardResponse{ErrorCode: codeOf(err)})
		return
	}
	resp.SetVersion(req.APIVersion)
	r.Respond(&protocol.ForwardResponse{EndOffset: end, Body: resp.AppendTo(nil)})
}
