package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"grete/cluster"
	"grete/protocol"
)

// intruder is somebody who reaches a controller listener, and knows all that a client can learn.
type intruder struct {
	t       *testing.T
	c       *protocol.Client
	cluster string
}

func (c *nodes) intrude(i int) *intruder {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	address, _ := c.running[i].controllerAddress(int32(i + 1))
	client, err := protocol.Dial(ctx, address, protocol.ClientOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { client.Close() })
	return &intruder{c.t, client, c.running[0].ClusterID()}
}

func (in *intruder) call(req kmsg.Request) kmsg.Response {
	in.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	resp, err := in.c.Call(ctx, req)
	if err != nil {
		in.t.Fatalf("%T: %v", req, err)
	}
	return resp
}

func (in *intruder) hello(id int32) int16 {
	in.t.Helper()
	return in.call(&protocol.HelloRequest{
		ClusterID: in.cluster, NodeID: id, Nonce: make([]byte, cluster.NonceBytes), Secret: make([]byte, cluster.NonceBytes),
	}).(*protocol.HelloResponse).ErrorCode
}

func (in *intruder) raft(from, to int32, m *raftpb.Message) int16 {
	in.t.Helper()
	raw, err := proto.Marshal(m)
	if err != nil {
		in.t.Fatal(err)
	}
	req := &protocol.RaftRequest{ClusterID: in.cluster, From: from, To: to, MessageFrames: protocol.MessageFrames{Messages: [][]byte{raw}}}
	return in.call(req).(*protocol.RaftResponse).ErrorCode
}

func (in *intruder) forward(req kmsg.Request) int16 {
	in.t.Helper()
	req.SetVersion(req.MaxVersion())
	return in.call(&protocol.ForwardRequest{
		ClusterID: in.cluster, PrincipalType: "User", PrincipalName: "ANONYMOUS", APIKey: req.Key(), APIVersion: req.GetVersion(), Body: req.AppendTo(nil),
	}).(*protocol.ForwardResponse).ErrorCode
}

func raftMessage(kind raftpb.MessageType, from, to int32, term uint64) *raftpb.Message {
	f, t := uint64(from+1), uint64(to+1)
	return &raftpb.Message{Type: &kind, From: &f, To: &t, Term: &term}
}

// standing is what no intruder may change.
func (c *nodes) standing() string {
	i := c.leader()
	im := c.running[i].image()
	return fmt.Sprint("leader ", i, " epoch ", im.Epoch(), " topics ", im.TopicCount())
}

const denied = 31

// Who reaches a controller listener without being a node of the cluster gets nothing done there, whatever it says that
// it is.
func TestIntruderAtTheControllers(t *testing.T) {
	c := newNodes(t, 3)
	c.start(0, 1, 2)
	if err := c.create(0, "t", 3); err != nil {
		t.Fatal(err)
	}
	before := c.standing()
	for i := range c.running {
		self, other := int32(i+1), int32((i+1)%3+1)
		usurp := raftMessage(raftpb.MsgHeartbeat, other, self, 1000)
		in := c.intrude(i)
		refused := func(what string, code int16) {
			t.Helper()
			if code != denied {
				t.Errorf("node %d, %s: error %d", self, what, code)
			}
		}
		refused("Raft without a hello", in.raft(other, self, usurp))
		refused("a change without a hello", in.forward(createRequest("forged")))
		refused("a hello of another voter", in.hello(other))
		refused("Raft after it", in.raft(other, self, usurp))
		if code := in.hello(77); code != 0 {
			t.Fatalf("hello of a new node: error %d", code)
		}
		refused("Raft for another", in.raft(other, self, usurp))
		for _, kind := range []raftpb.MessageType{raftpb.MsgHeartbeat, raftpb.MsgVote, raftpb.MsgPreVote, raftpb.MsgVoteResp, raftpb.MsgTimeoutNow, raftpb.MsgApp, raftpb.MsgHeartbeatResp, raftpb.MsgAppResp} {
			refused(kind.String(), in.raft(77, self, raftMessage(kind, 77, self, 1000)))
		}
		refused("a change", in.forward(createRequest("forged")))
		refused("a shutdown of another broker", in.forward(&kmsg.BrokerHeartbeatRequest{BrokerID: other, BrokerEpoch: c.running[i].image().Broker(other).Epoch, WantShutdown: true}))
		refused("an ISR of another broker's", in.forward(&kmsg.AlterPartitionRequest{BrokerID: other, BrokerEpoch: c.running[i].image().Broker(other).Epoch}))
		refused("a registration of another broker", in.forward(&kmsg.BrokerRegistrationRequest{BrokerID: other, ClusterID: in.cluster}))
		form := in.call(&protocol.FormRequest{NodeID: other, Seeds: []string{"127.0.0.1:1"}}).(*protocol.FormResponse)
		if form.Consent || form.ClusterID != in.cluster {
			t.Errorf("node %d: %+v", self, form)
		}
		refused("another node's join", in.call(&protocol.JoinRequest{ClusterID: in.cluster, NodeID: other}).(*protocol.JoinResponse).ErrorCode)
	}
	if after := c.standing(); after != before {
		t.Errorf("%s became %s", before, after)
	}
	if err := c.create(1, "next", 3); err != nil {
		t.Errorf("the next good client: %v", err)
	}
}

func createRequest(name string) kmsg.Request {
	req := kmsg.NewPtrCreateTopicsRequest()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, 1, 1
	req.Topics = append(req.Topics, topic)
	return req
}

// Bytes that no node sends end their connection and nothing else; a line of the log says so, not one for each.
func TestGarbageAtTheControllers(t *testing.T) {
	c := newNodes(t, 3)
	var said lines
	c.options[0].Log = zerolog.New(&said)
	c.start(0, 1, 2)
	before := c.standing()
	address, _ := c.running[0].controllerAddress(1)
	rnd := rand.New(rand.NewPCG(1, 2))
	for n := range 300 {
		garbage := []byte("GET / HTTP/1.1\r\n\r\n")
		switch n % 4 {
		case 1: // a length over every bound
			garbage = []byte{0x7f, 0xff, 0xff, 0xff, 3, 0xe8, 0, 0}
		case 2: // a whole frame of noise, for one of our keys
			garbage = append([]byte{0, 0, 0, 40, 3, byte(0xe8 + n%6), 0, 0, 0, 0, 0, 1, 0xff, 0xff}, make([]byte, 30)...)
			for i := range 30 {
				garbage[14+i] = byte(rnd.Uint32())
			}
		case 3: // a frame that ends too soon
			garbage = []byte{0, 0, 1, 0, 3, 0xe8, 0, 0}
		}
		nc, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = nc.Write(garbage)
		if n%4 != 3 {
			_ = nc.SetReadDeadline(time.Now().Add(5 * time.Second))
			if _, err := io.Copy(io.Discard, io.LimitReader(nc, 1000)); err != nil && strings.Contains(err.Error(), "timeout") && n%4 != 2 {
				t.Errorf("%d: the connection stays", n)
			}
		}
		nc.Close()
	}
	if after := c.standing(); after != before {
		t.Errorf("%s became %s", before, after)
	}
	if count := said.count("connection closed"); count == 0 || count > 20 {
		t.Errorf("%d lines about 225 connections", count)
	}
	if err := c.create(0, "next", 3); err != nil {
		t.Errorf("the next good client: %v", err)
	}
}

// lines is a log that is kept.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) count(what string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), what)
}

// A thousand nodes that nobody knows say hello, and fetch the quorum's messages: none is let in, and they take no place
// from those that are.
func TestFloodOfJoins(t *testing.T) {
	c := newNodes(t, 3)
	var said lines
	c.options[0].Log = zerolog.New(&said)
	c.start(0, 1, 2)
	before := c.standing()
	in := c.intrude(0)
	refused := 0
	for id := int32(1000); id < 2000; id++ {
		if code := in.hello(id); code != 0 {
			t.Fatalf("error %d", code)
		}
		if code := in.raft(id, 1, raftMessage(raftpb.MsgPreVote, id, 1, 50)); code != denied {
			t.Fatalf("a vote of node %d: error %d", id, code)
		}
		poll := in.call(&protocol.RaftRequest{ClusterID: in.cluster, From: id, To: 1, MaxWaitMs: 1}).(*protocol.RaftResponse)
		if len(poll.Messages) > 0 {
			t.Fatalf("node %d was sent something", id)
		}
		if errors.Is(kerr.ErrorForCode(poll.ErrorCode), kerr.ThrottlingQuotaExceeded) {
			refused++
		}
	}
	if refused < 400 {
		t.Errorf("%d of 1000 polls were refused", refused)
	}
	if after := c.standing(); after != before {
		t.Errorf("%s became %s", before, after)
	}
	if count := said.count("refused"); count == 0 || count > 30 {
		t.Errorf("%d lines about 1000 votes", count)
	}
	c.stop(2) // and comes back: it must find its place
	c.start(2)
	if err := c.create(2, "next", 3); err != nil {
		t.Errorf("the next good client: %v", err)
	}
}

// With a key, who has it not is not even taken in as a stranger; who has it makes the cluster as ever.
func TestIntruderWithoutTheKey(t *testing.T) {
	c := newNodes(t, 3, "gossip.key=MDEyMzQ1Njc4OWFiY2RlZg==")
	c.start(0, 1, 2)
	if err := c.create(0, "t", 3); err != nil {
		t.Fatal(err)
	}
	before := c.standing()
	in := c.intrude(0)
	for _, id := range []int32{2, 77} {
		hello := &protocol.HelloRequest{ClusterID: in.cluster, NodeID: id, Nonce: make([]byte, cluster.NonceBytes)}
		if resp := in.call(hello).(*protocol.HelloResponse); resp.ErrorCode != 0 || len(resp.Challenge) == 0 {
			t.Fatalf("%+v", resp)
		}
		hello.Proof = make([]byte, 32)
		if resp := in.call(hello).(*protocol.HelloResponse); resp.ErrorCode != denied {
			t.Errorf("%+v", resp)
		}
		poll := &protocol.RaftRequest{ClusterID: in.cluster, From: id, To: 1, MaxWaitMs: 1}
		if resp := in.call(poll).(*protocol.RaftResponse); resp.ErrorCode != denied {
			t.Errorf("%+v", resp)
		}
		registration := &kmsg.BrokerRegistrationRequest{BrokerID: id, ClusterID: in.cluster}
		if code := in.forward(registration); code != denied {
			t.Errorf("a registration: error %d", code)
		}
	}
	if after := c.standing(); after != before {
		t.Errorf("%s became %s", before, after)
	}
}
