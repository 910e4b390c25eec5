package handlers

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/protocol"
)

// Coordinator types of FindCoordinator (Kafka's CoordinatorType).
const (
	groupCoordinator       = 0
	transactionCoordinator = 1
	shareCoordinator       = 2
)

// invalidRequestMessage is Kafka's text of INVALID_REQUEST; a client shows it to people.
const invalidRequestMessage = "This most likely occurs because of a request being malformed by the client library or the message was sent to an incompatible broker. See the broker logs for more details."

// FindCoordinator serves versions 0–6: one key with single fields up to 3, a list of keys from 4 on.
func FindCoordinator(b *Broker, _ context.Context, r *protocol.Request) {
	req := r.Body.(*kmsg.FindCoordinatorRequest)
	resp := kmsg.NewPtrFindCoordinatorResponse()
	resp.Version = r.Version
	if r.Version < 4 {
		c := b.findCoordinator(r, req.CoordinatorType, req.CoordinatorKey)
		resp.ErrorCode, resp.ErrorMessage = c.ErrorCode, c.ErrorMessage
		resp.NodeID, resp.Host, resp.Port = c.NodeID, c.Host, c.Port
		resp.ErrorMessage = singleMessage(c)
		r.Respond(resp)
		return
	}
	for _, key := range req.CoordinatorKeys {
		resp.Coordinators = append(resp.Coordinators, b.findCoordinator(r, req.CoordinatorType, key))
	}
	r.Respond(resp)
}

// singleMessage: up to version 3 there is a message with every answer, the good one included.
func singleMessage(c kmsg.FindCoordinatorResponseCoordinator) *string {
	message := "NONE"
	switch c.ErrorCode {
	case 0:
	case kerr.CoordinatorNotAvailable.Code:
		message = "The coordinator is not available."
	case groupUnauthorized:
		message = groupUnauthorizedText
	case transactionUnauthorized:
		message = transactionUnauthorizedText
	case clusterUnauthorized:
		message = clusterUnauthorizedText
	default:
		message = invalidRequestMessage
	}
	return &message
}

// findCoordinator names the leader of the partition that key lives on. Share groups have no coordinator here yet: they
// get what Kafka answers without them.
func (b *Broker) findCoordinator(r *protocol.Request, kind int8, key string) kmsg.FindCoordinatorResponseCoordinator {
	c := kmsg.NewFindCoordinatorResponseCoordinator()
	c.Key, c.NodeID, c.Port, c.ErrorMessage = key, -1, -1, new(string)
	if code := b.refuseCoordinator(r, kind, key); code != 0 {
		c.ErrorCode = code
		if code == clusterUnauthorized {
			c.ErrorMessage = kmsg.StringPtr(clusterUnauthorizedText)
		}
		return c
	}
	switch kind {
	case groupCoordinator:
		b.fillCoordinator(&c, offsetsTopic, b.Groups.PartitionFor(key), r.Conn.Listener)
	case transactionCoordinator:
		b.fillCoordinator(&c, transactionsTopic, b.Txns.PartitionFor(key), r.Conn.Listener)
	case shareCoordinator:
		c.ErrorCode = kerr.InvalidRequest.Code
	default:
		message := invalidRequestMessage
		c.ErrorCode, c.ErrorMessage = kerr.InvalidRequest.Code, &message
	}
	return c
}

// refuseCoordinator returns the code for a client that may not know of the group or transaction, 0 when it may.
func (b *Broker) refuseCoordinator(r *protocol.Request, kind int8, key string) int16 {
	switch {
	case kind == groupCoordinator && !b.mayGroup(r, kmsg.ACLOperationDescribe, key):
		return groupUnauthorized
	case kind == transactionCoordinator && !b.mayTransaction(r, kmsg.ACLOperationDescribe, key):
		return transactionUnauthorized
	case kind == shareCoordinator && !b.mayCluster(r, kmsg.ACLOperationClusterAction):
		return clusterUnauthorized
	}
	return 0
}

// fillCoordinator names the leader of an internal topic's partition, or COORDINATOR_NOT_AVAILABLE while there is none;
// a missing topic is made meanwhile.
func (b *Broker) fillCoordinator(c *kmsg.FindCoordinatorResponseCoordinator, topic string, partition int32, listener string) {
	c.ErrorCode = kerr.CoordinatorNotAvailable.Code
	t := b.Image().Topic(topic)
	if t == nil {
		b.CoordinatorTopics.create(topic)
		return
	}
	if int(partition) >= len(t.Partitions) {
		return
	}
	if at := b.endpoint(t.Partitions[partition].Leader, listener); at != nil {
		c.ErrorCode, c.NodeID, c.Host, c.Port = 0, at.id, at.host, at.port
	}
}
