// Package handlers has one file per API or small family: decode, authorize, call a room below, encode.
package handlers

import (
	"context"

	"grete/protocol"
)

// API is one row: a key, the versions that work, and what serves it.
type API struct {
	Key, Min, Max int16
	Handle        func(*Broker, context.Context, *protocol.Request)
}

// table lists every API explicitly, by key.
var table = []API{
	{0, 0, 13, Produce}, // 0–2 are announced for librdkafka's sake, and close
	{1, 4, 18, Fetch},
	{2, 1, 11, ListOffsets},
	{3, 0, 13, Metadata},
	{8, 2, 10, OffsetCommit},
	{9, 1, 10, OffsetFetch},
	{10, 0, 6, FindCoordinator},
	{11, 0, 9, JoinGroup},
	{12, 0, 4, Heartbeat},
	{13, 0, 5, LeaveGroup},
	{14, 0, 5, SyncGroup},
	{15, 0, 6, DescribeGroups},
	{16, 0, 5, ListGroups},
	{17, 0, 1, SASLHandshake},
	{18, 0, 5, ApiVersions},
	{19, 2, 7, CreateTopics},
	{20, 1, 6, DeleteTopics},
	{21, 0, 2, DeleteRecords},
	{22, 0, 5, InitProducerID},
	{23, 2, 4, OffsetForLeaderEpoch},
	{24, 0, 5, AddPartitionsToTxn},
	{25, 0, 4, AddOffsetsToTxn},
	{26, 0, 5, EndTxn},
	{27, 1, 2, WriteTxnMarkers},
	{28, 0, 6, TxnOffsetCommit},
	{29, 1, 3, DescribeACLs},
	{30, 1, 3, CreateACLs},
	{31, 1, 3, DeleteACLs},
	{32, 1, 4, DescribeConfigs},
	{33, 0, 2, AlterConfigs},
	{34, 1, 2, AlterReplicaLogDirs},
	{35, 1, 5, DescribeLogDirs},
	{36, 0, 2, SASLAuthenticate},
	{37, 0, 3, CreatePartitions},
	{42, 0, 3, DeleteGroups},
	{43, 0, 2, ElectLeaders},
	{44, 0, 1, IncrementalAlterConfigs},
	{45, 0, 1, AlterPartitionReassignments},
	{46, 0, 0, ListPartitionReassignments},
	{47, 0, 0, OffsetDelete},
	{50, 0, 0, DescribeUserScramCredentials},
	{51, 0, 0, AlterUserScramCredentials},
	{55, 0, 2, DescribeQuorum},
	{57, 0, 2, UpdateFeatures},
	{60, 0, 2, DescribeCluster},
	{61, 0, 0, DescribeProducers},
	{64, 0, 0, UnregisterBroker},
	{65, 0, 0, DescribeTransactions},
	{66, 0, 2, ListTransactions},
	{68, 0, 1, ConsumerGroupHeartbeat},
	{69, 0, 1, ConsumerGroupDescribe},
	{74, 0, 1, ListConfigResources},
	{75, 0, 0, DescribeTopicPartitions},
	{80, 0, 1, AddRaftVoter},
	{81, 0, 0, RemoveRaftVoter},
	{94, 0, 0, UnregisterController},
}

// controllerTable is what a controller listener serves: to clients what Kafka's does, without its Raft, and what nodes ask each other.
var controllerTable = []API{
	{17, 0, 1, SASLHandshake},
	{18, 0, 5, ApiVersions},
	{19, 2, 7, CreateTopics},
	{20, 1, 6, DeleteTopics},
	{32, 1, 4, DescribeConfigs},
	{33, 0, 2, AlterConfigs},
	{36, 0, 2, SASLAuthenticate},
	{37, 0, 3, CreatePartitions},
	{43, 0, 2, ElectLeaders},
	{44, 0, 1, IncrementalAlterConfigs},
	{45, 0, 1, AlterPartitionReassignments},
	{46, 0, 0, ListPartitionReassignments},
	{51, 0, 0, AlterUserScramCredentials},
	{55, 0, 2, DescribeQuorum},
	{57, 0, 2, UpdateFeatures},
	{60, 0, 2, DescribeControllers},
	{64, 0, 0, UnregisterBroker},
	{80, 0, 1, AddRaftVoter},
	{81, 0, 0, RemoveRaftVoter},
	{94, 0, 0, UnregisterController},
}

// Requests of our own, which ApiVersions does not show: of brokers on listeners for clients, and of nodes on controller listeners.
var (
	brokersTable = []API{
		{protocol.HelloKey, 0, 0, Hello},
		{protocol.WitnessKey, 0, 0, Witness},
	}
	nodesTable = []API{
		{protocol.RaftKey, 0, 0, Raft},
		{protocol.ForwardKey, 0, 0, Forward},
		{protocol.FormKey, 0, 0, Form},
		{protocol.JoinKey, 0, 0, Join},
		{protocol.HelloKey, 0, 0, Hello},
		{protocol.VouchKey, 0, 0, Vouch},
	}
)
