package node

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// racked are three nodes, each in a rack of its own.
func racked(t *testing.T, properties ...string) *nodes {
	c := newNodes(t, 3, append(properties, "replica.selector.class="+rackAwareSelector)...)
	for i := range c.options {
		c.options[i].Config.Static["broker.rack"] = fmt.Sprint("rack", i+1)
	}
	c.start(0, 1, 2)
	return c
}

// bytesOut are the records of a topic that node i sent to consumers.
func (c *nodes) bytesOut(i int, topic string) int64 {
	return c.running[i].metrics.Topics.Topic(topic).BytesOut.Load()
}

// A consumer with a rack reads from the replica in it (KIP-392): all that is committed, while it is written; and from
// another one when that replica is gone.
func TestConsumersReadFromTheirRack(t *testing.T) {
	c := racked(t)
	if err := c.create(0, "near", 3); err != nil {
		t.Fatal(err)
	}
	leader := int(c.partition(c.leader(), "near").Leader) - 1
	near := (leader + 1) % 3
	producer := c.client(kgo.DefaultProduceTopic("near"), kgo.ProducerLinger(0))
	consumer := c.client(kgo.ConsumeTopics("near"), kgo.Rack(fmt.Sprint("rack", near+1)), kgo.RecheckPreferredReplicaInterval(time.Second),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	next := 0
	readBack := func(n int) {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		for i := range n {
			if err := producer.ProduceSync(ctx, kgo.StringRecord(fmt.Sprint(next+i))).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		for end := next + n; next < end; {
			fetches := consumer.PollFetches(ctx)
			if ctx.Err() != nil {
				t.Fatalf("record %d does not come: %v", next, fetches.Errors())
			}
			fetches.EachRecord(func(r *kgo.Record) {
				if string(r.Value) != fmt.Sprint(next) {
					t.Fatalf("%s came where %d was due", r.Value, next)
				}
				next++
			})
		}
	}
	readBack(100)
	if c.bytesOut(leader, "near") != 0 || c.bytesOut(near, "near") == 0 {
		t.Errorf("the leader sent %d bytes to the consumer, the replica in its rack %d", c.bytesOut(leader, "near"), c.bytesOut(near, "near"))
	}
	c.stop(near) // franz-go asks the leader again at the next recheck, not at the failure as Java does
	readBack(20)
	if c.bytesOut(leader, "near") == 0 {
		t.Error("the leader sent nothing")
	}
}
