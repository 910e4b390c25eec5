package group

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/coordinator"
	"grete/internal/clock"
)

// TestRandomMembers lets clients do whatever comes to mind, on a log that fails at times and a coordinator that
// restarts, and holds it to what must be true: counters agree with the members, every request is answered exactly
// once, a commit that was acknowledged is there, nothing that was refused is, and a restart finds the same groups.
func TestRandomMembers(t *testing.T) {
	seeds := uint64(30)
	if os.Getenv("GRETE_LONG") != "" {
		seeds = 3000
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := newWorld(t, seed)
			for range 600 {
				w.step()
				w.checkInvariants()
			}
			w.end()
		})
	}
}

type world struct {
	*rig
	rng      *rand.Rand
	clients  []*client
	asked    int // requests sent
	answered int
	acked    map[string]int64 // group/partition → last acknowledged offset
	tried    map[string]map[int64]bool
	failing  bool
	next     int64
}

// client is one member as its application sees it.
type client struct {
	name, group string
	instance    *string
	id          string
	generation  int32
	leader      bool
	members     []string
}

func newWorld(t *testing.T, seed uint64) *world {
	cfg := DefaultConfig()
	cfg.MaxSize = 9
	w := &world{rig: newRig(t, cfg), rng: rand.New(rand.NewPCG(seed, 1)), acked: map[string]int64{}, tried: map[string]map[int64]bool{}}
	for i := range 24 {
		c := &client{name: fmt.Sprint("c", i), group: fmt.Sprint("g", i%2)}
		if i%3 == 0 {
			c.instance = ptr(fmt.Sprint("i", i))
		}
		w.clients = append(w.clients, c)
	}
	return w
}

func (w *world) step() {
	c := w.clients[w.rng.IntN(len(w.clients))]
	switch n := w.rng.IntN(100); {
	case n < 35:
		w.join(c)
	case n < 55:
		w.sync(c)
	case n < 65:
		w.heartbeat(c)
	case n < 78:
		w.commit(c)
	case n < 82:
		w.leave(c)
	case n < 94:
		w.clock.Advance(time.Duration(w.rng.IntN(4000)) * time.Millisecond)
	case n < 98:
		w.toggleFailure()
	default:
		w.restart()
	}
}

func (w *world) toggleFailure() {
	w.failing = !w.failing
	w.log.FailAppends(nil)
	if w.failing {
		w.log.FailAppends(kerr.NotEnoughReplicas)
	}
}

// expect returns a function that must be called exactly once.
func (w *world) expect() func() {
	w.asked++
	done := false
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if done {
			w.t.Error("answered twice")
		}
		done = true
		w.answered++
	}
}

func (w *world) join(c *client) {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Version = int16(3 + w.rng.IntN(7))
	req.Group, req.MemberID, req.InstanceID = c.group, c.id, c.instance
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis, req.ProtocolType = 10000, 15000, consumerProtocolType
	req.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: subscription("t")}}
	if w.rng.IntN(3) == 0 {
		req.Protocols = append(req.Protocols, kmsg.JoinGroupRequestProtocol{Name: "rr", Metadata: subscription("t")})
	}
	answered := w.expect()
	w.s.JoinGroup(RequestContext{Version: req.Version, ClientID: c.name}, req, func(resp *kmsg.JoinGroupResponse) {
		answered()
		switch resp.ErrorCode {
		case 0:
			c.id, c.generation, c.leader = resp.MemberID, resp.Generation, resp.LeaderID == resp.MemberID
			c.members = nil
			for _, m := range resp.Members {
				c.members = append(c.members, m.MemberID)
			}
		case kerr.MemberIDRequired.Code:
			c.id = resp.MemberID
		case kerr.UnknownMemberID.Code, kerr.FencedInstanceID.Code:
			c.id = ""
		}
	})
}

func (w *world) sync(c *client) {
	req := kmsg.NewPtrSyncGroupRequest()
	req.Version, req.Group, req.MemberID, req.InstanceID, req.Generation = 4, c.group, c.id, c.instance, c.generation
	if c.leader {
		for _, m := range c.members {
			req.GroupAssignment = append(req.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{MemberID: m, MemberAssignment: fmt.Appendf(nil, "%s@%d", m, c.generation)})
		}
	}
	answered := w.expect()
	generation, id := c.generation, c.id
	w.s.SyncGroup(req, func(resp *kmsg.SyncGroupResponse) {
		answered()
		if want := fmt.Sprintf("%s@%d", id, generation); resp.ErrorCode == 0 && c.instance == nil && len(resp.MemberAssignment) > 0 && string(resp.MemberAssignment) != want {
			w.t.Errorf("%s got %q", want, resp.MemberAssignment)
		}
	})
}

func (w *world) heartbeat(c *client) {
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group, req.MemberID, req.InstanceID, req.Generation = c.group, c.id, c.instance, c.generation
	answered := w.expect()
	w.s.Heartbeat(req, func(int16) { answered() })
}

func (w *world) commit(c *client) {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Version, req.Group, req.MemberID, req.InstanceID, req.Generation = 9, c.group, c.id, c.instance, c.generation
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	w.next++
	p.Partition, p.Offset = int32(w.rng.IntN(5)), w.next
	req.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: "t", Partitions: []kmsg.OffsetCommitRequestTopicPartition{p}}}
	key := fmt.Sprint(c.group, "/", p.Partition)
	answered := w.expect()
	w.s.CommitOffsets(req, func(topics []kmsg.OffsetCommitResponseTopic) {
		answered()
		if topics[0].Partitions[0].ErrorCode == 0 {
			w.acked[key] = p.Offset
		}
	})
}

func (w *world) leave(c *client) {
	req := kmsg.NewPtrLeaveGroupRequest()
	m := kmsg.NewLeaveGroupRequestMember()
	m.MemberID, m.InstanceID = c.id, c.instance
	req.Group, req.Members = c.group, []kmsg.LeaveGroupRequestMember{m}
	answered := w.expect()
	w.s.LeaveGroup(req, func(*kmsg.LeaveGroupResponse) { answered() })
	c.id = ""
}

// restart compares what is reloaded with what was there. A group whose rebalance was under way falls back to its last
// record, so only settled ones must be the same.
func (w *world) restart() {
	before := w.settled()
	w.s.Close()
	w.log.FailAppends(nil)
	w.failing = false
	w.start()
	after := w.settled()
	for id, text := range before {
		if after[id] != text {
			w.t.Fatalf("before the restart: %s\nafter: %s", text, after[id])
		}
	}
}

func (w *world) inspect(look func(*shard)) {
	w.s.rt.Submit(0, op{Run: func(s *shard, _ *coordinator.Tx) { look(s) }, Refuse: func(err error) { w.t.Error(err) }})
}

// settled describes the stable groups, which are as their last record says unless that could not be written.
func (w *world) settled() map[string]string {
	out := map[string]string{}
	w.inspect(func(s *shard) {
		for id, g := range s.groups {
			if g := g.(*classicGroup); g.state == stable {
				out[id], _, _ = strings.Cut(groupText(g), " pending=")
				for _, m := range g.members {
					out[id] += fmt.Sprintf(" %q", m.assignment)
				}
			}
		}
	})
	return out
}

func (w *world) checkInvariants() {
	w.inspect(func(s *shard) {
		for id, g := range s.groups {
			w.checkGroup(id, g.(*classicGroup))
			if bad := checkExpiry(s, id, clock.Millis(w.clock)); bad != "" {
				w.t.Error(bad)
			}
		}
		checkWeights(w.t, s)
		for key, offset := range w.acked {
			var group string
			var partition int32
			fmt.Sscanf(key, "g%s", &group)
			fmt.Sscanf(key[3:], "%d", &partition)
			if c := s.offsets.get(key[:2], "t", partition); c == nil || c.offset != offset {
				w.t.Fatalf("%s: acknowledged %d, there is %+v", key, offset, c)
			}
		}
	})
	if w.t.Failed() {
		w.t.FailNow()
	}
}

func (w *world) checkGroup(id string, g *classicGroup) {
	joining, syncing, static := 0, 0, 0
	supported := map[string]int{}
	for _, m := range g.members {
		if m.join != nil {
			joining++
		}
		if m.syncPending {
			syncing++
		}
		if m.instance != nil {
			static++
			if g.static[*m.instance] != m {
				w.t.Errorf("%s: instance %s is not %s", id, *m.instance, m.id)
			}
		}
		if g.byID[m.id] != m {
			w.t.Errorf("%s: %s is not known by its id", id, m.id)
		}
		for _, p := range m.protocols {
			supported[p.name]++
		}
		if m.sync != nil && g.state != completingRebalance {
			w.t.Errorf("%s: a SyncGroup is parked in state %s", id, g.state)
		}
		if m.join != nil && g.state != preparingRebalance {
			w.t.Errorf("%s: a JoinGroup is parked in state %s", id, g.state)
		}
		if g.state != dead && !m.session.Set() && !m.excused() {
			w.t.Errorf("%s: nobody watches %s in state %s", id, m.id, g.state)
		}
	}
	if joining != g.awaitingJoin || syncing != g.pendingSync || static != len(g.static) || len(g.byID) != len(g.members) {
		w.t.Errorf("%s: counters %d/%d, %d/%d, %d/%d", id, joining, g.awaitingJoin, syncing, g.pendingSync, static, len(g.static))
	}
	if fmt.Sprint(supported) != fmt.Sprint(g.supported) {
		w.t.Errorf("%s: protocols %v, counted %v", id, supported, g.supported)
	}
	if (g.leader != "") != (len(g.members) > 0) || (g.leader != "" && g.byID[g.leader] == nil) {
		w.t.Errorf("%s: leader %q of %d members", id, g.leader, len(g.members))
	}
	if g.state == empty && len(g.members) > 0 || (g.state == stable || g.state == completingRebalance) && len(g.members) == 0 {
		w.t.Errorf("%s: %s with %d members", id, g.state, len(g.members))
	}
	if (g.state == preparingRebalance) != g.joinTimer.Set() {
		w.t.Errorf("%s: the timer of the join phase is %v in state %s", id, g.joinTimer.Set(), g.state)
	}
	if (g.pendingSync > 0) != g.syncTimer.Set() {
		w.t.Errorf("%s: the timer of the sync phase is %v, %d have not synced", id, g.syncTimer.Set(), g.pendingSync)
	}
	if g.awaitingJoin > w.cfg.MaxSize {
		w.t.Errorf("%s: %d members have joined", id, g.awaitingJoin)
	}
}

// end lets everyone time out: the groups run empty, and no request is left without its answer.
func (w *world) end() {
	w.log.FailAppends(nil)
	w.clock.Advance(10 * time.Minute)
	w.inspect(func(s *shard) {
		for id, g := range s.groups {
			if !g.empty() {
				w.t.Errorf("%s is not empty after ten minutes of silence: %s", id, groupText(g.(*classicGroup)))
			}
		}
	})
	w.s.Close()
	if w.asked != w.answered {
		w.t.Errorf("%d requests, %d answers", w.asked, w.answered)
	}
}
