package load

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"time"

	"grete/compat-tests/kafka"
	"grete/internal/history"
)

// Node is a broker that faults are done to.
type Node interface {
	Addr() string
	Dir() string // of its partitions
	Kill() error // -9
	Start(context.Context) error
	Pause() error // SIGSTOP
	Resume() error
}

// The faults, each of a random node.
const (
	KillNode  = "kill"   // kill -9, and a restart
	PauseNode = "pause"  // SIGSTOP, and SIGCONT
	Damage    = "damage" // kill -9, damage that must not matter, and a restart
)

// Kinds are the faults there are.
var Kinds = []string{KillNode, PauseNode, Damage}

// process is a node of the harness; it keeps its directory and port.
type process struct {
	*kafka.Broker
	start func(context.Context, kafka.Options) (*kafka.Broker, error)
	opts  kafka.Options
}

// quick brokers let short-lived members make progress, and compact at once.
var quick = map[string]string{"group.initial.rebalance.delay.ms": "100", "group.min.session.timeout.ms": "1000",
	"group.consumer.min.session.timeout.ms": "1000", "group.consumer.session.timeout.ms": "3000",
	"group.consumer.min.heartbeat.interval.ms": "500", "group.consumer.heartbeat.interval.ms": "500",
	"log.cleaner.backoff.ms": "500"}

// StartNode starts a node in dir with start (kafka.StartGrete or StartApache).
func StartNode(ctx context.Context, start func(context.Context, kafka.Options) (*kafka.Broker, error), dir string) (Node, error) {
	opts := kafka.Options{Dir: dir, Properties: quick}
	b, err := start(ctx, opts)
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(b.Addr)
	if err != nil {
		return nil, err
	}
	opts.Port, err = strconv.Atoi(port)
	return &process{Broker: b, start: start, opts: opts}, err
}

// Dir is where the node has its partitions.
func (p *process) Dir() string { return p.DataDir }

func (p *process) Addr() string { return p.Broker.Addr }

func (p *process) Start(ctx context.Context) error {
	b, err := p.start(ctx, p.opts)
	if err == nil {
		p.Broker = b
	}
	return err
}

// disturb does faults until ctx ends, and leaves every node running.
func (r *run) disturb(ctx context.Context, rng *rand.Rand, nodes []Node) error {
	if len(r.cfg.Faults) == 0 {
		return nil
	}
	for wait(ctx, time.Second+time.Duration(rng.IntN(3000))*time.Millisecond) {
		node := nodes[rng.IntN(len(nodes))]
		kind := r.cfg.Faults[rng.IntN(len(r.cfg.Faults))]
		op := history.Op{Kind: history.Fault, BeganNs: r.nowNs(), Note: kind + " " + node.Addr()}
		var err error
		switch kind {
		case KillNode:
			err = killAndStart(ctx, rng, node)
		case Damage:
			var done []string
			done, err = damageAndStart(ctx, rng, node)
			op.Note += ": " + strings.Join(done, ", ")
		case PauseNode:
			err = pauseAndResume(ctx, rng, node)
		default:
			err = fmt.Errorf("unknown fault %q", kind)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", op.Note, err)
		}
		r.record(op)
	}
	return nil
}

func killAndStart(ctx context.Context, rng *rand.Rand, node Node) error {
	if err := node.Kill(); err != nil {
		return err
	}
	wait(ctx, time.Duration(rng.IntN(1500))*time.Millisecond)
	return node.Start(context.WithoutCancel(ctx))
}

func damageAndStart(ctx context.Context, rng *rand.Rand, node Node) (done []string, err error) {
	if err := node.Kill(); err != nil {
		return nil, err
	}
	if done, err = damage(rng, node.Dir()); err != nil {
		return done, err
	}
	return done, node.Start(context.WithoutCancel(ctx))
}

func pauseAndResume(ctx context.Context, rng *rand.Rand, node Node) error {
	if err := node.Pause(); err != nil {
		return err
	}
	wait(ctx, time.Duration(100+rng.IntN(4000))*time.Millisecond)
	return node.Resume()
}
