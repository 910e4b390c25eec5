package tool

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A consumer group (KIP-848) is described by its own request, with partitions of which it has no offset yet.
func TestDescribeConsumerGroup(t *testing.T) {
	address := startBroker(t, "PLAINTEXT", "")
	r := newRig(address)
	r.must(t, nil, "topic", "create", "t", "-p", "2")
	r.must(t, nil, "group", "reset", "other", "t", "--to", "start", "-y") // there is a coordinator from now on
	cl, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.ClientID("reader"))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	join := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	join.Group, join.MemberID, join.RebalanceTimeoutMillis = "g", "7XIzl55dR_WXtgfqVNYYaA", 10_000
	join.SubscribedTopicNames, join.Topics = []string{"t"}, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	resp, err := join.RequestWith(t.Context(), cl)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err != nil {
		t.Fatal(err)
	}
	text := r.must(t, nil, "group", "describe", "g", "-o", "wide")
	for _, want := range []string{"g  consumer, ", "1 member", "lag 0", "t:0,1", "reader"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if text := r.must(t, nil, "group", "list"); !strings.Contains(text, "consumer") {
		t.Error(text)
	}
}
