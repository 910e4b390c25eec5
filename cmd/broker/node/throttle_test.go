package node

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A replica that has to catch up is throttled by either side's rate, which may be changed meanwhile.
func TestCatchingUpIsThrottled(t *testing.T) {
	for _, side := range []string{"leader", "follower"} {
		t.Run(side, func(t *testing.T) {
			c := newNodes(t, 3, "replica.fetch.max.bytes=50000", "auto.leader.rebalance.enable=false")
			c.start(0, 1, 2)
			if err := c.create(0, "slow", 3); err != nil {
				t.Fatal(err)
			}
			leader := int(c.partition(0, "slow").Leader) - 1
			late := (leader + 1) % 3
			c.stop(late)
			cl := c.client(kgo.ProducerLinger(0), kgo.ProducerBatchCompression(kgo.NoCompression()))
			fill(t, cl, "slow", 40) // 2 MB
			alter(t, cl, kmsg.ConfigResourceTypeTopic, "slow", side+".replication.throttled.replicas", "*")
			setBroker(t, cl, "", side+".replication.throttled.rate", "500000")
			began := time.Now()
			c.start(late)
			whole := func() bool { return len(c.partition(leader, "slow").ISR) == 3 }
			for ; time.Since(began) < 1500*time.Millisecond; time.Sleep(10 * time.Millisecond) {
				if whole() {
					t.Fatalf("2 MB arrived at 500 KB a second after %v", time.Since(began))
				}
			}
			setBroker(t, cl, "", side+".replication.throttled.rate", "500000000")
			c.eventually("whole ISR", whole)
			t.Logf("after %v", time.Since(began))
		})
	}
}
