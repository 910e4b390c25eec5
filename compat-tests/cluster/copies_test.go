package cluster

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"grete/compat-tests/history/load"
	"grete/compat-tests/kafka"
	"grete/internal/history"
)

// bounced is all brokers as one node of a history: what is killed is stopped in turn, and each started before the next.
type bounced struct {
	*kafka.Cluster
	rounds int
}

func (b *bounced) Addr() string  { return b.Nodes[0].Addr() }
func (b *bounced) Dir() string   { return b.Nodes[0].Dir() }
func (b *bounced) Pause() error  { return nil }
func (b *bounced) Resume() error { return nil }

func (b *bounced) Kill() error { return nil }
func (b *bounced) Stop() error { return nil }

func (b *bounced) Start(ctx context.Context) error {
	b.rounds++
	for _, n := range b.Nodes {
		if err := errors.Join(n.Stop(), n.Start(ctx)); err != nil {
			return err
		}
	}
	return nil
}

// FAULTS: "Copiers killed and all brokers bounced three times → output = input, no duplicates, in order". The history's
// checker holds the copies to it.
func TestCopiersAreKilledAndBrokersBounced(t *testing.T) {
	t.Parallel()
	r := start(t, kafka.ClusterOptions{Properties: with(quick, "group.min.session.timeout.ms", "1000", "transaction.state.log.num.partitions", "8", "offsets.topic.num.partitions", "8")})
	cfg := load.Default()
	cfg.Seed, cfg.Duration, cfg.Faults, cfg.Replication = uint64(time.Now().UnixNano()), time.Duration(longer(20, 120))*time.Second, []string{load.KillNode}, 3
	cfg.Plain, cfg.Transactional, cfg.Readers, cfg.Members, cfg.Balanced, cfg.CrashEvery = 0, 0, 1, 0, 0, 4*time.Second
	file := filepath.Join(t.TempDir(), "history.jsonl")
	rec, err := history.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	all := &bounced{Cluster: r.Cluster}
	if err := errors.Join(load.Run(r.ctx, cfg, []load.Node{all}, rec, t.Logf), rec.Close()); err != nil {
		t.Fatal(err)
	}
	ops, err := history.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	report := history.Check(ops)
	t.Log(report)
	if s := report.Stats; !report.OK() || all.rounds < 3 || s.Crashes < 3 || s.Acked < 1000 {
		t.Errorf("%d rounds, %+v", all.rounds, report.Stats)
	}
}
