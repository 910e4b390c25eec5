package cluster

import (
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/compat-tests/kafka"
)

// FAULTS: "Leader cut from followers only → acks=all fails in time; its tail is truncated after heal".
func TestLeaderCutFromFollowers(t *testing.T) {
	t.Parallel()
	r := start(t, kafka.ClusterOptions{Proxied: true})
	r.create("cut", 3)
	index, leader := r.ledByFollower("cut", 3)
	w := r.writer("cut", index)
	w.write(20)
	for _, id := range r.others(leader) {
		r.Links.Cut(kafka.Replication, leader, id)
	}
	began := time.Now()
	err := r.produceAt(leader, "cut", index, -1, "not acknowledged")
	if took := time.Since(began); !errors.Is(err, kerr.RequestTimedOut) || took > 5*time.Second {
		t.Errorf("acks=all without followers, with a timeout of 1 s: %v after %v", err, took)
	}
	for range 20 {
		if err := r.produceAt(leader, "cut", index, 1, "of the leader alone"); err != nil {
			t.Fatalf("acks=1: %v", err)
		}
	}
	// The controller loses it too: others go on, without the tail.
	for _, id := range r.others(leader) {
		r.Links.Cut(kafka.Control, leader, id)
	}
	others := r.others(leader)
	survivor := r.client(kgo.SeedBrokers(r.Node(others[0]).Addr(), r.Node(others[1]).Addr()))
	r.newLeader(survivor, "cut", index, leader)
	w.write(20)
	r.Links.Heal()
	r.wholeISR("cut", index)
	w.write(20)
	w.readBack()
	r.sameLogs("cut", index)
}

// FAULTS: as before, where the leader keeps the lead: followers leave the ISR, and writes are refused until they are
// back.
func TestLeaderCutFromFollowersLeads(t *testing.T) {
	t.Parallel()
	r := start(t, kafka.ClusterOptions{Proxied: true, Properties: with(quick, "replica.lag.time.max.ms", "1000")})
	r.create("cut", 1)
	leader := r.partition("cut", 0).Leader
	w := r.writer("cut", 0)
	w.write(20)
	for _, id := range r.others(leader) {
		r.Links.Cut(kafka.Replication, leader, id)
	}
	if err := r.produceAt(leader, "cut", 0, 1, "value 20"); err != nil { // until then the followers have all
		t.Fatal(err)
	}
	w.acked++
	own := kadm.NewClient(r.pinned(leader))
	r.eventually("ISR of the leader alone, as it sees it itself", func() bool {
		topics, err := own.ListTopics(r.ctx, "cut")
		return err == nil && len(topics["cut"].Partitions[0].ISR) == 1
	})
	if err := r.produceAt(leader, "cut", 0, -1, "refused"); !errors.Is(err, kerr.NotEnoughReplicas) {
		t.Errorf("acks=all with one of two in-sync replicas: %v", err)
	}
	r.Links.Heal()
	r.wholeISR("cut", 0)
	w.write(20)
	w.readBack()
	r.sameLogs("cut", 0)
}

// FAULTS: "Leader cut from the controller only → no high watermark on an unconfirmed ISR shrink". One follower stops
// too: the leader would have to take it out of the ISR, and cannot.
func TestLeaderCutFromController(t *testing.T) {
	t.Parallel()
	r := start(t, kafka.ClusterOptions{Brokers: 5, Proxied: true, Properties: with(quick, "replica.lag.time.max.ms", "1000", "broker.session.timeout.ms", "60000")})
	r.create("cut", 5)
	index, leader := r.ledByFollower("cut", 5)
	w := r.writer("cut", index)
	w.write(20)
	for _, id := range r.others(leader) {
		r.Links.Cut(kafka.Control, leader, id)
	}
	var slow int32
	for _, id := range r.partition("cut", index).Replicas {
		if id != leader {
			slow = id
		}
	}
	r.Links.Cut(kafka.Replication, leader, slow)
	if err := r.produceAt(leader, "cut", index, -1, "value 20"); !errors.Is(err, kerr.RequestTimedOut) {
		t.Errorf("acks=all, with an ISR that shrinks without the controller: %v", err)
	}
	time.Sleep(2 * time.Second) // the slow follower's time in the ISR is over
	if end := r.highWatermark(leader, "cut", index); end != 20 {
		t.Errorf("high watermark %d after an ISR shrink that nobody confirmed, want 20", end)
	}
	r.Links.Heal()
	r.wholeISR("cut", index)
	r.eventually("committed write", func() bool { return r.highWatermark(leader, "cut", index) == 21 })
	w.acked++
	w.write(20)
	w.readBack()
	r.sameLogs("cut", index)
}

// FAULTS: as before, past the session: another leads, while the old one still thinks that it does; it acknowledges
// nothing.
func TestLeaderCutFromControllerIsReplaced(t *testing.T) {
	t.Parallel()
	r := start(t, kafka.ClusterOptions{Brokers: 5, Proxied: true})
	r.create("cut", 5)
	index, leader := r.ledByFollower("cut", 5)
	w := r.writer("cut", index)
	w.write(20)
	for _, id := range r.others(leader) {
		r.Links.Cut(kafka.Control, leader, id)
	}
	var seeds []string
	for _, id := range r.others(leader) {
		seeds = append(seeds, r.Node(id).Addr())
	}
	r.newLeader(r.client(kgo.SeedBrokers(seeds...)), "cut", index, leader)
	err := r.produceAt(leader, "cut", index, -1, "not acknowledged")
	if !errors.Is(err, kerr.RequestTimedOut) {
		t.Errorf("acks=all at a leader that was replaced and does not know: %v", err)
	}
	w.write(20)
	r.Links.Heal()
	r.wholeISR("cut", index)
	w.write(20)
	w.readBack()
	r.sameLogs("cut", index)
}

// highWatermark is the end of a partition for consumers of its leader, -1 when that does not tell.
func (r *rig) highWatermark(leader int32, topic string, index int32) int64 {
	r.t.Helper()
	cl := r.pinned(leader)
	defer cl.Close()
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID = -1
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic = topic
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Partition, p.CurrentLeaderEpoch, p.Timestamp = index, -1, -1
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	resp, err := cl.SeedBrokers()[0].Request(r.ctx, req)
	if err != nil {
		r.t.Fatal(err)
	}
	answer := resp.(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0]
	if answer.ErrorCode != 0 {
		return -1
	}
	return answer.Offset
}
