package replicas

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster/metadata"
	"grete/cluster/replica"
	"grete/handlers"
	"grete/internal/clock"
	"grete/internal/config"
	"grete/internal/memory"
	"grete/internal/vfs"
	"grete/logstore"
	"grete/protocol"
)

// node is one life of a broker: from a start to a crash.
type node struct {
	w        *world
	id       int32
	fs       *vfs.Mem
	files    *vfs.Faulty
	dead     atomic.Bool
	epoch    atomic.Int64
	store    *logstore.Store
	replicas *replica.Manager
	server   *protocol.Server
	conns    *pipes

	image   atomic.Pointer[metadata.Image]
	news    chan struct{} // holds one
	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup
}

func (w *world) startNode(id int32, fs *vfs.Mem) *node {
	n := &node{w: w, id: id, fs: fs, files: vfs.NewFaulty(fs), news: make(chan struct{}, 1), conns: newPipes()}
	n.image.Store(&metadata.Image{})
	n.ctx, n.cancel = context.WithCancel(context.Background())
	var err error
	n.store, err = logstore.Open(n.ctx, logstore.Options{
		FS: n.files, Clock: clock.System, Log: zerolog.Nop(), Dirs: []string{"/data"}, FlushOffsetCheckpointInterval: time.Second,
	})
	w.must(err)
	n.replicas = replica.NewManager(replica.Options{
		NodeID: id, Store: n.store, Clock: clock.System, Log: w.log.With().Int32("node", id).Logger(),
		TopicConfig: replica.NewConfigs(config.Layers{}, id).Of,
		Replication: replica.Replication{
			LagTimeMaxMs: 2000,
			Fetch: replica.FetchSettings{
				Fetchers: 1, MaxBytes: 2000, MinBytes: 1, ResponseMaxBytes: 10 << 20, WaitMaxMs: 500, BackoffMs: 200, SocketTimeoutMs: 3000,
			},
			BrokerEpoch: n.epoch.Load, Dial: n.dial, Alter: n.alter,
		},
	})
	n.server = protocol.NewServer(&handlers.Broker{
		NodeID: id, Image: n.image.Load, Clock: clock.System, Log: zerolog.Nop(), Replicas: n.replicas,
		FetchSessions: handlers.NewFetchSessions(10, memory.New(0).Sessions, clock.System, rand.NewPCG(w.seed, uint64(id))),
		Limits:        handlers.Limits{FetchMaxBytes: 50 << 20},
	}, protocol.Options{Log: zerolog.Nop(), MaxQueuedBytes: 1 << 30})
	n.running.Go(func() { _ = n.server.Serve("SIM", n.conns) })
	n.epoch.Store(w.control.register(id))
	n.catchUp()
	n.replicas.Start()
	n.running.Go(n.follow)
	return n
}

// follow applies metadata as it arrives: late, but in order.
func (n *node) follow() {
	for {
		select {
		case <-n.news:
		case <-n.ctx.Done():
			return
		}
		for n.image.Load().Offset() < n.w.control.end() && n.ctx.Err() == nil {
			_ = clock.Pause(n.ctx, clock.System, n.w.delay())
			n.applyNext()
		}
	}
}

// catchUp takes over all that was decided so far at once: on the way there are leaderships of former lives.
func (n *node) catchUp() {
	im := n.w.control.image()
	everything := metadata.NewBuilder(im)
	everything.Replaces(im)
	_, delta := everything.Build(im.Offset(), im.Epoch())
	n.replicas.Apply(n.image.Load(), im, delta)
	n.image.Store(im)
}

func (n *node) applyNext() {
	old := n.image.Load()
	im, delta := n.w.control.next(n, old)
	n.replicas.Apply(old, im, delta)
	n.image.Store(im)
}

// stop ends this life. What the disk keeps was taken before.
func (n *node) stop() {
	n.dead.Store(true)
	n.cancel()
	n.replicas.Stop()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	n.conns.Close()
	_ = n.server.Shutdown(ctx)
	n.running.Wait()
	_ = n.store.Close()
}

var (
	errDead = errors.New("sim: no such broker")
	errLost = errors.New("sim: message lost")
)

// link is a connection from one node to another.
type link struct {
	from, to *node
	client   *protocol.Client
}

func (n *node) dial(ctx context.Context, id int32) (replica.Peer, error) {
	if err := clock.Pause(ctx, clock.System, n.w.delay()); err != nil {
		return nil, err
	}
	to := n.w.node(id)
	if to == nil || n.dead.Load() || n.w.isCut(n.id, id) {
		return nil, errDead
	}
	c, err := protocol.Dial(ctx, "sim", protocol.ClientOptions{
		Dial: func(context.Context, string) (net.Conn, error) { return to.conns.connect() },
	})
	if err != nil {
		return nil, err
	}
	return &link{n, to, c}, nil
}

func (l *link) Close() error { return l.client.Close() }

// Call delays, loses and repeats messages. One to or from a dead node is lost.
func (l *link) Call(ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
	w := l.from.w
	if err := l.travel(ctx, w.delay()); err != nil {
		return nil, err
	}
	if w.chance(1) {
		return nil, errLost
	}
	w.tamper(l.from, req)
	if w.chance(2) {
		l.again(req)
	}
	resp, err := l.client.Call(ctx, req)
	if err != nil {
		return nil, err
	}
	if err := l.travel(ctx, w.delay()); err != nil {
		return nil, err
	}
	if w.chance(1) {
		return nil, errLost
	}
	w.tamperAnswer(resp)
	return resp, nil
}

func (l *link) travel(ctx context.Context, d time.Duration) error {
	if err := clock.Pause(ctx, clock.System, d); err != nil {
		return err
	}
	if l.from.w.isCut(l.from.id, l.to.id) {
		<-ctx.Done()
		return ctx.Err()
	}
	if l.from.dead.Load() || l.to.dead.Load() {
		return errDead
	}
	return nil
}

// again has a copy of req arrive much later, on a connection of its own.
func (l *link) again(req kmsg.Request) {
	copied := kmsg.RequestForKey(req.Key())
	copied.SetVersion(req.MaxVersion())
	req.SetVersion(req.MaxVersion())
	l.from.w.must(copied.ReadFrom(req.AppendTo(nil)))
	l.to.running.Go(func() {
		ctx, cancel := context.WithTimeout(l.to.ctx, 5*time.Second)
		defer cancel()
		if clock.Pause(ctx, clock.System, 20*l.from.w.delay()) != nil || l.to.dead.Load() {
			return
		}
		c, err := protocol.Dial(ctx, "sim", protocol.ClientOptions{
			Dial: func(context.Context, string) (net.Conn, error) { return l.to.conns.connect() },
		})
		if err != nil {
			return
		}
		defer c.Close()
		_, _ = c.Call(ctx, copied)
	})
}

// alter takes a request to the controller, which may lose it or its answer.
func (n *node) alter(ctx context.Context, req *kmsg.AlterPartitionRequest) (*kmsg.AlterPartitionResponse, error) {
	d := n.w.delay()
	if n.w.mutation == forgetBrokerEpochs {
		n.w.noteAsked(req)
		d += 200 * time.Millisecond // it takes a late one to do harm
	}
	if err := clock.Pause(ctx, clock.System, d); err != nil {
		return nil, err
	}
	if n.dead.Load() || n.w.isCut(n.id, controllerID) || n.w.chance(5) {
		return nil, errLost
	}
	resp, end := n.w.control.alterPartition(req)
	for n.image.Load().Offset() < end {
		if err := clock.Pause(ctx, clock.System, time.Millisecond); err != nil {
			return nil, err
		}
	}
	if n.w.chance(5) {
		return nil, errLost
	}
	return resp, nil
}

// pipes is a listener of connections in memory.
type pipes struct {
	accepted chan net.Conn
	closed   chan struct{}
	once     sync.Once
}

func newPipes() *pipes { return &pipes{accepted: make(chan net.Conn), closed: make(chan struct{})} }

func (p *pipes) connect() (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case p.accepted <- there:
		return here, nil
	case <-p.closed:
		return nil, errDead
	}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.accepted:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.once.Do(func() { close(p.closed) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

func (n *node) String() string { return fmt.Sprintf("node %d", n.id) }
