package handlers

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/protocol"
)

// Endpoint types of DescribeCluster (KIP-919).
const (
	brokerEndpoints     = 1
	controllerEndpoints = 2
)

// DescribeCluster names the brokers at the client's listener.
func DescribeCluster(b *Broker, _ context.Context, r *protocol.Request) {
	req := r.Body.(*kmsg.DescribeClusterRequest)
	resp := req.ResponseKind().(*kmsg.DescribeClusterResponse)
	if code, message := checkEndpointType(req, r.Version); code != 0 {
		resp.ErrorCode, resp.ErrorMessage, resp.ControllerID = code, &message, noLeader
		r.Respond(resp)
		return
	}
	im := b.Image()
	resp.ClusterID, resp.ControllerID = b.ClusterID, controllerID(im)
	for _, n := range nodes(im, r.Conn.Listener, req.IncludeFencedBrokers) {
		broker := kmsg.NewDescribeClusterResponseBroker()
		broker.NodeID, broker.Host, broker.Port, broker.Rack, broker.IsFenced = n.id, n.host, n.port, n.rack, n.fenced
		resp.Brokers = append(resp.Brokers, broker)
	}
	if req.IncludeClusterAuthorizedOperations {
		resp.ClusterAuthorizedOperations = clusterOperations
	}
	r.Respond(resp)
}

func checkEndpointType(req *kmsg.DescribeClusterRequest, version int16) (code int16, message string) {
	switch {
	case version < 1 || req.EndpointType == brokerEndpoints:
		return 0, ""
	case req.EndpointType == controllerEndpoints:
		return kerr.MismatchedEndpointType.Code,
			"The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER"
	}
	return kerr.UnsupportedEndpointType.Code, fmt.Sprintf("Unsupported endpoint type %d", req.EndpointType)
}
