package load

import (
	"context"
	"net"
	"slices"
	"strconv"

	"grete/compat-tests/kafka"
)

// Node is a broker that faults are done to.
type Node interface {
	Addr() string
	Dir() string // of its partitions
	Kill() error // -9
	Stop() error
	Start(context.Context) error
	Pause() error // SIGSTOP
	Resume() error
}

// The faults, each of a random node.
const (
	KillNode  = "kill"   // kill -9, and a restart
	PauseNode = "pause"  // SIGSTOP, and SIGCONT
	Damage    = "damage" // kill -9, damage that must not matter, and a restart

	StopNode  = "stop"    // a controlled shutdown, and a restart
	CutNode   = "cut"     // the links to some or all other nodes are cut, and joined
	WipeNode  = "wipe"    // kill -9, a data directory without partitions, and a restart; where everything is replicated before
	LoseTails = "tails"   // kill -9, the loss of what a power loss may take of the ends of logs, and a restart; under the same condition
	LoseDisk  = "disk"    // kill -9, an empty directory without the metadata log, and a restart; under the same condition
	KillAll   = "killall" // kill -9 of every node at once, and a restart
)

// Kinds are the faults that a lone node survives; ClusterKinds those that a cluster does.
var (
	Kinds        = []string{KillNode, PauseNode, Damage}
	ClusterKinds = append(slices.Clone(Kinds), StopNode, CutNode, WipeNode, LoseTails, LoseDisk, KillAll)
)

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
