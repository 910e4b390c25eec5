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
	if b.refuseEndpointType(r, req, resp, brokerEndpoints) {
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
		resp.ClusterAuthorizedOperations = b.clusterPermissions(r)
	}
	r.Respond(resp)
}

// DescribeControllers is DescribeCluster on a controller listener: it names the controllers there (KIP-919).
func DescribeControllers(b *Broker, _ context.Context, r *protocol.Request) {
	req := r.Body.(*kmsg.DescribeClusterRequest)
	resp := req.ResponseKind().(*kmsg.DescribeClusterResponse)
	if b.refuseEndpointType(r, req, resp, controllerEndpoints) {
		return
	}
	im := b.Image()
	resp.EndpointType, resp.ClusterID, resp.ControllerID = controllerEndpoints, b.clusterID(), im.ControllerID()
	for c := range im.Controllers() {
		for _, e := range c.Endpoints {
			if e.Listener == r.Conn.Listener {
				node := kmsg.NewDescribeClusterResponseBroker()
				node.NodeID, node.Host, node.Port = c.ControllerID, e.Host, int32(e.Port)
				resp.Brokers = append(resp.Brokers, node)
			}
		}
	}
	if req.IncludeClusterAuthorizedOperations {
		resp.ClusterAuthorizedOperations = b.clusterPermissions(r)
	}
	r.Respond(resp)
}

// endpointTypes are written as Kafka's EndpointType.
var endpointTypes = map[int8]string{brokerEndpoints: "BROKER", controllerEndpoints: "CONTROLLER"}

// refuseEndpointType answers a client that asks for others than this listener has. Version 0, which cannot say so, asks
// for brokers.
func (b *Broker) refuseEndpointType(r *protocol.Request, req *kmsg.DescribeClusterRequest, resp *kmsg.DescribeClusterResponse, here int8) bool {
	asked := req.EndpointType
	if r.Version < 1 {
		asked = brokerEndpoints
	}
	if asked == here {
		return false
	}
	code, message := kerr.UnsupportedEndpointType.Code, fmt.Sprintf("Unsupported endpoint type %d", asked)
	if endpointTypes[asked] != "" {
		code = kerr.MismatchedEndpointType.Code
		message = fmt.Sprintf("The request was sent to an endpoint of type %s, but we wanted an endpoint of type %s", endpointTypes[here], endpointTypes[asked])
	}
	if r.Version < 1 {
		code = kerr.InvalidRequest.Code
	}
	resp.ErrorCode, resp.ErrorMessage, resp.ControllerID = code, &message, noLeader
	r.Respond(resp)
	return true
}
