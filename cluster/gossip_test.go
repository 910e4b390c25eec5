package cluster

import (
	"bytes"
	"compress/lzw"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-msgpack/v2/codec"
	"github.com/hashicorp/memberlist"
	"github.com/rs/zerolog"

	"grete/internal/clock"
	"grete/internal/uuid"
)

// gossiper is a node of a test, on loopback.
type gossiper struct {
	*Gossip
	address string
	dead    atomic.Bool
	gone    chan Peer
	log     *lines
}

// lines is what a node logs.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) warnings() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), `"level":"warn"`)
}

// lossy drops packets that are sent.
type lossy struct {
	net.PacketConn
	percent int
}

func (l lossy) WriteTo(b []byte, to net.Addr) (int, error) {
	if rand.IntN(100) < l.percent {
		return len(b), nil
	}
	return l.PacketConn.WriteTo(b, to)
}

// sockets binds both kinds to one port.
func sockets(t testing.TB) (net.Listener, net.PacketConn) {
	t.Helper()
	for range 50 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		p, err := net.ListenPacket("udp", l.Addr().String())
		if err == nil {
			return l, p
		}
		l.Close()
	}
	t.Fatal("no port is free for both")
	return nil, nil
}

func gossip(t testing.TB, self Peer, key []byte, lossPercent int, join ...string) *gossiper {
	t.Helper()
	l, p := sockets(t)
	g := &gossiper{address: l.Addr().String(), gone: make(chan Peer, 100), log: &lines{}}
	var err error
	g.Gossip, err = StartGossip(context.Background(), GossipOptions{
		Self: self, Join: join, Key: key, Streams: l, Packets: lossy{p, lossPercent}, Advertise: net.IPv4(127, 0, 0, 1), Clock: clock.System,
		Log: zerolog.New(g.log), OnGone: func(p Peer) { g.gone <- p },
		Dial: func(ctx context.Context, address string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", address)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if !g.dead.Load() {
			_ = g.Close(context.Background())
		}
	})
	return g
}

// kill ends a node's gossip without leave.
func (g *gossiper) kill() {
	g.dead.Store(true)
	g.cancel()
	g.wg.Wait()
	_ = g.list.Shutdown()
}

func (g *gossiper) ids() (ids []int32) {
	for _, p := range g.Peers() {
		ids = append(ids, p.NodeID)
	}
	return ids
}

func node(id int32) Peer {
	return Peer{
		NodeID: id, Incarnation: uuid.UUID{1, byte(id)}, Roles: BrokerRole | ControllerRole, Controller: fmt.Sprint("host:", 9090+id),
		Broker: fmt.Sprint("host:", 9190+id),
	}
}

func eventually(t testing.TB, what string, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !f(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

func sees(g *gossiper, ids ...int32) func() bool {
	return func() bool { return slices.Equal(g.ids(), ids) }
}

// three starts nodes 1, 2 and 3, which all see each other.
func three(t testing.TB, key []byte, lossPercent int) []*gossiper {
	t.Helper()
	first := gossip(t, node(1), key, lossPercent)
	all := []*gossiper{first, gossip(t, node(2), key, lossPercent, first.address), gossip(t, node(3), key, lossPercent, first.address)}
	for _, g := range all {
		eventually(t, "all see each other", sees(g, 1, 2, 3))
	}
	return all
}

// Nodes find each other through one seed, tell each other what they are and which cluster they made, and notice who
// leaves and who dies.
func TestGossipFindsAndLoses(t *testing.T) {
	for _, key := range [][]byte{nil, bytes.Repeat([]byte("k"), 32)} {
		all := three(t, key, 0)
		want := node(3)
		if got := all[0].Peers()[2]; got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
		all[0].Formed("cluster")
		eventually(t, "the cluster", func() bool { return all[1].Peers()[0].ClusterID == "cluster" })
		if err := all[2].Close(context.Background()); err != nil {
			t.Error(err)
		}
		all[2].dead.Store(true)
		eventually(t, "node 3 has left", sees(all[0], 1, 2))
		if p := <-all[0].gone; p.NodeID != 3 {
			t.Errorf("%+v is gone", p)
		}
		began := time.Now()
		all[1].kill()
		if p := <-all[0].gone; p.NodeID != 2 {
			t.Errorf("%+v is gone", p)
		}
		t.Logf("a node that died was given up after %v", time.Since(began))
	}
}

// With half of the packets lost nodes still find each other, and a node that died is given up.
func TestGossipBearsLoss(t *testing.T) {
	all := three(t, nil, 50)
	all[2].kill()
	eventually(t, "node 3 is given up", sees(all[0], 1, 2))
}

// Who has not the key stays outside, and so do its packets; of many, few lines are logged.
func TestGossipIsEncrypted(t *testing.T) {
	key := bytes.Repeat([]byte("k"), 16)
	inside := gossip(t, node(1), key, 0)
	gossip(t, node(2), bytes.Repeat([]byte("x"), 16), 0, inside.address)
	gossip(t, node(3), nil, 0, inside.address)
	flood(t, inside.address, func(i int) []byte { return alive(fmt.Sprint("node-", 10+i), node(int32(10+i))) }, 3*maxPeers)
	time.Sleep(3 * probeInterval)
	if !sees(inside, 1)() {
		t.Errorf("inside are %v", inside.ids())
	}
	if n := inside.log.warnings(); n == 0 || n > 3 {
		t.Errorf("%d warnings", n)
	}
}

// A seed that does not let a node in is remembered with the reason, which is logged once; one that does is not.
func TestGossipSaysWhySeedsAreSilent(t *testing.T) {
	key, other := bytes.Repeat([]byte("k"), 16), bytes.Repeat([]byte("x"), 16)
	keyed, open := gossip(t, node(1), key, 0), gossip(t, node(2), nil, 0)
	silent, packets := sockets(t)
	silent.Close()
	packets.Close()
	const ours, none = "not with this node's gossip.key", "not as a node without gossip.key"
	for _, tt := range []struct {
		key     []byte
		seed    string
		why     string // "": let in
		answers bool
	}{
		{key, keyed.address, "", false},
		{other, keyed.address, ours, true},
		{nil, keyed.address, none, true},
		{key, open.address, ours, true},
		{key, silent.Addr().String(), "no answer: connection refused", false},
		{key, "nowhere.invalid:7946", "its name does not resolve: ", false},
	} {
		g := gossip(t, node(3), tt.key, 0, tt.seed)
		<-g.Asked()
		time.Sleep(3 * minRejoin) // it is asked twice
		got := g.Unjoined()
		if tt.why == "" {
			if len(got) > 0 {
				t.Errorf("%+v", got)
			}
			continue
		}
		if len(got) != 1 || got[0].Seed != tt.seed || !strings.Contains(got[0].Why, tt.why) || got[0].Answers != tt.answers || strings.Contains(got[0].Why, "\n") {
			t.Errorf("%+v, want %q", got, tt.why)
		}
		g.log.mu.Lock()
		if n := strings.Count(g.log.text.String(), "has not let this node in"); n != 1 {
			t.Errorf("%q is said %d times", tt.why, n)
		}
		g.log.mu.Unlock()
	}
}

// encoded is a message as memberlist makes it.
func encoded(kind byte, fields map[string]any) []byte {
	var b bytes.Buffer
	b.WriteByte(kind)
	if err := codec.NewEncoder(&b, &codec.MsgpackHandle{}).Encode(fields); err != nil {
		panic(err)
	}
	return b.Bytes()
}

const aliveKind = 4

func alive(name string, p Peer) []byte {
	meta, err := p.encode()
	if err != nil {
		panic(err)
	}
	return encoded(aliveKind, map[string]any{
		"Incarnation": 1, "Node": name, "Addr": []byte{127, 0, 0, 1}, "Port": 1, "Meta": meta, "Vsn": []byte{1, 5, 2, 0, 0, 0},
	})
}

func flood(t *testing.T, address string, packet func(i int) []byte, count int) {
	t.Helper()
	nc, err := net.Dial("udp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	for i := range count {
		_, _ = nc.Write(packet(i))
		if i%100 == 0 {
			time.Sleep(time.Millisecond)
		}
	}
}

// A flood of forged nodes ends at maxPeers; nodes whose description is not theirs never enter.
func TestGossipBoundsPeers(t *testing.T) {
	g := gossip(t, node(1), nil, 0)
	flood(t, g.address, func(i int) []byte { return alive("node-5", node(6)) }, 100)
	for range 5 {
		flood(t, g.address, func(i int) []byte { return alive(fmt.Sprint("node-", 10+i), node(int32(10+i))) }, 3*maxPeers)
	}
	eventually(t, "many", func() bool { return len(g.ids()) > maxPeers/2 })
	if n := len(g.ids()); n > maxPeers || slices.Contains(g.ids(), 5) || slices.Contains(g.ids(), 6) {
		t.Errorf("%d nodes, %v", n, g.ids()[:5])
	}
	g.mu.Lock()
	known := len(g.known)
	g.mu.Unlock()
	if known > maxPeers {
		t.Errorf("%d names are remembered", known)
	}
}

// bomb is a compressed message that would be 40 MiB.
func bomb() []byte {
	var b bytes.Buffer
	w := lzw.NewWriter(&b, lzw.LSB, 8)
	_, _ = w.Write(make([]byte, 40<<20))
	w.Close()
	return encoded(9, map[string]any{"Algo": 0, "Buf": b.Bytes()})
}

// Bombs, lies about lengths, messages that never end and noise have no effect, cost no memory, and are logged a few
// times.
func TestGossipRefusesBadInput(t *testing.T) {
	g := gossip(t, node(1), nil, 0)
	explosive := bomb()
	compound := func(inner []byte) []byte {
		return append([]byte{compoundKind, 1, byte(len(inner) >> 8), byte(len(inner))}, inner...)
	}
	lying := append([]byte{pushPullKind}, encoded(0, map[string]any{"Nodes": 1 << 20, "UserStateLen": 19 << 20, "Join": true})[1:]...)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	packets := [][]byte{explosive[:min(len(explosive), 60000)], compound(explosive[:min(len(explosive), 60000)]), compound(compound([]byte{0})), {compoundKind, 255}, {crcKind}, {244, 5, 1}}
	flood(t, g.address, func(i int) []byte {
		if i%2 == 0 {
			return packets[i/2%len(packets)]
		}
		noise := make([]byte, rand.IntN(1000))
		for j := range noise {
			noise[j] = byte(rand.Uint32())
		}
		if len(noise) > 0 {
			noise[0] %= 14
		}
		return noise
	}, 2000)
	for _, raw := range [][]byte{explosive, lying, bytes.Repeat([]byte{8}, 100), {encryptKind, 255, 255, 255, 255}, []byte("GET / HTTP/1.1\r\n\r\n"), append([]byte{pushPullKind}, make([]byte, 2*maxStreamBytes)...)} {
		nc, err := net.Dial("tcp", g.address)
		if err != nil {
			t.Fatal(err)
		}
		_ = nc.SetDeadline(time.Now().Add(5 * time.Second))
		_, _ = nc.Write(raw)
		_, _ = io.Copy(io.Discard, nc)
		nc.Close()
	}
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > 200<<20 {
		t.Errorf("%d MiB were allocated", used>>20)
	}
	if n := g.log.warnings(); n > 3 {
		t.Errorf("%d warnings", n)
	}
	other := gossip(t, node(2), nil, 0, g.address)
	eventually(t, "a good node", sees(g, 1, 2))
	eventually(t, "a good node", sees(other, 1, 2))
}

// Connections are bounded.
func TestGossipBoundsStreams(t *testing.T) {
	g := gossip(t, node(1), nil, 0)
	var open []net.Conn
	for range 3 * maxStreams {
		nc, err := net.Dial("tcp", g.address)
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		open = append(open, nc)
	}
	refused := 0
	for _, nc := range open {
		_ = nc.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
		if _, err := nc.Read(make([]byte, 1)); err == io.EOF {
			refused++
		}
	}
	if refused < 2*maxStreams {
		t.Errorf("%d of %d connections were refused", refused, len(open))
	}
	if n := g.transport.open.Load(); n > maxStreams {
		t.Errorf("%d are open", n)
	}
}

// A second node of an id, and a node of another cluster, are kept out and remembered.
func TestGossipDoubts(t *testing.T) {
	mine := node(1)
	mine.ClusterID = "mine"
	first := gossip(t, mine, nil, 0)
	twin := mine
	twin.Incarnation = uuid.UUID{9}
	second := gossip(t, twin, nil, 0, first.address)
	eventually(t, "the first node", func() bool { return slices.Contains(second.Doubtful(), mine) })
	stranger := node(2)
	stranger.ClusterID = "theirs"
	third := gossip(t, stranger, nil, 0, first.address)
	eventually(t, "the other cluster", func() bool { return slices.Contains(third.Doubtful(), mine) })
	if !sees(first, 1)() || !sees(third, 2)() {
		t.Errorf("%v, %v", first.ids(), third.ids())
	}
}

// Descriptions survive the way, and nothing else is one.
func TestPeerEncoding(t *testing.T) {
	p := node(7)
	p.ClusterID = "AtooUxuCQG-trMmwpgfZiw"
	raw, err := p.encode()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := decodePeer("node-7", raw); got != p || err != nil {
		t.Errorf("%+v, %v", got, err)
	}
	for cut := range raw {
		if _, err := decodePeer("node-7", raw[:cut]); err == nil {
			t.Errorf("%d bytes are a description", cut)
		}
	}
	if _, err := decodePeer("node-8", raw); err == nil {
		t.Error("another node's description")
	}
	p.Broker = strings.Repeat("h", memberlist.MetaMaxSize)
	if _, err := p.encode(); err == nil {
		t.Error("too long")
	}
}

// FuzzGossip sends packets and streams to a node, which must live.
func FuzzGossip(f *testing.F) {
	g := gossip(f, node(1), nil, 0)
	f.Add(alive("node-2", node(2)), false)
	f.Add(encoded(pingKind, map[string]any{"SeqNo": 1, "Node": "node-1", "SourceAddr": []byte{127, 0, 0, 1}, "SourcePort": 9}), true)
	f.Add(append([]byte{pushPullKind}, encoded(0, map[string]any{"Nodes": 3, "UserStateLen": 9, "Join": true})[1:]...), true)
	f.Add([]byte{compoundKind, 2, 0, 1, 0, 1, 0, 0}, false)
	f.Fuzz(func(t *testing.T, raw []byte, stream bool) {
		if !stream {
			nc, err := net.Dial("udp", g.address)
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
			_, _ = nc.Write(raw[:min(len(raw), 60000)])
			return
		}
		nc, err := net.Dial("tcp", g.address)
		if err != nil {
			t.Skip(err)
		}
		defer nc.Close()
		_, _ = nc.Write(raw)
		_ = nc.(*net.TCPConn).CloseWrite()
		_ = nc.SetReadDeadline(time.Now().Add(time.Second))
		_, _ = io.Copy(io.Discard, nc)
	})
}
