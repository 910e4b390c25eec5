package group

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/coordinator"
	"grete/internal/memory"
)

// joinAs joins a group; -1 is the code of a request that waits. Without a member id it returns the one to come back
// with.
func (r *rig) joinAs(group, clientID, memberID string) (id string, code int16) {
	r.t.Helper()
	req := kmsg.NewPtrJoinGroupRequest()
	req.Version, req.Group, req.MemberID, req.ProtocolType = 5, group, memberID, consumerProtocolType
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = 1_800_000, 1000
	req.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: subscription("t")}}
	code = -1
	answer := make(chan *kmsg.JoinGroupResponse, 1)
	r.s.JoinGroup(RequestContext{Version: 5, ClientID: clientID}, req, func(resp *kmsg.JoinGroupResponse) { answer <- resp })
	r.look(func(*shard) {})
	r.look(func(*shard) {}) // in a later round than the join
	select {
	case resp := <-answer:
		id, code = resp.MemberID, resp.ErrorCode
	default:
	}
	return id, code
}

// look runs f as an operation of the shard.
func (r *rig) look(f func(*shard)) {
	done := make(chan struct{})
	r.s.rt.Submit(0, op{Run: func(sh *shard, _ *coordinator.Tx) { f(sh); close(done) }, Refuse: func(err error) { r.t.Error(err); close(done) }})
	<-done
}

func (r *rig) pendingJoins() (n int) {
	r.look(func(sh *shard) {
		for _, g := range sh.groups {
			n += len(g.(*classicGroup).pendingJoin)
		}
	})
	return n
}

// One client asks for member ids and never joins with them, in one group and in many.
func TestPendingJoinsAreBounded(t *testing.T) {
	for name, group := range map[string]func(int) string{
		"one group":   func(int) string { return "g" },
		"many groups": func(i int) string { return "g" + string(rune('a'+i%20)) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, DefaultConfig())
			first, code := r.joinAs(group(0), "c", "")
			if code != kerr.MemberIDRequired.Code {
				t.Fatal(code)
			}
			var last string
			n := maxPendingJoins + 100
			for i := 1; i <= n; i++ {
				last, _ = r.joinAs(group(i), "c", "")
			}
			if got := r.pendingJoins(); got != maxPendingJoins {
				t.Fatalf("%d wait, want %d", got, maxPendingJoins)
			}
			if _, code := r.joinAs(group(0), "c", first); code != kerr.UnknownMemberID.Code {
				t.Errorf("the oldest: %d", code)
			}
			if _, code := r.joinAs(group(n), "c", last); code != -1 {
				t.Errorf("the newest: %d, want to be parked", code)
			}
		})
	}
}

// Ids are bounded by their length, too: they begin with what the client calls itself.
func TestPendingJoinBytesAreBounded(t *testing.T) {
	r := newRig(t, DefaultConfig())
	long := strings.Repeat("x", 1<<14)
	for range 200 {
		r.joinAs("g", long, "")
	}
	if got := r.pendingJoins(); got*len(long) > maxPendingJoinBytes || got < maxPendingJoinBytes/(2*len(long)) {
		t.Errorf("%d ids of %d bytes are kept", got, len(long))
	}
}

// A rebalance that waits for a forgotten id goes on without it.
func TestForgottenIDLetsTheRebalanceGoOn(t *testing.T) {
	cfg := DefaultConfig()
	cfg.InitialRebalanceDelayMs = 0
	r := newRig(t, cfg)
	waits, _ := r.joinAs("g", "c", "")
	if id, _ := r.joinAs("g", "c", ""); id == "" {
		t.Fatal("no id")
	}
	if _, code := r.joinAs("g", "c", waits); code != -1 {
		t.Fatalf("answered %d before the other has joined", code)
	}
	for range maxPendingJoins {
		r.joinAs("other", "c", "")
	}
	state := ""
	r.look(func(sh *shard) { state = sh.groups["g"].stateName() })
	if state != "CompletingRebalance" {
		t.Errorf("the group is %s", state)
	}
}

// Ids are bounded by what the ledger lends to all shards together; the last one of a shard has its place always. What a
// shard remembers goes back when it ends.
func TestPendingJoinsBorrow(t *testing.T) {
	cfg := DefaultConfig()
	const most = 50
	cfg.Joins = memory.New(256 * most * (givenIDBytes + 10)).Joins
	r := newRig(t, cfg)
	for range 3 * most {
		r.joinAs("g", "c", "")
	}
	if got := r.pendingJoins(); got > most || got < most/2 || cfg.Joins.UsedBytes() > cfg.Joins.ShareBytes() {
		t.Errorf("%d ids are kept, %d bytes lent of %d", got, cfg.Joins.UsedBytes(), cfg.Joins.ShareBytes())
	}
	cfg.Joins.Force(cfg.Joins.ShareBytes()) // by others
	last, _ := r.joinAs("g", "c", "")
	if got := r.pendingJoins(); got != 1 {
		t.Errorf("%d ids are kept where others have the memory", got)
	}
	if _, code := r.joinAs("g", "c", last); code != -1 {
		t.Errorf("the newest: %d, want to be parked", code)
	}
	cfg.Joins.Give(cfg.Joins.ShareBytes())
	r.s.Close()
	if used := cfg.Joins.UsedBytes(); used != 0 {
		t.Errorf("%d bytes are lent in the end", used)
	}
}
