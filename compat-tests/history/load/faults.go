package load

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"grete/compat-tests/kafka"
	"grete/internal/history"
)

// faulty is who may be disturbed, and how.
type faulty struct {
	*run
	nodes []Node
	free  chan int // indexes of nodes that nothing is done to
	// calm is held by those who need that nothing is done to any other node.
	calm sync.RWMutex
}

// disturb does faults, cfg.AtOnce of them at the same time, until ctx ends, and leaves every node running.
func (r *run) disturb(ctx context.Context, nodes []Node) error {
	if len(r.cfg.Faults) == 0 {
		return nil
	}
	f := &faulty{run: r, nodes: nodes, free: make(chan int, len(nodes))}
	for i := range nodes {
		f.free <- i
	}
	atOnce := max(r.cfg.AtOnce, 1)
	errs := make(chan error, atOnce)
	for i := range atOnce {
		go func() { errs <- f.disturb(ctx, rand.New(rand.NewPCG(r.cfg.Seed, uint64(i)<<32))) }()
	}
	var failed error
	for range atOnce {
		if err := <-errs; err != nil {
			failed = err
		}
	}
	return failed
}

func (f *faulty) disturb(ctx context.Context, rng *rand.Rand) error {
	for wait(ctx, time.Second+time.Duration(rng.IntN(3000))*time.Millisecond) {
		for range rng.IntN(len(f.nodes)) { // any of those that are free
			f.free <- <-f.free
		}
		i := <-f.free
		err := f.one(ctx, rng, i, f.cfg.Faults[rng.IntN(len(f.cfg.Faults))])
		f.free <- i
		if err != nil {
			return err
		}
	}
	return nil
}

// one does one fault to one node, and undoes it.
func (f *faulty) one(ctx context.Context, rng *rand.Rand, i int, kind string) error {
	if kind == WipeNode || kind == LoseTails || kind == LoseDisk || kind == KillAll {
		f.calm.Lock()
		defer f.calm.Unlock()
	} else {
		f.calm.RLock()
		defer f.calm.RUnlock()
	}
	op := history.Op{Kind: history.Fault, BeganNs: f.nowNs(), Note: kind + " " + f.nodes[i].Addr()}
	note, err := f.do(ctx, rng, i, kind)
	if op.Note += note; err != nil {
		return fmt.Errorf("%s: %w", op.Note, err)
	}
	f.record(op)
	return nil
}

func (f *faulty) do(ctx context.Context, rng *rand.Rand, i int, kind string) (note string, err error) {
	node := f.nodes[i]
	switch kind {
	case KillNode:
		return "", killAndStart(ctx, rng, node)
	case Damage:
		done, err := damageAndStart(ctx, rng, node)
		return ": " + strings.Join(done, ", "), err
	case PauseNode:
		return "", pauseAndResume(ctx, rng, node)
	case StopNode:
		if err := node.Stop(); err != nil {
			return "", err
		}
		return "", node.Start(context.WithoutCancel(ctx))
	case CutNode:
		return f.cut(ctx, rng, i), nil
	case WipeNode:
		return f.lose(ctx, node, emptied)
	case LoseTails:
		return f.lose(ctx, node, func(dir string) error { return forgetTails(rng, dir) })
	case LoseDisk:
		return f.lose(ctx, node, os.RemoveAll)
	case KillAll:
		return "", f.killAll(ctx)
	}
	return "", fmt.Errorf("unknown fault")
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

// cut is of one channel or both, from one other node or from all.
func (f *faulty) cut(ctx context.Context, rng *rand.Rand, i int) (note string) {
	channels := [][]kafka.Channel{{kafka.Replication}, {kafka.Control}, {kafka.Replication, kafka.Control}}[rng.IntN(3)]
	other := i
	if rng.IntN(2) == 0 {
		other = rng.IntN(len(f.nodes))
	}
	each := func(do func(kafka.Channel, int32, int32)) {
		for j := range f.nodes {
			for _, ch := range channels {
				if j != i && (other == i || other == j) {
					do(ch, int32(i+1), int32(j+1))
				}
			}
		}
	}
	each(f.cfg.Links.Cut)
	wait(ctx, time.Duration(500+rng.IntN(6000))*time.Millisecond)
	each(f.cfg.Links.Join)
	if other == i {
		return fmt.Sprintf(" from all, channels %v", channels)
	}
	return fmt.Sprintf(" from node %d, channels %v", other+1, channels)
}

// killAll kills all nodes at once, and starts them side by side: one alone has no quorum.
func (f *faulty) killAll(ctx context.Context) error {
	return errors.Join(f.each(Node.Kill), f.each(func(n Node) error { return n.Start(context.WithoutCancel(ctx)) }))
}

func (f *faulty) each(do func(Node) error) error {
	errs := make([]error, len(f.nodes))
	var wg sync.WaitGroup
	for i, n := range f.nodes {
		wg.Go(func() { errs[i] = do(n) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// lose takes from a dead node what others have in sync, and waits until they are in sync again.
func (f *faulty) lose(ctx context.Context, node Node, loss func(dir string) error) (note string, err error) {
	if !f.replicated(ctx, 10*time.Second) {
		return " was not possible: not everything was replicated", nil
	}
	if err := node.Kill(); err != nil {
		return "", err
	}
	if err := loss(node.Dir()); err != nil {
		return "", err
	}
	if err := node.Start(context.WithoutCancel(ctx)); err != nil {
		return "", err
	}
	if !f.replicated(ctx, 30*time.Second) && ctx.Err() == nil {
		return "", fmt.Errorf("not everything is replicated again after half a minute")
	}
	return "", nil
}

// emptied removes every partition and all that is known of them. A controller's own log stays.
func emptied(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if name := e.Name(); err == nil && name != "meta.properties" && !strings.HasPrefix(name, "__cluster_metadata") {
			err = os.RemoveAll(filepath.Join(dir, name))
		}
	}
	return err
}

// wholeLooks is how often in a row, a fifth of a second apart, everything must be found replicated: the broker that is
// asked may have old metadata, and a node's loss may not be known yet.
const wholeLooks = 5

// replicated waits until every partition's replicas are all in sync.
func (f *faulty) replicated(ctx context.Context, limit time.Duration) bool {
	cl, err := kgo.NewClient(append(f.as(admin), kgo.MetadataMinAge(100*time.Millisecond))...)
	if err != nil {
		return false
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	adm := kadm.NewClient(cl)
	for whole := 0; whole < wholeLooks; {
		if !wait(ctx, 200*time.Millisecond) {
			return false
		}
		topics, err := adm.ListTopicsWithInternal(ctx)
		whole++
		if err != nil || !wholly(topics) {
			whole = 0
		}
	}
	return true
}

func wholly(topics kadm.TopicDetails) bool {
	whole := len(topics) > 0
	topics.EachPartition(func(p kadm.PartitionDetail) {
		whole = whole && p.Err == nil && p.Leader >= 0 && len(p.ISR) == len(p.Replicas)
	})
	return whole
}
