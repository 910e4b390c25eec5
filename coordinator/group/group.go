// Package group is the group coordinator: consumer groups and their committed offsets on shards of __consumer_offsets.
// A shard's state is pure: requests and timers decide on it under coordinator.Tx, its log rebuilds it.
package group

import "grete/coordinator"

// group is what offsets, listing, deleting and expiry need of a group, whatever protocol it follows.
type group interface {
	// kind is Kafka's group type: "classic" or "consumer".
	kind() string
	stateName() string
	protocolTypeName() string
	empty() bool
	// subscribedTo tells whether members use topic, or might: then its offsets neither expire nor can be deleted.
	subscribedTo(topic string) bool
	// checkCommit, checkFetch, checkOffsetDelete and checkDelete return the Kafka error that refuses the request.
	checkCommit(c commitContext) error
	checkFetch(memberID *string, memberEpoch int32) error
	// checkPartition refuses one partition of a commit that checkCommit let pass.
	checkPartition(c commitContext, id topicID, partition int32) error
	checkOffsetDelete() error
	checkDelete() error
	// touch tells the group that a member committed: it lives.
	touch(tx *coordinator.Tx, memberID string)
	// expiryBaseMs is the time that an offset's retention counts from; ok is false when none may expire now.
	expiryBaseMs(c *committed) (baseMs int64, ok bool)
	// deleteRecords appends the tombstones of the group itself.
	deleteRecords(tx *coordinator.Tx)
	// dissolve ends the group once it is gone from the shard; unload answers what it holds.
	dissolve()
	loaded(tx *coordinator.Tx, s *shard)
	unload(tx *coordinator.Tx)
}

// commitContext is who commits, as far as a group checks it.
type commitContext struct {
	memberID   string
	instanceID *string
	generation int32
	version    int16 // of OffsetCommit, or the one that knows as much as the TxnOffsetCommit
	// transactional commits need no generation, and are taken while the group rebalances.
	transactional bool
}

// RequestContext is what the coordinator wants to know of the connection.
type RequestContext struct {
	Version    int16
	ClientID   string
	ClientHost string // as Kafka prints an InetAddress: "/127.0.0.1"
	// Describable says whether the client may describe a topic; nil: every topic. An expression that it subscribes to
	// matches no other.
	Describable func(topic string) bool
}
