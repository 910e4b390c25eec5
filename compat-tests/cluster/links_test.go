package cluster

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"grete/compat-tests/kafka"
)

// What passes between brokers can be held up: the tests of cut links rest on it.
func TestLinksAreCut(t *testing.T) {
	r := start(t, kafka.ClusterOptions{Proxied: true})
	r.create("cut", 1)
	w := r.writer("cut")
	w.write(10)
	leader := r.partition("cut", 0).Leader
	for id := range int32(3) {
		if id+1 != leader {
			r.Links.Cut(kafka.Replication, leader, id+1)
		}
	}
	done := make(chan error, 1)
	r.client(kgo.DefaultProduceTopic("cut")).Produce(r.ctx, kgo.StringRecord("value 10"), func(_ *kgo.Record, err error) { done <- err })
	select {
	case err := <-done:
		t.Fatalf("acknowledged without followers: %v", err)
	case <-time.After(time.Second):
	}
	r.Links.Heal()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	w.acked++
	w.write(10)
	w.readBack()
}
