package clients

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// heartbeater is a member of a consumer group without an application: it gives up at once what it must.
type heartbeater struct {
	id    string
	epoch int32
	owned []kmsg.ConsumerGroupHeartbeatRequestTopic
	count int // partitions that it has
}

func (h *heartbeater) beat(ctx context.Context, cl *kgo.Client) (changed bool, err error) {
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Group, req.MemberID, req.MemberEpoch = "many", h.id, h.epoch
	req.Topics = append([]kmsg.ConsumerGroupHeartbeatRequestTopic{}, h.owned...)
	if h.epoch == 0 {
		req.RebalanceTimeoutMillis, req.SubscribedTopicNames = 60_000, []string{"many"}
	}
	resp, err := req.RequestWith(ctx, cl)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err != nil {
		return false, fmt.Errorf("%s: %w", h.id, err)
	}
	changed, h.epoch = resp.MemberEpoch != h.epoch, resp.MemberEpoch
	if resp.Assignment != nil {
		h.owned, h.count, changed = nil, 0, true
		for _, t := range resp.Assignment.Topics {
			own := kmsg.NewConsumerGroupHeartbeatRequestTopic()
			own.TopicID, own.Partitions = t.TopicID, t.Partitions
			h.owned, h.count = append(h.owned, own), h.count+len(t.Partitions)
		}
	}
	return changed, nil
}

// TestManyMembers joins 500 members of a consumer group and times until each has its two partitions of a thousand:
// with COMPAT_TARGET=kafka, what Kafka needs for the same.
func TestManyMembers(t *testing.T) {
	if os.Getenv("MANY_MEMBERS") == "" {
		t.Skip("set MANY_MEMBERS=1 to time a group of 500 members")
	}
	const members, perClient, partitions = 500, 25, 1000
	b := startBroker(t, t.TempDir())
	defer b.Stop()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	var clients []*kgo.Client
	for range members / perClient {
		cl, err := kgo.NewClient(kgo.SeedBrokers(b.Addr))
		if err != nil {
			t.Fatal(err)
		}
		defer cl.Close()
		clients = append(clients, cl)
	}
	if _, err := kadm.NewClient(clients[0]).CreateTopic(ctx, partitions, 1, nil, "many"); err != nil {
		t.Fatal(err)
	}
	for _, cl := range clients { // until there is a coordinator, and it knows the topic
		for ctx.Err() == nil {
			if _, err := kadm.NewClient(cl).FetchOffsets(ctx, "many"); err == nil {
				break
			}
			time.Sleep(100 * time.Millisecond)
		}
	}
	time.Sleep(3 * time.Second)
	all := make([]*heartbeater, members)
	for i := range all {
		all[i] = &heartbeater{id: fmt.Sprintf("member-%d", i)}
	}
	begin := time.Now()
	rounds := 0
	for settled := false; !settled; rounds++ {
		settled = round(ctx, t, clients, all, perClient) == 0 && rounds > 0
		for _, h := range all {
			settled = settled && h.count == partitions/members
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Logf("%s: %d members of %d partitions settle after %v, in %d rounds of heartbeats", os.Getenv("COMPAT_TARGET"), members, partitions, time.Since(begin).Round(10*time.Millisecond), rounds)
}

// round lets every member send a heartbeat, each client's one after another, and counts those that changed something.
func round(ctx context.Context, t *testing.T, clients []*kgo.Client, all []*heartbeater, perClient int) (changed int) {
	t.Helper()
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i, cl := range clients {
		wg.Go(func() {
			for _, h := range all[i*perClient : (i+1)*perClient] {
				did, err := h.beat(ctx, cl)
				mu.Lock()
				if err != nil {
					t.Error(err)
				} else if did {
					changed++
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return changed
}
