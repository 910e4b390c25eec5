package cluster

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/internal/clock"
	"grete/internal/uuid"
	"grete/protocol"
)

const (
	// NonceBytes is the length of nonces, challenges and secrets: nobody guesses them.
	NonceBytes = 16
	// maxVouching is how many nodes may be asked at a time whether a Hello was theirs; more Hellos are to come again.
	maxVouching  = 32
	vouchTimeout = time.Second
)

// ErrNotProven: the node that answered has not got the cluster's key.
var ErrNotProven = errors.New("the node does not know the cluster's key")

// IncarnationOf is the incarnation id of a broker's run: everybody may know it, as it is in the metadata log, but only
// the run itself knows what it was made of.
func IncarnationOf(secret []byte) uuid.UUID {
	return uuid.New(func(p []byte) {
		sum := sha256.Sum256(secret)
		secret = sum[:]
		copy(p, secret)
	})
}

// IdentityOptions describe a node to the others.
type IdentityOptions struct {
	NodeID    int32
	ClusterID func() string
	Secret    []byte // what IncarnationOf made this run's incarnation id of; empty for a node that is no broker
	Key       []byte // that all nodes of the cluster share; empty: they go by addresses
	Random    func(p []byte)
	// Ask sends a request to where a node is known to listen for others; protocol.ErrNoAddress when that is not known.
	Ask   func(ctx context.Context, id int32, req kmsg.Request) (kmsg.Response, error)
	Clock clock.Clock
}

// Identity introduces this node to others, and finds out whether others are who they say (docs/adr/0009).
type Identity struct {
	o        IdentityOptions
	seed     [NonceBytes]byte // of challenges
	vouching chan struct{}    // a slot each

	mu   sync.Mutex
	mine map[[NonceBytes]byte]bool // nonces of our own Hellos under way
}

// NewIdentity makes the identity of a run.
func NewIdentity(o IdentityOptions) *Identity {
	i := &Identity{o: o, vouching: make(chan struct{}, maxVouching), mine: map[[NonceBytes]byte]bool{}}
	o.Random(i.seed[:])
	return i
}

// Greet says Hello on a connection that was just dialled (protocol.ClientOptions.Greet).
func (i *Identity) Greet(ctx context.Context, c *protocol.Client) error {
	nonce := i.begin()
	defer i.end(nonce)
	hello := &protocol.HelloRequest{ClusterID: i.o.ClusterID(), NodeID: i.o.NodeID, Secret: i.o.Secret, Nonce: nonce[:]}
	answer, err := i.hello(ctx, c, hello)
	if err != nil || len(i.o.Key) == 0 && len(answer.Challenge) == 0 {
		return err
	}
	hello.Proof = i.proof("hello", hello, answer.Challenge)
	welcome, err := i.hello(ctx, c, hello)
	if err == nil && !hmac.Equal(welcome.Proof, i.proof("welcome", hello, answer.Challenge)) {
		err = ErrNotProven
	}
	return err
}

func (i *Identity) hello(ctx context.Context, c *protocol.Client, hello *protocol.HelloRequest) (*protocol.HelloResponse, error) {
	resp, err := c.Call(ctx, hello)
	if err != nil {
		return nil, err
	}
	answer := resp.(*protocol.HelloResponse)
	if answer.ErrorCode != 0 {
		return nil, fmt.Errorf("hello: %w", kerr.ErrorForCode(answer.ErrorCode))
	}
	return answer, nil
}

func (i *Identity) begin() (nonce [NonceBytes]byte) {
	i.o.Random(nonce[:])
	i.mu.Lock()
	defer i.mu.Unlock()
	i.mine[nonce] = true
	return nonce
}

func (i *Identity) end(nonce [NonceBytes]byte) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.mine, nonce)
}

// Vouch answers whether a Hello under way is ours.
func (i *Identity) Vouch(req *protocol.VouchRequest) *protocol.VouchResponse {
	resp := &protocol.VouchResponse{NodeID: i.o.NodeID}
	if len(req.Nonce) == NonceBytes {
		i.mu.Lock()
		defer i.mu.Unlock()
		resp.Mine = i.mine[[NonceBytes]byte(req.Nonce)]
	}
	return resp
}

// claim is whom a Hello names, without proof; code refuses it.
func (i *Identity) claim(req *protocol.HelloRequest) (p *protocol.Peer, code int16) {
	own := i.o.ClusterID()
	switch {
	case own == "":
		return nil, kerr.CoordinatorNotAvailable.Code
	case req.ClusterID != own:
		return nil, kerr.InconsistentClusterID.Code
	case req.NodeID < 0 || req.NodeID == i.o.NodeID || len(req.Nonce) != NonceBytes || len(req.Secret) != 0 && len(req.Secret) != NonceBytes:
		return nil, kerr.InvalidRequest.Code
	}
	p = &protocol.Peer{NodeID: req.NodeID}
	if len(req.Secret) > 0 {
		p.Incarnation = IncarnationOf(req.Secret)
	}
	return p, 0
}

// Receive answers a Hello that came on connection conn. Without peer in the answer the connection is nobody's yet.
//
// With a key the sender has to show that it has it. Without one, and if ask says so, a node whose address is known is
// asked there, which may take vouchTimeout; one that nobody can ask, or that does not answer there (it may have moved),
// is taken in unproven, and gets no say in the quorum.
func (i *Identity) Receive(ctx context.Context, conn uint64, req *protocol.HelloRequest, ask bool) (*protocol.HelloResponse, *protocol.Peer) {
	peer, code := i.claim(req)
	switch {
	case code != 0:
		return &protocol.HelloResponse{ErrorCode: code}, nil
	case len(i.o.Key) > 0:
		return i.proveByKey(conn, req, peer)
	case !ask:
		return &protocol.HelloResponse{}, peer
	}
	proven, err := i.vouched(ctx, req)
	if err != nil {
		return &protocol.HelloResponse{ErrorCode: refusal(err)}, nil
	}
	peer.Proven = proven
	return &protocol.HelloResponse{}, peer
}

func (i *Identity) proveByKey(conn uint64, req *protocol.HelloRequest, peer *protocol.Peer) (*protocol.HelloResponse, *protocol.Peer) {
	challenge := i.challenge(conn, req.Nonce)
	if len(req.Proof) == 0 {
		return &protocol.HelloResponse{Challenge: challenge}, nil
	}
	if !hmac.Equal(req.Proof, i.proof("hello", req, challenge)) {
		return &protocol.HelloResponse{ErrorCode: kerr.ClusterAuthorizationFailed.Code}, nil
	}
	peer.Proven = true
	return &protocol.HelloResponse{Proof: i.proof("welcome", req, challenge)}, peer
}

// challenge differs for every connection, so that nobody can send again what was heard on another.
func (i *Identity) challenge(conn uint64, nonce []byte) []byte {
	h := hmac.New(sha256.New, i.seed[:])
	h.Write(binary.BigEndian.AppendUint64(nil, conn))
	h.Write(nonce)
	return h.Sum(nil)[:NonceBytes]
}

func (i *Identity) proof(direction string, req *protocol.HelloRequest, challenge []byte) []byte {
	h := hmac.New(sha256.New, i.o.Key)
	fmt.Fprintf(h, "grete %s %q %d %x %x %x", direction, req.ClusterID, req.NodeID, req.Secret, req.Nonce, challenge)
	return h.Sum(nil)
}

var (
	errNotItsOwn = errors.New("the node says that the hello was not its own")
	errBusy      = errors.New("too many nodes say hello")
)

func refusal(err error) int16 {
	if errors.Is(err, errBusy) {
		return kerr.ThrottlingQuotaExceeded.Code
	}
	return kerr.ClusterAuthorizationFailed.Code
}

// vouched asks the node that a Hello names, where it is known to listen: who cannot answer there is not that node.
// false without error: nobody knows where it listens, or it does not answer.
func (i *Identity) vouched(ctx context.Context, req *protocol.HelloRequest) (bool, error) {
	select {
	case i.vouching <- struct{}{}:
		defer func() { <-i.vouching }()
	default:
		return false, errBusy
	}
	ctx, cancel := clock.WithTimeout(ctx, i.o.Clock, vouchTimeout)
	defer cancel()
	resp, err := i.o.Ask(ctx, req.NodeID, &protocol.VouchRequest{Nonce: req.Nonce})
	if err != nil {
		return false, nil
	}
	answer := resp.(*protocol.VouchResponse)
	if answer.NodeID != req.NodeID || !answer.Mine {
		return false, errNotItsOwn
	}
	return true, nil
}
