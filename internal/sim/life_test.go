package sim

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"grete/cmd/broker/node"
	"grete/internal/clock"
	"grete/internal/config"
	"grete/internal/vfs"
)

// machine is a host with a disk, on which a broker lives one life after the other.
type machine struct {
	w    *world
	id   int32
	host string
	disk *vfs.Mem      // what the next life finds
	skew time.Duration // of its clock
	now  *life         // nil between lives
	// unseen: a life has begun that nobody could look into yet; it may have written.
	unseen bool
}

// life is one run of a broker's process.
type life struct {
	m      *machine
	fs     *vfs.Mem
	files  *vfs.Faulty
	clock  *skewed
	alive  atomic.Bool
	dying  atomic.Bool               // its disk fails
	node   atomic.Pointer[node.Node] // once it has started
	cancel context.CancelFunc
	gone   chan struct{} // closed when nothing of it runs any more
	failed chan error    // why the process ended by itself; holds one
}

// skewed is a clock that may jump.
type skewed struct {
	clock.Clock
	by atomic.Int64
}

func (s *skewed) Now() time.Time { return s.Clock.Now().Add(time.Duration(s.by.Load())) }

// loggers is a process whose logger nobody changes.
type loggers struct{}

func (loggers) Levels() map[string]string { return map[string]string{"root": "INFO"} }
func (loggers) SetLevel(string, string)   {}

const diskBytes = 1 << 40

// start begins a life.
func (m *machine) start() {
	l := &life{m: m, fs: m.disk, gone: make(chan struct{}), failed: make(chan error, 1)}
	l.alive.Store(true)
	m.mount(l.fs)
	l.files = vfs.NewFaulty(l.fs)
	l.clock = &skewed{Clock: clock.System}
	l.clock.by.Store(int64(m.skew))
	m.now, m.unseen = l, true
	m.w.lives = append(m.w.lives, l)
	m.w.starts.Add(1)
	m.w.net.boot(m.host)
	ctx, cancel := context.WithCancel(context.Background())
	l.cancel = cancel
	o := node.Options{
		Config: m.w.config(m.id), FS: l.files, Clock: l.clock, Entropy: m.w.entropy(), Loggers: loggers{},
		Log:    m.w.log.With().Int32("node", m.id).Logger(),
		Listen: m.w.net.listen(m.host, l.alive.Load), Bind: m.w.net.bind(m.host, l.alive.Load), Dial: m.w.net.dialer(m.host, l.alive.Load),
		ListenPacket: m.w.net.packetPorts(m.host, l.alive.Load),
	}
	go l.run(ctx, o)
}

func (l *life) run(ctx context.Context, o node.Options) {
	defer close(l.gone)
	n, err := node.Start(ctx, o)
	if err != nil {
		l.failed <- err
		return
	}
	l.node.Store(n)
	select {
	case err := <-n.Failed():
		l.failed <- err
	case <-ctx.Done():
	}
	stopping, cancel := context.WithTimeout(context.Background(), l.m.w.stretch(time.Minute))
	defer cancel()
	if err := n.Stop(stopping); err != nil && l.alive.Load() {
		l.failed <- err
	}
}

// crash ends a life at once: kill -9, or a loss of power after which keepPercent of what was not fsynced is there. What
// the process does from now on reaches nobody.
func (l *life) crash(powerLoss bool, keepPercent int) {
	if !l.alive.CompareAndSwap(true, false) {
		return
	}
	l.m.w.net.kill(l.m.host, powerLoss)
	l.m.disk = l.fs.CrashClone(l.m.w.crashRand(), keepPercent)
	l.cancel()
}

// crashAt has the life end at its n-th write to the disk from now on.
func (l *life) crashAt(n int64, powerLoss bool, keepPercent int) {
	var count atomic.Int64
	l.files.Inject(func(op vfs.Op) error {
		if op.Kind.Writes() && count.Add(1) == n {
			l.crash(powerLoss, keepPercent)
		}
		return nil
	})
}

// stop ends a life in peace.
func (l *life) stop() {
	l.cancel()
	<-l.gone
	if l.alive.CompareAndSwap(true, false) {
		l.m.w.net.kill(l.m.host, false)
		l.m.disk = l.fs.CrashClone(l.m.w.crashRand(), 100)
	}
}

// running is the broker of a machine that has started, else nil.
func (m *machine) running() *node.Node {
	if m.now == nil || !m.now.alive.Load() {
		return nil
	}
	return m.now.node.Load()
}

// config is a broker's; times are stretched by tempo.
func (w *world) config(id int32) *config.Broker {
	var voters []string
	for _, m := range w.machines {
		voters = append(voters, fmt.Sprintf("%d@%s:9093", m.id, m.host))
	}
	properties := map[string]any{
		"node.id": id, "controller.quorum.voters": strings.Join(voters, ","),
		"listeners": fmt.Sprintf("PLAINTEXT://n%d:9092,CONTROLLER://n%d:9093", id, id),
		"log.dirs":  "/data", "admin.listen": "", "group.initial.rebalance.delay.ms": 0,
		"offsets.topic.num.partitions": 1, "offsets.topic.replication.factor": 3,
		"transaction.state.log.num.partitions": 1, "transaction.state.log.replication.factor": 3, "transaction.state.log.min.isr": 2,
		"min.insync.replicas": 2, "default.replication.factor": 3, "auto.create.topics.enable": "false",
		"log.cleaner.backoff.ms": w.ms(5000), "log.cleaner.dedupe.buffer.size": 2 << 20, "log.roll.ms": w.ms(120_000), "log.retention.ms": -1,
		"broker.heartbeat.interval.ms": w.ms(1000), "broker.session.timeout.ms": w.ms(4000),
		"replica.lag.time.max.ms": w.ms(5000), "replica.fetch.wait.max.ms": w.ms(500), "replica.socket.timeout.ms": w.ms(5000),
		"controller.quorum.election.timeout.ms": w.ms(1000), "controller.quorum.request.timeout.ms": w.ms(2000),
		"request.timeout.ms": w.ms(10_000), "leader.imbalance.check.interval.seconds": w.ms(60),
		"group.consumer.session.timeout.ms": w.ms(6000), "group.consumer.min.session.timeout.ms": w.ms(6000), "group.consumer.max.session.timeout.ms": w.ms(6000),
		"group.consumer.heartbeat.interval.ms": w.ms(1000), "group.consumer.min.heartbeat.interval.ms": w.ms(1000), "group.consumer.max.heartbeat.interval.ms": w.ms(1000),
		"offsets.retention.check.interval.ms":             w.ms(3_600_000), // a group that is empty and has no offsets would begin anew, at generation 1
		"broker.silence.patience.ms":                      w.ms(2500),
		"initial.broker.registration.timeout.ms":          w.ms(60_000),
		"metadata.log.max.record.bytes.between.snapshots": 20_000,
	}
	if w.durable {
		properties["log.flush.interval.messages"] = 1
	}
	var text strings.Builder
	for name, value := range properties {
		fmt.Fprintf(&text, "%s=%v\n", name, value)
	}
	cfg, err := config.Load(config.Sources{FileName: "sim", Hostname: fmt.Sprint("n", id), File: []byte(text.String())})
	if err != nil {
		panic(err)
	}
	cfg.Gossip = w.gossip(id)
	return cfg
}

// gossip has the nodes find each other by their addresses, at the tempo of everything else.
func (w *world) gossip(id int32) config.Gossip {
	g := config.Gossip{Listen: &config.Listener{Name: "GOSSIP", Host: fmt.Sprint(addressPrefix, id), Port: 7946}, Stretch: int(w.tempo)}
	for _, m := range w.machines {
		g.Join = append(g.Join, fmt.Sprint(addressPrefix, m.id, ":", gossipPort))
	}
	if w.durable {
		g.Key = []byte("0123456789abcdef")
	}
	return g
}

func (w *world) ms(atTempoOne int64) int64 { return atTempoOne * w.tempo }

// entropy is randomness for one life.
func (w *world) entropy() io.Reader {
	var seed [32]byte
	for i := range seed {
		seed[i] = byte(w.intN(256))
	}
	return rand.NewChaCha8(seed)
}

func (w *world) crashRand() *rand.Rand { return rand.New(rand.NewPCG(w.seed, uint64(w.intN(1<<30)))) }
