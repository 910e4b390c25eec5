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
	{8, 2, 10, OffsetCommit},
	{9, 1, 10, OffsetFetch},
	{10, 0, 6, FindCoordinator},
	{11, 0, 9, JoinGroup},
	{12, 0, 4, Heartbeat},
	{13, 0, 5, LeaveGroup},
	{14, 0, 5, SyncGroup},
	{15, 0, 6, DescribeGroups},
	{16, 0, 5, ListGroups},
	{21, 0, 2, DeleteRecords},
	{22, 0, 5, InitProducerID},
	{23, 2, 4, OffsetForLeaderEpoch},
	{42, 0, 3, DeleteGroups},
	{47, 0, 0, OffsetDelete},
}
