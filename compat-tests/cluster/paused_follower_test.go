package cluster

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"grete/compat-tests/kafka"
)

// Producers with acks=all send many times the memory for requests while a follower is paused: what waits for it holds
// none of that memory, so that the follower goes on at once when it can, and all is acknowledged soon after. (When
// parked requests kept their bodies, its fetch waited behind them until they timed out.)
func TestPausedFollowerIsNotStarved(t *testing.T) {
	properties := map[string]string{"queued.max.request.bytes": "33554432", "socket.request.max.bytes": "16777216", "broker.session.timeout.ms": "30000", "group.initial.rebalance.delay.ms": "0"}
	r := start(t, kafka.ClusterOptions{Start: kafka.StartGrete, Properties: properties})
	r.create("paused", 1)
	leader := r.partition("paused", 0).Leader
	follower := r.others(leader)[0]
	producers, each := longer(40, 1000), 5
	value := make([]byte, 900_000)
	var sent, acked, failed atomic.Int64
	if err := r.Node(follower).Pause(); err != nil {
		t.Fatal(err)
	}
	for i := range producers {
		cl := r.client(kgo.DefaultProduceTopic("paused"), kgo.ProducerLinger(0), kgo.MaxProduceRequestsInflightPerBroker(each), kgo.DisableIdempotentWrite(),
			kgo.ProducerBatchMaxBytes(1<<20), kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.SeedBrokers(r.Node(leader).Addr()),
			kgo.ProduceRequestTimeout(5*time.Minute)) // what is timed out is sent again, and its first sending acknowledges nothing
		for k := range each {
			cl.Produce(r.ctx, &kgo.Record{Key: fmt.Append(nil, i, k), Value: value}, func(_ *kgo.Record, err error) {
				if err != nil {
					failed.Add(1)
				}
				acked.Add(1)
			})
			sent.Add(1)
		}
	}
	time.Sleep(time.Duration(longer(5, 10)) * time.Second)
	if n := acked.Load(); n != 0 {
		t.Errorf("%d records were acknowledged without the follower", n)
	}
	resumed := time.Now()
	if err := r.Node(follower).Resume(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(r.ctx, time.Duration(longer(20, 180))*time.Second)
	defer cancel()
	for acked.Load() == 0 && ctx.Err() == nil {
		time.Sleep(time.Millisecond)
	}
	first := time.Since(resumed)
	for acked.Load() < sent.Load() && ctx.Err() == nil {
		time.Sleep(time.Millisecond)
	}
	t.Logf("first acknowledgement %v after the follower was resumed, all %d after %v", first, sent.Load(), time.Since(resumed))
	if acked.Load() < sent.Load() || failed.Load() > 0 || first > 15*time.Second {
		t.Errorf("%d of %d records were answered, %d failed", acked.Load(), sent.Load(), failed.Load())
	}
}
