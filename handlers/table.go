// Package handlers has one file per API or small family: decode, authorize, call a room below, encode.
package handlers

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/protocol"
)

// API is one row: a key, the versions that work, what serves it, and what decides whether the client may use it.
type API struct {
	Key, Min, Max int16
	Handle        func(*Broker, context.Context, *protocol.Request)
	Authorize     authorization
}

// table lists every API explicitly, by key.
var table = []API{
	{0, 0, 13, Produce, asksItself}, // 0–2 are announced for librdkafka's sake, and close
	{1, 4, 18, Fetch, asksItself},
	{2, 1, 11, ListOffsets, authorizeListOffsets},
	{3, 0, 13, Metadata, asksItself},
	{8, 2, 10, OffsetCommit, authorizeOffsetCommit},
	{9, 1, 10, OffsetFetch, asksItself},
	{10, 0, 6, FindCoordinator, asksItself},
	{11, 0, 9, JoinGroup, authorizeJoinGroup},
	{12, 0, 4, Heartbeat, authorizeHeartbeat},
	{13, 0, 5, LeaveGroup, authorizeLeaveGroup},
	{14, 0, 5, SyncGroup, authorizeSyncGroup},
	{15, 0, 6, DescribeGroups, authorizeDescribeGroups},
	{16, 0, 5, ListGroups, authorizeListGroups},
	{17, 0, 1, SASLHandshake, free},
	{18, 0, 5, ApiVersions, free},
	{19, 2, 7, CreateTopics, authorizeCreateTopics},
	{20, 1, 6, DeleteTopics, authorizeDeleteTopics},
	{21, 0, 2, DeleteRecords, authorizeDeleteRecords},
	{22, 0, 5, InitProducerID, authorizeInitProducer},
	{23, 2, 4, OffsetForLeaderEpoch, authorizeEpochs},
	{24, 0, 5, AddPartitionsToTxn, authorizeAddPartitions},
	{25, 0, 4, AddOffsetsToTxn, authorizeAddOffsets},
	{26, 0, 5, EndTxn, authorizeEndTxn},
	{27, 1, 2, WriteTxnMarkers, authorizeMarkers},
	{28, 0, 6, TxnOffsetCommit, authorizeTxnOffsetCommit},
	{29, 1, 3, DescribeACLs, asksItself},
	{30, 1, 3, CreateACLs, asksItself},
	{31, 1, 3, DeleteACLs, asksItself},
	{32, 1, 4, DescribeConfigs, authorizeDescribeConfigs},
	{33, 0, 2, AlterConfigs, asksItself},
	{34, 1, 2, AlterReplicaLogDirs, authorizeAlterLogDirs},
	{35, 1, 5, DescribeLogDirs, authorizeDescribeLogDirs},
	{36, 0, 2, SASLAuthenticate, free},
	{37, 0, 3, CreatePartitions, authorizeCreatePartitions},
	{38, 1, 3, CreateDelegationToken, asksItself},
	{39, 1, 2, RenewDelegationToken, asksItself},
	{40, 1, 2, ExpireDelegationToken, asksItself},
	{41, 1, 3, DescribeDelegationToken, asksItself},
	{42, 0, 3, DeleteGroups, authorizeDeleteGroups},
	{43, 0, 2, ElectLeaders, wants(kmsg.ACLOperationAlter)},
	{44, 0, 1, IncrementalAlterConfigs, asksItself},
	{45, 0, 1, AlterPartitionReassignments, wants(kmsg.ACLOperationAlter)},
	{46, 0, 0, ListPartitionReassignments, wants(kmsg.ACLOperationDescribe)},
	{47, 0, 0, OffsetDelete, authorizeOffsetDelete},
	{50, 0, 0, DescribeUserScramCredentials, authorizeDescribeScram},
	{51, 0, 0, AlterUserScramCredentials, wants(kmsg.ACLOperationAlter)},
	{55, 0, 2, DescribeQuorum, wants(kmsg.ACLOperationDescribe)},
	{57, 0, 2, UpdateFeatures, wants(kmsg.ACLOperationAlter)},
	{60, 0, 2, DescribeCluster, free},
	{61, 0, 0, DescribeProducers, authorizeDescribeProducers},
	{64, 0, 0, UnregisterBroker, wants(kmsg.ACLOperationAlter)},
	{65, 0, 0, DescribeTransactions, authorizeDescribeTransactions},
	{66, 0, 2, ListTransactions, authorizeListTransactions},
	{68, 0, 1, ConsumerGroupHeartbeat, authorizeConsumerHeartbeat},
	{69, 0, 1, ConsumerGroupDescribe, authorizeConsumerDescribe},
	{74, 0, 1, ListConfigResources, authorizeListConfigResources},
	{75, 0, 0, DescribeTopicPartitions, asksItself},
	{80, 0, 1, AddRaftVoter, wants(kmsg.ACLOperationAlter)},
	{81, 0, 0, RemoveRaftVoter, wants(kmsg.ACLOperationAlter)},
	{94, 0, 0, UnregisterController, wants(kmsg.ACLOperationAlter)},
}

// controllerTable is what a controller listener serves: to clients what Kafka's does, without its Raft, and what nodes
// ask each other.
var controllerTable = []API{
	{17, 0, 1, SASLHandshake, free},
	{18, 0, 5, ApiVersions, free},
	{19, 2, 7, CreateTopics, authorizeCreateTopics},
	{20, 1, 6, DeleteTopics, authorizeDeleteTopics},
	{29, 1, 3, DescribeACLs, asksItself},
	{30, 1, 3, CreateACLs, asksItself},
	{31, 1, 3, DeleteACLs, asksItself},
	{32, 1, 4, DescribeConfigs, authorizeDescribeConfigs},
	{33, 0, 2, AlterConfigs, asksItself},
	{36, 0, 2, SASLAuthenticate, free},
	{37, 0, 3, CreatePartitions, authorizeCreatePartitions},
	{38, 1, 3, CreateDelegationToken, asksItself},
	{39, 1, 2, RenewDelegationToken, asksItself},
	{40, 1, 2, ExpireDelegationToken, asksItself},
	{43, 0, 2, ElectLeaders, wants(kmsg.ACLOperationAlter)},
	{44, 0, 1, IncrementalAlterConfigs, asksItself},
	{45, 0, 1, AlterPartitionReassignments, wants(kmsg.ACLOperationAlter)},
	{46, 0, 0, ListPartitionReassignments, wants(kmsg.ACLOperationDescribe)},
	{51, 0, 0, AlterUserScramCredentials, wants(kmsg.ACLOperationAlter)},
	{55, 0, 2, DescribeQuorum, wants(kmsg.ACLOperationDescribe)},
	{57, 0, 2, UpdateFeatures, wants(kmsg.ACLOperationAlter)},
	{60, 0, 2, DescribeControllers, authorizeDescribeControllers},
	{64, 0, 0, UnregisterBroker, wants(kmsg.ACLOperationAlter)},
	{80, 0, 1, AddRaftVoter, wants(kmsg.ACLOperationAlter)},
	{81, 0, 0, RemoveRaftVoter, wants(kmsg.ACLOperationAlter)},
	{94, 0, 0, UnregisterController, wants(kmsg.ACLOperationAlter)},
}

// Requests of our own, which ApiVersions does not show: of brokers on listeners for clients, and of nodes on controller
// listeners.
var (
	brokersTable = []API{
		{protocol.HelloKey, 0, 0, Hello, free},
		{protocol.WitnessKey, 0, 0, Witness, free},
	}
	nodesTable = []API{
		{protocol.RaftKey, 0, 0, Raft, free},
		{protocol.ForwardKey, 0, 0, Forward, free},
		{protocol.FormKey, 0, 0, Form, free},
		{protocol.JoinKey, 0, 0, Join, free},
		{protocol.HelloKey, 0, 0, Hello, free},
		{protocol.VouchKey, 0, 0, Vouch, free},
	}
)
