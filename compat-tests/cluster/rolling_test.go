package cluster

import (
	"slices"
	"testing"
	"time"

	"grete/compat-tests/kafka"
)

// FAULTS: "Rolling restart under load". Every broker is stopped and started in turn under stock clients with their
// default settings: no error reaches them, no group rebalances, no commit is lost, and acknowledgements go on.
func TestRollingRestartUnderLoad(t *testing.T) {
	r := start(t, kafka.ClusterOptions{Properties: map[string]string{"group.initial.rebalance.delay.ms": "0"}})
	for _, topic := range []string{"franz", "rdkafka", "java"} {
		r.create(topic, 1)
	}
	clients := slices.Concat(r.franzSteady("franz"), r.rdkafkaSteady("rdkafka"), r.javaSteady("java"))
	r.eventually("clients that write and read", func() bool {
		return !slices.ContainsFunc(clients, func(s *steady) bool { return !s.settled() })
	})
	began := time.Now()
	for i := range longer(1, 5) * len(r.Nodes) {
		n := r.Nodes[i%len(r.Nodes)]
		t.Logf("broker %d is stopped at %v", n.ID, time.Since(began))
		if err := n.Stop(); err != nil {
			t.Fatal(err)
		}
		r.start(n.ID)
		r.nothingMissing()
		t.Logf("broker %d was back at %v", n.ID, time.Since(began))
	}
	for _, s := range clients {
		before := len(s.all("producer_send_success")) + s.commits()
		r.eventually("progress of "+s.name, func() bool { return len(s.all("producer_send_success"))+s.commits() > before })
	}
	for _, s := range clients {
		s.undisturbed(r, began)
		longest, gaps := s.gaps(began)
		t.Logf("%s: %v without an acknowledgement: %v", s.name, longest, gaps)
		if longest > longestGap() {
			t.Errorf("%s waited %v for an acknowledgement", s.name, longest)
		}
	}
	for _, s := range clients {
		s.end()
	}
}

// longestGap is the product's bound in a long run, which has the machine for itself; elsewhere a client may have to
// wait for a processor too.
func longestGap() time.Duration {
	if long() {
		return 300 * time.Millisecond
	}
	return 3 * time.Second
}

// nothingMissing waits until every partition of every topic, the internal ones too, has all replicas in sync, which an
// administrator waits for before the next broker.
func (r *rig) nothingMissing() {
	r.t.Helper()
	r.eventually("full replication", func() bool {
		topics, err := r.adm.ListTopicsWithInternal(r.ctx)
		if err != nil {
			return false
		}
		for _, topic := range topics {
			for _, p := range topic.Partitions {
				if p.Leader < 0 || len(p.ISR) < len(p.Replicas) {
					return false
				}
			}
		}
		return len(topics) > 0
	})
}
