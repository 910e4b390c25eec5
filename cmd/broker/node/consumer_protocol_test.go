package node

import (
	"context"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/internal/vfs"
)

// Without the consumer protocol, in the broker's configuration or by the cluster's feature, its two requests are not
// supported (35), and are again when the feature is back.
func TestConsumerProtocolIsOff(t *testing.T) {
	t.Run("group.coordinator.rebalance.protocols", func(t *testing.T) {
		n := start(t, options(t, vfs.NewMem(), "group.coordinator.rebalance.protocols=classic"))
		requireConsumerProtocol(t, n, kerr.UnsupportedVersion)
	})
	t.Run("group.version", func(t *testing.T) {
		n := start(t, options(t, vfs.NewMem()))
		requireConsumerProtocol(t, n, nil)
		setFeature(t, n, "group.version", 0)
		requireConsumerProtocol(t, n, kerr.UnsupportedVersion)
		setFeature(t, n, "group.version", 1)
		requireConsumerProtocol(t, n, nil)
	})
}

func setFeature(t *testing.T, n *Node, name string, level int16) {
	t.Helper()
	req := kmsg.NewPtrUpdateFeaturesRequest()
	f := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
	f.Feature, f.MaxVersionLevel, f.UpgradeType = name, level, 2 // a safe downgrade, or an upgrade
	if level > 0 {
		f.UpgradeType = 1
	}
	req.FeatureUpdates = append(req.FeatureUpdates, f)
	resp, err := req.RequestWith(context.Background(), client(t, n))
	if err != nil {
		t.Fatal(err)
	}
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		t.Fatal(err)
	}
}

func requireConsumerProtocol(t *testing.T, n *Node, want *kerr.Error) {
	t.Helper()
	cl := client(t, n)
	beat := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	beat.Group, beat.MemberID, beat.MemberEpoch, beat.SubscribedTopicNames, beat.RebalanceTimeoutMillis = "g", "m", 0, []string{"t"}, 1000
	beat.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	answer, err := beat.RequestWith(context.Background(), cl.Broker(1))
	if err != nil {
		t.Fatal(err)
	}
	describe := kmsg.NewPtrConsumerGroupDescribeRequest()
	describe.Groups = []string{"g"}
	described, err := describe.RequestWith(context.Background(), cl.Broker(1))
	if err != nil {
		t.Fatal(err)
	}
	for what, code := range map[string]int16{"heartbeat": answer.ErrorCode, "describe": described.Groups[0].ErrorCode} {
		switch {
		case want != nil && code != want.Code:
			t.Errorf("%s: %v, want %v", what, kerr.ErrorForCode(code), want)
		case want == nil && code == kerr.UnsupportedVersion.Code:
			t.Errorf("%s: %v", what, kerr.ErrorForCode(code))
		}
	}
}
