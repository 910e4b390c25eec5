package controller

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"grete/cluster/metadata"
	"grete/cluster/raftlog"
	"grete/internal/clock"
	"grete/protocol"
)

var (
	lostDir, newDir = metadata.UUID{1}, metadata.UUID{2}
	thisRun         = metadata.UUID{3}
	voterTwo        = raftlog.Member{NodeID: 2, DirectoryID: lostDir, Voter: true}
)

// A vote is taken for lost when the node itself says so, and nobody can be its former self: this very run answers where
// the voter was, another node does, or the machine refuses. Silence and another run are no proof.
func TestLostVoteIsProven(t *testing.T) {
	r := newRig(memory(t), "/data", 1)
	must(t, r.open())
	r.register(t)
	defer r.kill(t)
	lead := r.lead.Load()
	done, err := r.raft.Reconfigure(lead.Epoch, func(raftlog.Quorum) (raftlog.Change, error) { return raftlog.Change{Set: &voterTwo}, nil })
	must(t, err)
	must(t, raftlog.AwaitChange(context.Background(), done))

	itself := Answer{Address: "a", NodeID: 2, Incarnation: thisRun}
	twin := Answer{Address: "b", NodeID: 2, Incarnation: metadata.UUID{4}}
	silent, refused := Answer{Address: "c", Err: errSilent}, Answer{Address: "d", Err: errRefused}
	stranger := Answer{Address: "e", NodeID: 7}
	for _, tt := range []struct {
		what    string
		change  func(*protocol.JoinRequest)
		answers []Answer
		lost    bool
		refusal string
	}{
		{what: "it answers", answers: []Answer{itself}, lost: true},
		{what: "nobody listens", answers: []Answer{refused}, lost: true},
		{what: "another node has the address", answers: []Answer{stranger, itself}, lost: true},
		{what: "silence", answers: []Answer{itself, silent}, refusal: "c, where it was, does not answer: it may be cut off"},
		{what: "another run", answers: []Answer{refused, twin}, refusal: "another node with its id answers at b"},
		{what: "not emptied, or not proven", change: func(q *protocol.JoinRequest) { q.Emptied = false }, answers: []Answer{itself}},
		{what: "the voter itself", change: func(q *protocol.JoinRequest) { q.DirectoryID = lostDir }, answers: []Answer{itself}},
		{what: "no voter", change: func(q *protocol.JoinRequest) { q.NodeID = 3 }, answers: []Answer{itself}},
	} {
		req := &protocol.JoinRequest{NodeID: 2, DirectoryID: newDir, Incarnation: thisRun, Emptied: true}
		if tt.change != nil {
			tt.change(req)
		}
		r.o.Answering = func(_ context.Context, m raftlog.Member) []Answer {
			if !m.Equal(voterTwo) {
				t.Errorf("asked where %+v is", m)
			}
			return tt.answers
		}
		f, lost := r.lostVote(context.Background(), req)
		if (lost != nil) != tt.lost || (f != nil) != (tt.refusal != "") {
			t.Errorf("%s: lost %+v, refusal %+v", tt.what, lost, f)
			continue
		}
		if code, message := f.fields(); f != nil && (code != kerr.DuplicateVoter.Code || !strings.Contains(*message, tt.refusal) || !strings.Contains(*message, "remove-controller")) {
			t.Errorf("%s: %d %s", tt.what, code, *message)
		}
	}
}

// A vote that is proven to be lost goes once it was silent for a session; then the node comes as a learner. Any other
// vote stays.
func TestAdmit(t *testing.T) {
	now := time.UnixMilli(100_000)
	n := &Node{o: Options{ClusterID: "c", Clock: clock.NewManual(now)}}
	silentMs := n.o.Config.Int("broker.session.timeout.ms")
	quorum := func(m raftlog.Member, heardMs int64) raftlog.Quorum {
		return raftlog.Quorum{SinceMs: 1, Members: []raftlog.MemberState{{Member: m, HeardMs: heardMs}}}
	}
	changed := voterTwo
	changed.DirectoryID = metadata.UUID{9}
	for _, tt := range []struct {
		what  string
		q     raftlog.Quorum
		lost  *raftlog.Member
		code  int16
		leave bool
	}{
		{"proven and silent", quorum(voterTwo, now.UnixMilli()-silentMs), &voterTwo, 0, true},
		{"proven, and heard of", quorum(voterTwo, now.UnixMilli()-silentMs+1), &voterTwo, kerr.DuplicateBrokerRegistration.Code, false},
		{"not proven", quorum(voterTwo, 1), nil, kerr.DuplicateVoter.Code, false},
		{"another directory was proven to be lost", quorum(voterTwo, 1), &changed, kerr.DuplicateVoter.Code, false},
		{"gone by now", quorum(raftlog.Member{NodeID: 1}, 1), &voterTwo, 0, false},
	} {
		c, again, f := n.admit(tt.q, &protocol.JoinRequest{NodeID: 2, DirectoryID: newDir}, tt.lost)
		code, _ := f.orNone()
		if code != tt.code || (c.Remove != nil) != tt.leave || again != tt.leave {
			t.Errorf("%s: %+v, again %v, code %d", tt.what, c, again, code)
		}
		if c.Set != nil && (c.Set.Voter || c.Set.DirectoryID != newDir) {
			t.Errorf("%s: %+v", tt.what, c.Set)
		}
	}
}
