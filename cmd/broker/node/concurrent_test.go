package node

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/protocol/batch"
)

// A transaction whose markers cannot be written yet, because a broker is away, keeps its producer's next one from
// beginning: a leader that asks a coordinator on another broker passes CONCURRENT_TRANSACTIONS on, which the client
// retries until it may.
func TestNextTransactionWaitsForMarkers(t *testing.T) {
	c := newNodes(t, 3, "transaction.state.log.num.partitions=1", "auto.leader.rebalance.enable=false")
	c.start(0, 1, 2)
	led := map[int32]string{} // a topic that each broker leads alone
	for i := 0; len(led) < 3; i++ {
		topic := fmt.Sprint("t", i)
		if err := c.create(0, topic, 1); err != nil {
			t.Fatal(err)
		}
		led[c.partition(0, topic).Leader] = topic
	}
	producer := c.client(kgo.TransactionalID("x"), kgo.ProducerLinger(0), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	ctx, cancel := context.WithTimeout(context.Background(), 40*time.Second)
	defer cancel()
	write := func(topic string) error {
		return producer.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte("v")}).FirstErr()
	}
	begin := func() {
		t.Helper()
		if err := producer.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
	}
	begin()
	if err := write(led[1]); err != nil { // the state topic is there now
		t.Fatal(err)
	}
	if err := producer.EndTransaction(ctx, kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
	coordinator := c.partition(c.leader(), "__transaction_state").Leader
	away := coordinator%3 + 1
	asking := away%3 + 1
	begin()
	if err := write(led[away]); err != nil {
		t.Fatal(err)
	}
	c.wires[away-1].set(true)
	if err := producer.EndTransaction(ctx, kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
	begin()
	// What the leader says meanwhile, to a request of its own.
	id, epoch, err := producer.ProducerID(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if code := transactional(t, c.running[asking-1], id, epoch, led[asking]); code != 51 {
		t.Errorf("while the transaction before is not ended: error %d", code)
	}
	c.wires[away-1].set(false)
	if err := write(led[asking]); err != nil {
		t.Error(err)
	}
	if err := producer.EndTransaction(ctx, kgo.TryCommit); err != nil {
		t.Error(err)
	}
}

// transactional writes one record to the leader n of a topic, as the producer of transactional id x would.
func transactional(t *testing.T, n *Node, id int64, epoch int16, topic string) int16 {
	t.Helper()
	b, err := batch.Build(batch.BuildOptions{ProducerID: id, ProducerEpoch: epoch, BaseSequence: 0, Transactional: true},
		[]batch.Record{{TimestampMs: time.Now().UnixMilli(), Value: []byte("v")}})
	if err != nil {
		t.Fatal(err)
	}
	req := kmsg.NewPtrProduceRequest()
	req.TransactionID, req.Acks, req.TimeoutMillis = kmsg.StringPtr("x"), -1, 5000
	rt := kmsg.NewProduceRequestTopic()
	rt.Topic, rt.TopicID = topic, n.image().Topic(topic).ID
	p := kmsg.NewProduceRequestTopicPartition()
	p.Records = b
	rt.Partitions = append(rt.Partitions, p)
	req.Topics = append(req.Topics, rt)
	cl, err := kgo.NewClient(kgo.SeedBrokers(n.Addr("PLAINTEXT")))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	resp, err := cl.Broker(int(n.o.Config.NodeID)).Request(context.Background(), req)
	if err != nil {
		t.Fatal(err)
	}
	return resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode
}
