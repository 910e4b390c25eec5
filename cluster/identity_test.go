package cluster

import (
	"bytes"
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/internal/clock"
	"grete/protocol"
)

// street is where nodes are asked, by id.
type street struct {
	mu    sync.Mutex
	nodes map[int32]func(*protocol.VouchRequest) (*protocol.VouchResponse, error)
}

func (s *street) ask(_ context.Context, id int32, req kmsg.Request) (kmsg.Response, error) {
	s.mu.Lock()
	answer := s.nodes[id]
	s.mu.Unlock()
	if answer == nil {
		return nil, protocol.ErrNoAddress
	}
	return answer(req.(*protocol.VouchRequest))
}

// identityOf makes a node that lives in the street.
func (s *street) identityOf(id int32, key string) *Identity {
	i := newIdentityIn(s, id, key)
	s.move(id, func(req *protocol.VouchRequest) (*protocol.VouchResponse, error) { return i.Vouch(req), nil })
	return i
}

// move has somebody answer where a node is known to live.
func (s *street) move(id int32, answer func(*protocol.VouchRequest) (*protocol.VouchResponse, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nodes[id] = answer
}

var fills = struct {
	sync.Mutex
	n byte
}{}

func newIdentityIn(s *street, id int32, key string) *Identity {
	return NewIdentity(IdentityOptions{
		NodeID: id, ClusterID: func() string { return "c" }, Secret: bytes.Repeat([]byte{byte(id)}, NonceBytes), Key: []byte(key),
		Random: func(p []byte) {
			fills.Lock()
			defer fills.Unlock()
			fills.n++
			for i := range p {
				p[i] = fills.n
			}
		},
		Ask: s.ask, Clock: clock.System,
	})
}

func newStreet() *street {
	return &street{nodes: map[int32]func(*protocol.VouchRequest) (*protocol.VouchResponse, error){}}
}

// door is a controller listener of a node.
type door struct {
	identity *Identity
	mu       sync.Mutex
	peers    []*protocol.Peer
}

func (*door) Versions() []protocol.VersionRange {
	return []protocol.VersionRange{{Key: 18, Max: 5}, {Key: protocol.HelloKey}}
}

func (d *door) Serve(ctx context.Context, r *protocol.Request) {
	hello, ok := r.Body.(*protocol.HelloRequest)
	if !ok {
		r.Respond(r.Body.ResponseKind())
		return
	}
	resp, peer := d.identity.Receive(ctx, r.Conn.ID, hello, true)
	if peer != nil {
		d.mu.Lock()
		d.peers = append(d.peers, peer)
		d.mu.Unlock()
	}
	r.Respond(resp)
}

func (d *door) seen() []*protocol.Peer { d.mu.Lock(); defer d.mu.Unlock(); return d.peers }

// open serves the listener of a node.
func open(t *testing.T, i *Identity) (*door, string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &door{identity: i}
	server := protocol.NewServer(d, protocol.Options{Log: zerolog.Nop()})
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve("CONTROLLER", l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = server.Shutdown(ctx)
		<-done
	})
	return d, l.Addr().String()
}

func greet(t *testing.T, address string, i *Identity) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	c, err := protocol.Dial(ctx, address, protocol.ClientOptions{Greet: i.Greet})
	if err == nil {
		c.Close()
	}
	return err
}

// Without a key a node is believed where the node at its address says that the hello was its own.
func TestHelloIsVouchedFor(t *testing.T) {
	s := newStreet()
	here, there := s.identityOf(1, ""), s.identityOf(2, "")
	d, address := open(t, here)
	if err := greet(t, address, there); err != nil {
		t.Fatal(err)
	}
	if p := d.seen(); len(p) != 1 || p[0].NodeID != 2 || !p[0].Proven || p[0].Incarnation != IncarnationOf(bytes.Repeat([]byte{2}, NonceBytes)) {
		t.Errorf("%+v", p)
	}
	if there.Vouch(&protocol.VouchRequest{Nonce: make([]byte, NonceBytes)}).Mine {
		t.Error("vouches for anything")
	}
	if len(there.mine) > 0 {
		t.Errorf("%d nonces are kept", len(there.mine))
	}
	stranger := newIdentityIn(s, 9, "") // nobody knows where it is: a broker that only dials
	if err := greet(t, address, stranger); err != nil || d.seen()[1].Proven || d.seen()[1].NodeID != 9 {
		t.Errorf("%v, %+v", err, d.seen())
	}
}

// A forger says another node's id, but cannot answer at its address.
func TestForgedHello(t *testing.T) {
	s := newStreet()
	here := s.identityOf(1, "")
	s.identityOf(2, "")
	d, address := open(t, here)
	refuses := func(what string, want *kerr.Error, i *Identity) {
		t.Helper()
		if err := greet(t, address, i); !errors.Is(err, want) {
			t.Errorf("%s: %v", what, err)
		}
	}
	refuses("another node's id", kerr.ClusterAuthorizationFailed, newIdentityIn(s, 2, ""))
	other := newIdentityIn(s, 3, "")
	other.o.ClusterID = func() string { return "another" }
	refuses("another cluster", kerr.InconsistentClusterID, other)
	refuses("its own id", kerr.InvalidRequest, newIdentityIn(s, 1, ""))
	refuses("a negative id", kerr.InvalidRequest, newIdentityIn(s, -1, ""))
	s.move(2, func(*protocol.VouchRequest) (*protocol.VouchResponse, error) {
		return &protocol.VouchResponse{NodeID: 4, Mine: true}, nil
	})
	refuses("another node lives there", kerr.ClusterAuthorizationFailed, newIdentityIn(s, 2, ""))
	s.move(2, func(*protocol.VouchRequest) (*protocol.VouchResponse, error) { return nil, errors.New("no answer") })
	if err := greet(t, address, newIdentityIn(s, 2, "")); err != nil || len(d.seen()) != 1 || d.seen()[0].Proven {
		t.Errorf("nobody answers there: %v, %+v", err, d.seen())
	}
	unformed := newIdentityIn(s, 5, "")
	unformed.o.ClusterID = func() string { return "" }
	_, address = open(t, unformed)
	refuses("too early", kerr.CoordinatorNotAvailable, newIdentityIn(s, 2, ""))
	if len(d.seen()) != 1 {
		t.Errorf("believed %+v", d.seen())
	}
}

// With a key nothing else counts; what was heard on one connection is of no use on another.
func TestHelloWithKey(t *testing.T) {
	s := newStreet()
	here, there := s.identityOf(1, "sesame"), s.identityOf(2, "sesame")
	d, address := open(t, here)
	if err := greet(t, address, there); err != nil || len(d.seen()) != 1 || !d.seen()[0].Proven {
		t.Fatalf("%v, %+v", err, d.seen())
	}
	if err := greet(t, address, newIdentityIn(s, 2, "guess")); !errors.Is(err, kerr.ClusterAuthorizationFailed) {
		t.Errorf("another key: %v", err)
	}
	if err := greet(t, address, newIdentityIn(s, 2, "")); err == nil {
		t.Error("no key is as good")
	}
	_, keyless := open(t, newIdentityIn(s, 3, ""))
	if err := greet(t, keyless, there); !errors.Is(err, ErrNotProven) {
		t.Errorf("a node without the key was greeted: %v", err)
	}
	first := &protocol.HelloRequest{ClusterID: "c", NodeID: 2, Nonce: make([]byte, NonceBytes)}
	resp, peer := here.Receive(context.Background(), 7, first, true)
	if peer != nil || len(resp.Challenge) != NonceBytes {
		t.Fatalf("%+v, %+v", resp, peer)
	}
	first.Proof = there.proof("hello", first, resp.Challenge)
	if _, peer = here.Receive(context.Background(), 8, first, true); peer != nil {
		t.Error("a proof was taken twice, on two connections")
	}
	if resp, peer = here.Receive(context.Background(), 7, first, true); peer == nil || resp.ErrorCode != 0 {
		t.Error("a good proof was not taken")
	}
	first.NodeID = 3
	if _, peer = here.Receive(context.Background(), 7, first, true); peer != nil {
		t.Error("a proof of one node was taken for another")
	}
}

// A flood of hellos that name a node which is slow to answer does not pile up.
func TestFloodOfHellos(t *testing.T) {
	s := newStreet()
	here := newIdentityIn(s, 1, "")
	release, asked := make(chan struct{}), make(chan struct{}, 1000)
	s.move(2, func(*protocol.VouchRequest) (*protocol.VouchResponse, error) {
		asked <- struct{}{}
		<-release
		return &protocol.VouchResponse{NodeID: 2}, nil
	})
	hello := &protocol.HelloRequest{ClusterID: "c", NodeID: 2, Nonce: make([]byte, NonceBytes)}
	var wg sync.WaitGroup
	for range maxVouching {
		wg.Go(func() { here.Receive(context.Background(), 1, hello, true) })
	}
	for range maxVouching {
		<-asked
	}
	for range 1000 - maxVouching {
		if resp, _ := here.Receive(context.Background(), 1, hello, true); resp.ErrorCode != kerr.ThrottlingQuotaExceeded.Code {
			t.Fatalf("error %d", resp.ErrorCode)
		}
	}
	close(release)
	wg.Wait()
	if len(asked) > 0 {
		t.Errorf("%d more were asked", len(asked))
	}
	s.identityOf(2, "")
	if resp, peer := here.Receive(context.Background(), 1, hello, true); peer != nil || resp.ErrorCode != kerr.ClusterAuthorizationFailed.Code {
		t.Errorf("after the flood: %+v", resp)
	}
}

func TestIncarnationOfASecret(t *testing.T) {
	a, b := bytes.Repeat([]byte{1}, NonceBytes), bytes.Repeat([]byte{2}, NonceBytes)
	id := IncarnationOf(a)
	if id != IncarnationOf(bytes.Clone(a)) || id == IncarnationOf(b) || bytes.Equal(id[:], a) {
		t.Errorf("%v", id)
	}
}
