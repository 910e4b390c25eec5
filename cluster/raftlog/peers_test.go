package raftlog

import (
	"context"
	"math"
	"net"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"grete/cluster/metadata"
	"grete/internal/clock"
	"grete/internal/vfs"
	"grete/protocol"
	"grete/protocol/batch"
)

var nobody metadata.UUID // asked for a message that is no answer

// inbox is a node that keeps what it gets.
type inbox struct {
	messages chan *raftpb.Message
	reports  chan report
	gone     chan int32
}

func newInbox() *inbox {
	return &inbox{make(chan *raftpb.Message, 100), make(chan report, 100), make(chan int32, 100)}
}

func (i *inbox) Gone(id int32)                           { i.gone <- id }
func (i *inbox) Step(m *raftpb.Message, _ metadata.UUID) { i.messages <- m }
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
		h.peers.Receive(r.Body.(*protocol.RaftRequest), true, func(resp *protocol.RaftResponse) { r.Respond(resp) })
		return
	}
	r.Respond(versions())
}

// peersOf makes the network of a node that reaches the others at addresses.
func peersOf(t *testing.T, id int32, cluster string, addresses map[int32]string) (*Peers, *inbox) {
	t.Helper()
	p := NewPeers(PeersOptions{
		NodeID: id, ClusterID: cluster, DirectoryID: directory(id), Directory: directory, Clock: clock.System, Logger: zerolog.Nop(), Timeout: 2 * time.Second,
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

// A node that stops says so while its listener is there still, to those that send and to those that fetch.
func TestStoppingPeersAreGone(t *testing.T) {
	server, _ := peersOf(t, 1, "c", map[int32]string{})
	addresses := map[int32]string{1: listen(t, server)}
	sender, sent := peersOf(t, 2, "c", addresses)
	poller, polled := peersOf(t, 3, "c", addresses)
	server.Close()
	sender.Send(message(raftpb.MsgHeartbeat, 2, 1, nil), metadata.ZeroUUID)
	poller.Poll([]int32{1})
	for _, in := range []*inbox{sent, polled} {
		if id := receive(t, in.gone); id != 1 {
			t.Errorf("%d is gone", id)
		}
	}
}

// Messages arrive in order; a node that listens nowhere gets its own by polling; a lost snapshot is reported.
func TestPeersDeliver(t *testing.T) {
	server, in := peersOf(t, 1, "c", map[int32]string{})
	addresses := map[int32]string{1: listen(t, server), 9: "127.0.0.1:1"}
	sender, polled := peersOf(t, 2, "c", addresses)
	for i := range uint64(50) {
		sender.Send(message(raftpb.MsgHeartbeat, 2, 1, func(m *raftpb.Message) { m.Commit = &i }), nobody)
	}
	for i := range uint64(50) {
		if m := receive(t, in.messages); m.GetCommit() != i {
			t.Fatalf("message %d came in place %d", m.GetCommit(), i)
		}
	}
	sender.Poll([]int32{1})
	for range 2 {
		server.Send(message(raftpb.MsgHeartbeat, 1, 2, nil), nobody)
		if m := receive(t, polled.messages); nodeID(m.GetFrom()) != 1 {
			t.Errorf("a message from %d", nodeID(m.GetFrom()))
		}
	}
	sender.Send(message(raftpb.MsgSnap, 2, 9, nil), nobody)
	got := []report{receive(t, polled.reports), receive(t, polled.reports)}
	if !slices.Contains(got, report{9, true, false}) || !slices.Contains(got, report{9, false, false}) {
		t.Errorf("%+v", got)
	}
}

// A snapshot of many frames arrives whole, pushed or fetched, with what follows it; a part that is lost is the end of
// it.
func TestPeersDeliverInParts(t *testing.T) {
	server, in := peersOf(t, 1, "c", map[int32]string{})
	addresses := map[int32]string{1: listen(t, server)}
	sender, polled := peersOf(t, 2, "c", addresses)
	large := values(t, strings.Repeat("x", 5*partBytes/2))
	send := func(by *Peers, from, to int32) {
		by.Send(message(raftpb.MsgSnap, from, to, func(m *raftpb.Message) { m.Snapshot = snapshotOf(t, large) }), nobody)
		by.Send(message(raftpb.MsgHeartbeat, from, to, nil), nobody)
	}
	want := func(got *inbox) {
		t.Helper()
		if m := receive(t, got.messages); m.GetType() != raftpb.MsgSnap || len(m.GetSnapshot().GetData()) < len(large) {
			t.Errorf("%v of %d bytes", m.GetType(), len(m.GetSnapshot().GetData()))
		}
		if m := receive(t, got.messages); m.GetType() != raftpb.MsgHeartbeat {
			t.Errorf("%v after it", m.GetType())
		}
	}
	send(sender, 2, 1)
	want(in)
	if r := receive(t, polled.reports); r != (report{1, true, true}) {
		t.Errorf("%+v", r)
	}
	sender.Poll([]int32{1})
	send(server, 1, 2)
	want(polled)
	if r := receive(t, in.reports); r != (report{2, true, true}) {
		t.Errorf("%+v", r)
	}
	p := &peer{some: make(chan struct{}, 1)}
	p.push(outgoing{raw: large, snapshot: true})
	p.push(outgoing{raw: []byte("next")})
	if first := p.take(); len(first) != 1 || first[0].rest == 0 {
		t.Errorf("%d messages in the first frame", len(first))
	}
	p.abandon()
	if next := p.take(); len(next) != 1 || string(next[0].raw) != "next" || p.bytes != 0 {
		t.Errorf("%d messages, %d bytes left", len(next), p.bytes)
	}
}

// snapshotOf is one that checkSnapshot takes.
func snapshotOf(t *testing.T, b batch.Batch) *raftpb.Snapshot {
	t.Helper()
	fsys := newDisk(t)
	id := snapshotID{5, 1}
	records := func(yield func([]byte) bool) {
		for r := range b.Records() {
			yield(r.Value)
		}
	}
	must(t, writeSnapshot(fsys, dataDir, id, Members{voter(1), learner(2)}, 1, records))
	raw, err := vfs.ReadFile(fsys, path.Join(dataDir, id.fileName()), math.MaxInt64)
	must(t, err)
	index, term := uint64(id.end), uint64(id.epoch)
	return &raftpb.Snapshot{Data: raw, Metadata: &raftpb.SnapshotMetadata{ConfState: Members{voter(1)}.conf(), Index: &index, Term: &term}}
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
	for range 2 * queuedBytes / partBytes {
		p.push(outgoing{raw: make([]byte, partBytes)})
	}
	if p.bytes != queuedBytes || len(p.take()) != frameBytes/partBytes || p.bytes != queuedBytes-frameBytes {
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
		req := &protocol.RaftRequest{ClusterID: "c", From: 2, To: 1, MessageFrames: protocol.MessageFrames{Messages: [][]byte{encoded(good), encoded(m)}}}
		p.Receive(req, true, func(resp *protocol.RaftResponse) {
			if resp.ErrorCode != kerr.InvalidRequest.Code {
				t.Errorf("%s: %d", name, resp.ErrorCode)
			}
		})
	}
	emptied, answer := metadata.UUID{9}, encoded(message(raftpb.MsgAppResp, 2, 1, nil))
	for _, tt := range []struct {
		want int16
		req  protocol.RaftRequest
	}{
		{kerr.InconsistentClusterID.Code, protocol.RaftRequest{ClusterID: "other", From: 2, To: 1}},
		{kerr.InvalidRequest.Code, protocol.RaftRequest{ClusterID: "c", From: 2, To: 5}},
		{kerr.InvalidVoterKey.Code, protocol.RaftRequest{ClusterID: "c", From: 2, To: 1, ToDirectoryID: emptied}},
		{kerr.InvalidVoterKey.Code, protocol.RaftRequest{ClusterID: "c", From: 2, To: 1, FromDirectoryID: emptied, MaxWaitMs: 1}},
		{kerr.InvalidVoterKey.Code, protocol.RaftRequest{ClusterID: "c", From: 2, To: 1, FromDirectoryID: emptied, MessageFrames: protocol.MessageFrames{
			Messages: [][]byte{answer}}}},
		{kerr.InvalidRequest.Code, protocol.RaftRequest{ClusterID: "c", From: 2, To: 1, MessageFrames: protocol.MessageFrames{
			Continues: 5, Messages: [][]byte{encoded(good)}}}},
		{kerr.InvalidRequest.Code, protocol.RaftRequest{ClusterID: "c", From: 2, To: 1, MessageFrames: protocol.MessageFrames{
			Rest: maxMessageBytes + 1, Messages: [][]byte{encoded(good)}}}},
		{0, protocol.RaftRequest{ClusterID: "c", From: 2, To: 1, MessageFrames: protocol.MessageFrames{Messages: [][]byte{encoded(good)}}}},
	} {
		p.Receive(&tt.req, true, func(resp *protocol.RaftResponse) {
			if resp.ErrorCode != tt.want {
				t.Errorf("%+v: %d, want %d", tt.req, resp.ErrorCode, tt.want)
			}
		})
	}
	if len(in.messages) != 1 {
		t.Errorf("%d messages reached Raft", len(in.messages))
	}
}

// A voter that lost its disk and was let in anew gets the answers that it asks for, also of one that has not heard yet
// that the old one is out; it does not get what its former self asked for.
func TestAnswersGoToTheDirectoryThatAsked(t *testing.T) {
	anew := metadata.UUID{9}
	lagging, asked := peersOf(t, 1, "c", map[int32]string{})
	voter, answered := peersOf(t, 2, "c", map[int32]string{1: listen(t, lagging)})
	voter.o.DirectoryID = anew
	address := listen(t, voter)
	lagging.o.Address = func(int32) (string, bool) { return address, true }
	voter.Send(message(raftpb.MsgVote, 2, 1, nil), nobody)
	if m := receive(t, asked.messages); m.GetType() != raftpb.MsgVote {
		t.Fatalf("%v came", m.GetType())
	}
	old, fresh := uint64(4), uint64(5)
	lagging.Send(message(raftpb.MsgVoteResp, 1, 2, func(m *raftpb.Message) { m.Term = &old }), directory(2))
	lagging.Send(message(raftpb.MsgVoteResp, 1, 2, func(m *raftpb.Message) { m.Term = &fresh }), anew)
	if m := receive(t, answered.messages); m.GetTerm() != fresh {
		t.Errorf("the vote of term %d counts", m.GetTerm())
	}
}

// A leader's word about a log that this node has not makes Raft panic; it does not reach it.
func TestImplausibleMessagesAreDropped(t *testing.T) {
	n := startCluster(t, 3, 0)
	leader := n.commit(t, "a")
	other := n.nodes[leader.id%3+1]
	far, term := uint64(1)<<40, uint64(leader.leader.Load().Epoch)
	forge := func(kind raftpb.MessageType, to *member, from int32) {
		to.Step(message(kind, from, to.id, func(m *raftpb.Message) { m.Term, m.Commit, m.Index = &term, &far, &far }), directory(from))
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
