package controller

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/protocol"
)

// Links is Forwarder over a connection to each controller, dialled when needed.
type Links struct {
	clusterID string
	links     *protocol.Links
}

// NewLinks makes links to where address says controllers are.
func NewLinks(clusterID string, address func(id int32) (string, bool), o protocol.ClientOptions) *Links {
	return &Links{clusterID: clusterID, links: protocol.NewLinks(address, o)}
}

// Forward is Forwarder's. An error that wraps a kerr.Error is the leader's, any other the network's.
//
// A leader that was too busy to make sure of this node when the connection began refuses what comes over it: once,
// another is tried.
func (l *Links) Forward(ctx context.Context, leader int32, p protocol.Principal, req kmsg.Request) (kmsg.Response, int64, error) {
	asked := &protocol.ForwardRequest{
		ClusterID: l.clusterID, PrincipalType: p.Type, PrincipalName: p.Name,
		APIKey: req.Key(), APIVersion: req.GetVersion(), Body: req.AppendTo(nil),
	}
	forwarded, err := l.call(ctx, leader, asked)
	if err == nil && forwarded.ErrorCode == kerr.ClusterAuthorizationFailed.Code {
		l.links.Reset(leader)
		forwarded, err = l.call(ctx, leader, asked)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("forwarding to controller %d: %w", leader, err)
	}
	if forwarded.ErrorCode != 0 {
		return nil, 0, fmt.Errorf("controller %d: %w", leader, kerr.ErrorForCode(forwarded.ErrorCode))
	}
	resp := req.ResponseKind()
	resp.SetVersion(req.GetVersion())
	if err := resp.ReadFrom(forwarded.Body); err != nil {
		return nil, 0, fmt.Errorf("answer of controller %d: %w", leader, err)
	}
	return resp, forwarded.EndOffset, nil
}

func (l *Links) call(ctx context.Context, leader int32, req *protocol.ForwardRequest) (*protocol.ForwardResponse, error) {
	answer, err := l.links.Call(ctx, leader, req)
	if err != nil {
		return nil, err
	}
	return answer.(*protocol.ForwardResponse), nil
}

// Close ends the connections; what is under way fails.
func (l *Links) Close() { l.links.Close() }
