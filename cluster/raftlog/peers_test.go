package raftlog

import (
	"context"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"grete/internal/clock"
	"grete/protocol"
)

// inbox is a node that keeps what it gets.
type inbox struct {
	messages chan *raftpb.Message
	reports  chan report
	gone     chan int32
}

func newInbox() *inbox {
	return &inbox{make(chan *raftpb.Message, 100), make(chan report, 100), make(chan int32, 100)}
}

func (i *inbox) Gone(id int32)          { i.gone <- id }
func (i *inbox) Step(m *raftpb.Message) { i.messages <- m }
func (i *inbox) Report(id int32, snapshot, delivered bool) {
	i.reports <- report{id, snapshot, delivered}
}

// raftHandler serves Peers on a socket.
type raftHandler struct{ peers *Peers }

func (raftHandler) Versions() []protocol.VersionRange {
	return []protocol.VersionRange{{Key: 18, Max: 5}, {Key: protocol.RaftKey}}
}

func (h raftHandler) Serve(_ context.Context, r *protocol.Request) {
	if r.Key == protocol.RaftKey {
		h.peers.Receive(r.Body.(*protocol.RaftRequest), func(resp *protocol.RaftResponse) { r.Respond(resp) })
		return
	}
	r.Respond(versions())
}

// peersOf makes the network of a node that reaches the others at addresses.
func peersOf(t *testing.T, id int32, cluster string, addresses map[int32]string) (*Peers, *inbox) {
	t.Helper()
	p := NewPeers(PeersOptions{
		NodeID: id, ClusterID: cluster, Clock: clock.System, Logger: zerolog.Nop(), Timeout: 2 * time.Second,
		Address: func(id int32) (string, bool) { a, ok := addresses[id]; return a, ok },
	})
	in := newInbox()
	var r receiver = in
	p.node.Store(&r)
	t.Cleanup(p.Close)
	return p, in
}

func listen(t *testing.T, p *Peers) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	serveOn(t, p, l)
	return l.Addr().String()
}

func serveOn(t *testing.T, p *Peers, l net.Listener) {
	server := protocol.NewServer(raftHandler{p}, protocol.Options{Log: zerolog.Nop()})
	go server.Serve("CONTROLLER", l)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = server.Shutdown(ctx)
	})
}

func message(kind raftpb.MessageType, from, to int32, change func(*raftpb.Message)) *raftpb.Message {
	f, o, term := raftID(from), raftID(to), uint64(3)
	m := &raftpb.Message{Type: kind.Enum(), From: &f, To: &o, Term: &term}
	if change != nil {
		change(m)
	}
	return m
}

func receive[T any](t *testing.T, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(10 * time.Second):
		t.Fatal("nothing came")
		panic("unreachable")
	}
}

// Messages arrive in order; a node that listens nowhere gets its own by polling; a lost snapshot is reported.
func TestPeersDeliver(t *testing.T) {
	server, in := peersOf(t, 1, "c", map[int32]string{})
	addresses := map[int32]string{1: listen(t, server), 9: "127.0.0.1:1"}
	sender, polled := peersOf(t, 2, "c", addresses)
	for i := range uint64(50) {
		sender.Send(message(raftpb.MsgHeartbeat, 2, 1, func(m *raftpb.Message) { m.Commit = &i }))
	}
	for i := range uint64(50) {
		if m := receive(t, in.messages); m.GetCommit() != i {
			t.Fatalf("message %d came in place %d", m.GetCommit(), i)
		}
	}
	sender.Poll(1)
	for range 2 {
		server.Send(message(raftpb.MsgHeartbeat, 1, 2, nil))
		if m := receive(t, polled.messages); nodeID(m.GetFrom()) != 1 {
			t.Errorf("a message from %d", nodeID(m.GetFrom()))
		}
	}
	sender.Send(message(raftpb.MsgSnap, 2, 9, nil))
	got := []report{receive(t, polled.reports), receive(t, polled.reports)}
	if !slices.Contains(got, report{9, true, false}) || !slices.Contains(got, report{9, false, false}) {
		t.Errorf("%+v", got)
	}
}

// A queue has an end, and a frame too.
func TestPeersAreBounded(t *testing.T) {
	p := &peer{some: make(chan struct{}, 1)}
	for range queuedMessages + 5 {
		p.push(outgoing{raw: make([]byte, 1)})
	}
	if len(p.queue) != queuedMessages {
		t.Errorf("%d messages are queued", len(p.queue))
	}
	p = &peer{some: make(chan struct{}, 1)}
	for range 2 * queuedBytes / frameBytes {
		p.push(outgoing{raw: make([]byte, frameBytes)})
	}
	if p.bytes != queuedBytes || len(p.take()) != 1 || p.bytes != queuedBytes-frameBytes {
		t.Errorf("%d bytes are queued", p.bytes)
	}
	peers, _ := peersOf(t, 1, "c", nil)
	for id := range int32(maxKnownPeers + 1) {
		peers.peer(id + 2)
	}
	if len(peers.peers) != maxKnownPeers {
		t.Errorf("%d peers", len(peers.peers))
	}
}

// What no node of the cluster would send is refused whole, and Raft hears nothing of it.
func TestForgedMessagesAreRefused(t *testing.T) {
	p, in := peersOf(t, 1, "c", nil)
	sound := values(t, "a", "b", "c")
	sound.SetBaseOffset(0)
	entry := func(index, term uint64, data []byte) *raftpb.Entry {
		return &raftpb.Entry{Index: &index, Term: &term, Type: raftpb.EntryNormal.Enum(), Data: data}
	}
	app := func(entries ...*raftpb.Entry) *raftpb.Message {
		return message(raftpb.MsgApp, 2, 1, func(m *raftpb.Message) { m.Entries = entries })
	}
	damaged := slices.Clone(sound)
	damaged[len(damaged)-1]++
	huge := uint64(1) << 40
	encoded := func(m *raftpb.Message) []byte { raw, err := proto.Marshal(m); must(t, err); return raw }
	good := app(entry(1, 3, sound), entry(2, 3, nil), entry(3, 3, nil))
	for name, m := range map[string]*raftpb.Message{
		"proposal":         message(raftpb.MsgProp, 2, 1, nil),
		"local":            message(raftpb.MsgHup, 2, 1, nil),
		"another sender":   message(raftpb.MsgHeartbeat, 3, 1, nil),
		"another receiver": message(raftpb.MsgHeartbeat, 2, 3, nil),
		"term":             message(raftpb.MsgVote, 2, 1, func(m *raftpb.Message) { m.Term = &huge }),
		"no term":          message(raftpb.MsgHeartbeat, 2, 1, func(m *raftpb.Message) { m.Term = nil }),
		"damaged batch":    app(entry(1, 3, damaged)),
		"gap":              app(entry(2, 3, sound)),
		"later term":       app(entry(1, 4, sound)),
		"within a batch":   app(entry(1, 3, sound), entry(2, 3, sound)),
		"empty snapshot":   message(raftpb.MsgSnap, 2, 1, nil),
	} {
		req := &protocol.RaftRequest{ClusterID: "c", From: 2, To: 1, Messages: [][]byte{encoded(good), encoded(m)}}
		p.Receive(req, func(resp *protocol.RaftResponse) {
			if resp.ErrorCode != kerr.InvalidRequest.Code {
				t.Errorf("%s: %d", name, resp.ErrorCode)
			}
		})
	}
	for want, req := range map[int16]*protocol.RaftRequest{
		kerr.InconsistentClusterID.Code: {ClusterID: "other", From: 2, To: 1},
		kerr.InvalidRequest.Code:        {ClusterID: "c", From: 2, To: 5},
		0:                               {ClusterID: "c", From: 2, To: 1, Messages: [][]byte{encoded(good)}},
	} {
		p.Receive(req, func(resp *protocol.RaftResponse) {
			if resp.ErrorCode != want {
				t.Errorf("%d, want %d", resp.ErrorCode, want)
			}
		})
	}
	if len(in.messages) != 1 {
		t.Errorf("%d messages reached Raft", len(in.messages))
	}
}

// A leader's word about a log that this node has not makes Raft panic; it does not reach it.
func TestImplausibleMessagesAreDropped(t *testing.T) {
	n := startCluster(t, 3, 0)
	leader := n.commit(t, "a")
	other := n.nodes[leader.id%3+1]
	far, term := uint64(1)<<40, uint64(leader.leader.Load().Epoch)
	forge := func(kind raftpb.MessageType, to *member, from int32) {
		to.Step(message(kind, from, to.id, func(m *raftpb.Message) { m.Term, m.Commit, m.Index = &term, &far, &far }))
	}
	forge(raftpb.MsgHeartbeat, other, leader.id)
	forge(raftpb.MsgAppResp, leader, other.id)
	n.commit(t, "b")
	n.awaitEqual(t)
	for _, m := range n.nodes {
		n.stop(t, m)
	}
}

func versions() *kmsg.ApiVersionsResponse {
	resp := kmsg.NewPtrApiVersionsResponse()
	resp.ApiKeys = []kmsg.ApiVersionsResponseApiKey{{ApiKey: 18, MaxVersion: 5}, {ApiKey: protocol.RaftKey}}
	return resp
}
