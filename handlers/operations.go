package handlers

import (
	"math"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// notAsked is the value of authorized operations that nobody asked for.
const notAsked = math.MinInt32

// operations are what can be done to a resource type, as the bit field of authorized operations. Without an authorizer
// everyone may do all of it.
func operations(ops ...kmsg.ACLOperation) int32 {
	var bits int32
	for _, op := range ops {
		bits |= 1 << op
	}
	return bits
}

// The operations that Kafka supports for a resource (AclEntry.supportedOperations).
var (
	topicOperations = operations(kmsg.ACLOperationRead, kmsg.ACLOperationWrite, kmsg.ACLOperationCreate, kmsg.ACLOperationDelete,
		kmsg.ACLOperationAlter, kmsg.ACLOperationDescribe, kmsg.ACLOperationDescribeConfigs, kmsg.ACLOperationAlterConfigs)
	clusterOperations = operations(kmsg.ACLOperationCreate, kmsg.ACLOperationAlter, kmsg.ACLOperationDescribe,
		kmsg.ACLOperationClusterAction, kmsg.ACLOperationDescribeConfigs, kmsg.ACLOperationAlterConfigs, kmsg.ACLOperationIdempotentWrite)
)
