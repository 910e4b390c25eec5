package group

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func (r *rig) commitCode(group string) int16 {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Version, req.Group, req.Generation = 8, group, -1
	req.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: "t", Partitions: []kmsg.OffsetCommitRequestTopicPartition{{}}}}
	code := make(chan int16, 1)
	r.s.CommitOffsets(req, func(ts []kmsg.OffsetCommitResponseTopic) { code <- ts[0].Partitions[0].ErrorCode })
	return <-code
}

func (r *rig) consumerJoinCode(group string) int16 {
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Version, req.Group, req.MemberID, req.RebalanceTimeoutMillis = 1, group, "m", 1000
	req.SubscribedTopicNames, req.Topics = []string{"t"}, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	code := make(chan int16, 1)
	r.s.ConsumerGroupHeartbeat(RequestContext{Version: 1}, req, func(resp *kmsg.ConsumerGroupHeartbeatResponse) { code <- resp.ErrorCode })
	return <-code
}

func (r *rig) deleteGroup(group string) int16 {
	code := make(chan int16, 1)
	r.s.DeleteGroup(group, func(c int16) { code <- c })
	return <-code
}

// Each way to make a group is refused at the bound; groups that are there are served, and one that goes makes room. Loading
// counts what is in the log, and is never refused.
func TestGroupsAreBounded(t *testing.T) {
	cfg := DefaultConfig()
	cfg.MaxGroups = 5
	r := newRig(t, cfg)
	check := func(what string, got, want int16) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %d, want %d", what, got, want)
		}
	}
	full := kerr.CoordinatorLoadInProgress.Code
	for i := range cfg.MaxGroups {
		check("a commit within the bound", r.commitCode(fmt.Sprint("g", i)), 0)
	}
	checkFull := func() {
		t.Helper()
		check("commit", r.commitCode("more"), full)
		_, code := r.joinAs("more", "c", "")
		check("JoinGroup", code, full)
		check("ConsumerGroupHeartbeat", r.consumerJoinCode("more"), full)
		check("commit of a group that is there", r.commitCode("g1"), 0)
	}
	checkFull()
	if got := r.s.groups.Load(); got != int64(cfg.MaxGroups) {
		t.Errorf("%d are counted", got)
	}
	r.lead()
	for n := 0; r.s.groups.Load() != int64(cfg.MaxGroups); n++ { // the leadership before ends by itself
		if n == 5000 {
			t.Fatalf("%d are counted", r.s.groups.Load())
		}
		time.Sleep(time.Millisecond)
	}
	checkFull()
	check("DeleteGroups", r.deleteGroup("g0"), 0)
	check("a consumer group in its place", r.consumerJoinCode("more"), 0)
	check("commit", r.commitCode("another"), full)
	r.s.Resign(0, r.epoch)
	r.s.Close()
	if got := r.s.groups.Load(); got != 0 {
		t.Errorf("%d are counted after the leadership", got)
	}
}
