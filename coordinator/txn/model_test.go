package txn

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"grete/coordinator"
)

// ledgerMarkers stands for the partitions: it keeps who wrote in which epoch, and how each transaction ended where.
type ledgerMarkers struct {
	mu      sync.Mutex
	rng     *rand.Rand
	faulty  bool
	late    []func()
	ended   map[string]bool // producer/epoch and partition → commit
	clashes []string
}

func (l *ledgerMarkers) WriteMarkers(m coordinator.Marker, partitions []Partition, done func([]error)) {
	l.mu.Lock()
	results := make([]error, len(partitions))
	for i, p := range partitions {
		key := fmt.Sprintf("%d/%d %v", m.ID, m.Epoch, p)
		// Without the epoch bump one epoch has many transactions.
		if before, seen := l.ended[key]; seen && before != m.Commit && m.TransactionVersion >= epochBumpVersion {
			l.clashes = append(l.clashes, key)
		}
		if l.faulty && l.rng.IntN(4) == 0 {
			results[i] = kerr.NotLeaderForPartition
			continue
		}
		l.ended[key] = m.Commit
	}
	if l.faulty && l.rng.IntN(3) == 0 {
		l.late = append(l.late, func() { done(results) })
		l.mu.Unlock()
		return
	}
	l.mu.Unlock()
	done(results)
}

func (l *ledgerMarkers) deliver() {
	l.mu.Lock()
	late := l.late
	l.late = nil
	l.mu.Unlock()
	for _, f := range late {
		f()
	}
}

// modelClient is a client of one transactional id, and what it knows.
type modelClient struct {
	id      string
	p       ProducerEpoch
	version int16
	open    []Partition
	// promised are the outcomes that End has acknowledged: marker epoch and partition → commit.
	promised map[string]bool
}

// TestRandomTransactions lets clients of both kinds do what they want while appends fail, markers are lost or late and
// the coordinator moves. What End has acknowledged is the outcome on every partition, nothing ends twice, epochs never
// go back, and once faults are over nothing is left open but what clients have not ended.
func TestRandomTransactions(t *testing.T) {
	rounds := 20
	if os.Getenv("GRETE_LONG") != "" {
		rounds = 1000
	}
	for seed := range rounds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { runModel(t, rand.New(rand.NewPCG(uint64(seed), 1))) })
	}
}

func runModel(t *testing.T, rng *rand.Rand) {
	r := newRig(t, DefaultConfig())
	l := &ledgerMarkers{rng: rng, faulty: true, ended: map[string]bool{}}
	r.s.o.Markers = l
	var clients []*modelClient
	for i := range 4 {
		clients = append(clients, &modelClient{id: fmt.Sprint("id", i), p: NoProducer, version: int16(i % 2 * 2), promised: map[string]bool{}})
	}
	for range 300 {
		switch n := rng.IntN(20); n {
		case 0:
			r.log.FailAppends(kerr.NotEnoughReplicas)
		case 1, 2:
			r.log.FailAppends(nil)
		case 3:
			r.lead()
		case 4:
			r.clock.Advance(time.Duration(rng.IntN(20_000)) * time.Millisecond)
		case 5:
			l.deliver()
		default:
			clients[rng.IntN(len(clients))].step(r, rng)
		}
	}
	l.faulty = false
	r.log.FailAppends(nil)
	for range 5 {
		l.deliver()
		r.clock.Advance(200 * time.Millisecond)
		r.rest()
	}
	l.check(t, r, clients)
}

func (c *modelClient) step(r *rig, rng *rand.Rand) {
	switch rng.IntN(5) {
	case 0:
		c.init(r)
	case 1, 2:
		part := Partition{"t", int32(rng.IntN(4))}
		r.s.AddPartitions(AddRequest{ID: c.id, Producer: c.p, Partitions: []Partition{part}, ClientVersion: c.version}, func(err error) {
			if err == nil {
				c.open = append(c.open, part)
			} else if !errors.Is(err, kerr.ConcurrentTransactions) {
				c.open = nil // fenced, or unknown: it starts anew
			}
		})
	default:
		c.end(r, rng.IntN(2) == 0)
	}
	r.rest()
}

func (c *modelClient) init(r *rig) {
	r.s.InitProducer(InitRequest{ID: c.id, TimeoutMs: 15_000}, func(p ProducerEpoch, err error) {
		if err != nil {
			return
		}
		if p.ID == c.p.ID && p.Epoch <= c.p.Epoch {
			r.t.Errorf("%s: epoch %d after %d", c.id, p.Epoch, c.p.Epoch)
		}
		c.p, c.open = p, nil
	})
}

func (c *modelClient) end(r *rig, commit bool) {
	marked := c.p.Epoch
	if c.version >= 2 {
		marked++
	}
	open := c.open
	r.s.End(EndRequest{ID: c.id, Producer: c.p, Commit: commit, ClientVersion: c.version}, func(p ProducerEpoch, err error) {
		if err != nil {
			return
		}
		if c.version >= 2 {
			for _, part := range open {
				c.promised[fmt.Sprintf("%d/%d %v", c.p.ID, marked, part)] = commit
			}
			c.p = p
		}
		c.open = nil
	})
}

func (l *ledgerMarkers) check(t *testing.T, r *rig, clients []*modelClient) {
	t.Helper()
	for _, key := range l.clashes {
		t.Errorf("%s was both committed and aborted", key)
	}
	for _, c := range clients {
		for key, commit := range c.promised {
			if got, ended := l.ended[key]; !ended || got != commit {
				t.Errorf("%s: %s was to be commit=%t; ended %t, commit %t", c.id, key, commit, ended, got)
			}
		}
	}
	r.s.List(ListRequest{DurationMs: -1}, func(ids []Listed, _ []string, err error) {
		for _, id := range ids {
			if id.State.ending() {
				t.Errorf("%s is still %v", id.ID, id.State)
			}
		}
	})
}
