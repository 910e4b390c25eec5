package node

import (
	"context"
	"fmt"

	"grete/coordinator/txn"
	"grete/handlers"
	"grete/internal/config"
	"grete/protocol"
)

const transactionsTopic = "__transaction_state"

// startTransactions makes the transaction coordinator. Its producer ids, like the metadata that says where markers go,
// are there before it leads a partition.
func (n *Node) startTransactions(context.Context) error {
	links := protocol.NewLinks(n.brokerAddress, n.peerOptions(n.o.Config.InterBroker))
	n.onStop("connections to other brokers", func(context.Context) error { links.Close(); return nil })
	// Longer than its session no broker is waited for: others lead by then what it led.
	n.others = handlers.Others{Call: links.Call, Timeout: millis(n.o.Config.Int("broker.session.timeout.ms"))}
	remote := handlers.NewRemoteMarkers(n.o.Clock, n.others)
	n.onStop("markers to other brokers", func(context.Context) error { remote.Close(); return nil })
	n.markers = &handlers.Markers{NodeID: n.o.Config.NodeID, Image: n.replicas.Image, Replicas: n.replicas, Groups: n.groups, Remote: remote}
	n.txns = txn.NewService(txn.Options{
		Config: n.txnConfig(n.o.Config.Layers), Clock: n.o.Clock, Log: n.o.Log, Markers: n.markers,
		Partitions:         func() int32 { return n.partitionsOf(transactionsTopic, "transaction.state.log.num.partitions") },
		TransactionVersion: func() int16 { return n.image().Feature("transaction.version") },
		NextProducerID:     func(got func(int64, error)) { n.producers.Next(got) },
	})
	n.onStop("transaction coordinator", func(context.Context) error { n.txns.Close(); return nil })
	return nil
}

func (n *Node) txnConfig(l config.Layers) txn.Config {
	c := txn.DefaultConfig()
	c.MaxTimeoutMs = int32(l.Int("transaction.max.timeout.ms"))
	c.IDExpirationMs = l.Int("transactional.id.expiration.ms")
	c.AbortIntervalMs = l.Int("transaction.abort.timed.out.transaction.cleanup.interval.ms")
	c.ExpiryIntervalMs = l.Int("transaction.remove.expired.transaction.cleanup.interval.ms")
	c.LoadBufferBytes = int(l.Int("transaction.state.log.load.buffer.size"))
	c.Loads = n.o.Memory.Loads
	c.CommitTimeoutMs = l.Int("request.timeout.ms")
	c.AddRetryMs = l.Int("add.partitions.to.txn.retry.backoff.max.ms")
	c.TwoPhaseCommit = l.Bool("transaction.two.phase.commit.enable")
	return c
}

// verifiesTransactions is a property that may be set while the broker runs.
func (n *Node) verifiesTransactions() bool {
	return n.dynamicLayers(n.image()).Bool("transaction.partition.verification.enable")
}

// transactionsTopicOf says how __transaction_state is made (Kafka's TransactionStateManager).
func transactionsTopicOf(l config.Layers) handlers.CoordinatorTopic {
	return handlers.CoordinatorTopic{
		Name:              transactionsTopic,
		Partitions:        int32(l.Int("transaction.state.log.num.partitions")),
		ReplicationFactor: int16(l.Int("transaction.state.log.replication.factor")),
		Configs: map[string]string{
			"cleanup.policy": "compact", "compression.type": "uncompressed", "unclean.leader.election.enable": "false",
			"min.insync.replicas": fmt.Sprint(l.Int("transaction.state.log.min.isr")), "segment.bytes": l.Text("transaction.state.log.segment.bytes"),
		},
	}
}
