package group

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/internal/memory"
)

func (r *rig) commitCode(group string) int16 {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Version, req.Group, req.Generation = 8, group, -1
	req.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: "t", Partitions: []kmsg.OffsetCommitRequestTopicPartition{{}}}}
	code := make(chan int16, 1)
	r.s.CommitOffsets(req, func(ts []kmsg.OffsetCommitResponseTopic) { code <- ts[0].Partitions[0].ErrorCode })
	return <-code
}

func (r *rig) consumerJoinCode(group string) int16 { return r.consumerJoinCodeAs(group, "m") }

func (r *rig) consumerJoinCodeAs(group, member string) int16 {
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Version, req.Group, req.MemberID, req.RebalanceTimeoutMillis = 1, group, member, 1000
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

// checkWeights compares what is counted of members with what is there.
func checkWeights(t testing.TB, s *shard) {
	t.Helper()
	sum := int64(0)
	for id, g := range s.groups {
		own := int64(0)
		switch g := g.(type) {
		case *classicGroup:
			for _, m := range g.members {
				own += m.bytes()
			}
		case *consumerGroup:
			for _, m := range g.members {
				own += m.bytes()
			}
		}
		if w := g.(weigher).weighs(); w.bytes != own {
			t.Errorf("members of %s take %d bytes, %d are counted", id, own, w.bytes)
		}
		sum += own
	}
	if sum != s.membersBytes {
		t.Errorf("members take %d bytes, %d are counted", sum, s.membersBytes)
	}
}

// What members offer is bounded: one that offers too much is refused, one that offers no more than it did is served,
// and a member that leaves makes room.
func TestMembersAreBounded(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Memory = memory.New(8 * (GroupBytes + 64<<10)).Groups
	r := newRig(t, cfg)
	join := func(instance string, bytes int) int16 {
		req := kmsg.NewPtrJoinGroupRequest()
		req.Version, req.Group, req.InstanceID, req.ProtocolType = 5, "g", &instance, consumerProtocolType
		req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = 1_800_000, 1000
		req.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: make([]byte, bytes)}}
		answer := make(chan int16, 1)
		r.s.JoinGroup(RequestContext{Version: 5, ClientID: "c"}, req, func(resp *kmsg.JoinGroupResponse) { answer <- resp.ErrorCode })
		r.look(func(s *shard) { checkWeights(t, s) })
		select {
		case code := <-answer:
			return code
		default:
			return 0 // it waits for others
		}
	}
	full := kerr.CoordinatorLoadInProgress.Code
	for _, step := range []struct {
		instance string
		bytes    int
		want     int16
	}{{"a", 100 << 10, full}, {"a", 40 << 10, 0}, {"b", 40 << 10, full}, {"b", 10 << 10, 0}, {"a", 40 << 10, 0}, {"b", 30 << 10, full}, {"a", 100, 0}, {"b", 40 << 10, 0}} {
		if got := join(step.instance, step.bytes); got != step.want {
			t.Errorf("%s with %d bytes: %d, want %d", step.instance, step.bytes, got, step.want)
		}
	}
	if used := cfg.Memory.UsedBytes(); used < 40<<10 || used > 48<<10 {
		t.Errorf("%d bytes are lent", used)
	}
}

// Members of consumer groups are bounded, too; one that is there is served.
func TestConsumersAreBounded(t *testing.T) {
	cfg := DefaultConfig()
	cfg.Memory = memory.New(8 * (GroupBytes + 2*(memberBytes+100))).Groups
	r := newRig(t, cfg)
	full := kerr.CoordinatorLoadInProgress.Code
	for i, want := range []int16{0, 0, full, full} {
		if got := r.consumerJoinCodeAs("g", fmt.Sprint("m", i)); got != want {
			t.Errorf("member %d: %d, want %d", i, got, want)
		}
	}
	if got := r.consumerJoinCodeAs("g", "m0"); got != 0 {
		t.Errorf("the first member again: %d", got)
	}
	r.look(func(s *shard) { checkWeights(t, s) })
}

// Each way to make a group is refused at the bound; groups that are there are served, and one that goes makes room.
// Loading counts what is in the log, and is never refused.
func TestGroupsAreBounded(t *testing.T) {
	cfg := DefaultConfig()
	const most, offset = 5, offsetBytes
	cfg.Memory = memory.New(8 * most * (GroupBytes + offset)).Groups
	counted := func() int64 { return cfg.Memory.UsedBytes() / (GroupBytes + offset) }
	r := newRig(t, cfg)
	check := func(what string, got, want int16) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %d, want %d", what, got, want)
		}
	}
	full := kerr.CoordinatorLoadInProgress.Code
	for i := range most {
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
	if got := counted(); got != most {
		t.Errorf("%d are counted", got)
	}
	r.lead()
	for n := 0; counted() != most; n++ { // the leadership before ends by itself
		if n == 5000 {
			t.Fatalf("%d are counted", counted())
		}
		time.Sleep(time.Millisecond)
	}
	checkFull()
	check("DeleteGroups", r.deleteGroup("g0"), 0)
	check("a consumer group in its place", r.consumerJoinCode("more"), 0)
	check("commit", r.commitCode("another"), full)
	r.s.Resign(0, r.epoch)
	r.s.Close()
	if got := counted(); got != 0 {
		t.Errorf("%d are counted after the leadership", got)
	}
}

// Offsets are bounded with the groups: a commit that takes more is refused, one in the place of another is taken, and
// what is deleted, or aborted, comes back.
func TestOffsetsAreBounded(t *testing.T) {
	cfg := DefaultConfig()
	const room = 10
	cfg.Memory = memory.New(8 * (GroupBytes + room*(offsetBytes+100))).Groups
	r := newRig(t, cfg)
	commit := func(partition int32, metadataBytes int) int16 {
		req := kmsg.NewPtrOffsetCommitRequest()
		metadata := strings.Repeat("m", metadataBytes)
		req.Version, req.Group, req.Generation = 8, "g", -1
		req.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: "t", Partitions: []kmsg.OffsetCommitRequestTopicPartition{{Partition: partition, Metadata: &metadata}}}}
		code := make(chan int16, 1)
		r.s.CommitOffsets(req, func(ts []kmsg.OffsetCommitResponseTopic) { code <- ts[0].Partitions[0].ErrorCode })
		return <-code
	}
	full := kerr.CoordinatorLoadInProgress.Code
	for p := range int32(room) {
		if code := commit(p, 100); code != 0 {
			t.Fatalf("commit %d: %d", p, code)
		}
	}
	for _, c := range []struct {
		what          string
		partition     int32
		metadataBytes int
		want          int16
	}{
		{"another partition", room, 0, full},
		{"longer metadata", 3, 101, full},
		{"the same again", 3, 100, 0},
		{"shorter metadata", 3, 50, 0},
		{"longer than it was then, within the bound", 4, 150, 0},
	} {
		if code := commit(c.partition, c.metadataBytes); code != c.want {
			t.Errorf("%s: %d, want %d", c.what, code, c.want)
		}
	}
	if used := cfg.Memory.UsedBytes(); used != cfg.Memory.ShareBytes() {
		t.Errorf("%d bytes are lent of %d", used, cfg.Memory.ShareBytes())
	}
	if code := r.deleteGroup("g"); code != 0 || cfg.Memory.UsedBytes() != 0 {
		t.Errorf("deletion: %d, %d bytes are lent after it", code, cfg.Memory.UsedBytes())
	}
}
