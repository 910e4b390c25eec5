package history_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"grete/compat-tests/history/load"
	"grete/compat-tests/kafka"
	"grete/internal/history"
)

// live is how a live run differs by environment: HISTORY_SECONDS makes it long, HISTORY_SEED repeats one,
// COMPAT_TARGET=kafka runs it against Apache Kafka.
func live(t *testing.T) (load.Config, load.Node) {
	t.Helper()
	cfg := config(t)
	node, err := load.StartNode(context.Background(), kafka.StartTarget, t.TempDir())
	kafka.SkipOrFail(t, err)
	t.Cleanup(func() { _ = node.Kill() })
	return cfg, node
}

func config(t *testing.T) load.Config {
	t.Helper()
	cfg := load.Default()
	cfg.Seed = uint64(time.Now().UnixNano())
	if s := os.Getenv("HISTORY_SEED"); s != "" {
		cfg.Seed = uint64(number(t, s))
	}
	if s := os.Getenv("HISTORY_SECONDS"); s != "" {
		cfg.Duration = time.Duration(number(t, s)) * time.Second
	}
	return cfg
}

func number(t *testing.T, s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// runAndCheck keeps the history of a failed run, and says where.
func runAndCheck(t *testing.T, cfg load.Config, nodes ...load.Node) *history.Report {
	t.Helper()
	dir, err := os.MkdirTemp("", "grete-history")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("HISTORY_SEED=%d, the history is in %s", cfg.Seed, dir)
			return
		}
		_ = os.RemoveAll(dir)
	})
	file := filepath.Join(dir, "history.jsonl")
	rec, err := history.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(load.Run(context.Background(), cfg, nodes, rec, t.Logf), rec.Close()); err != nil {
		t.Fatal(err)
	}
	ops, err := history.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	r := history.Check(ops)
	t.Log(r)
	return r
}

// TestLive: kill -9, SIGSTOP and damaged indexes under every kind of client; nothing that was promised is broken.
func TestLive(t *testing.T) {
	cfg, node := live(t)
	if !kafka.Apache() {
		cfg.Faults = load.Kinds // Kafka does not promise to start on garbled checkpoints
	}
	r := runAndCheck(t, cfg, node)
	if !r.OK() {
		t.Fatal("not what Kafka promises")
	}
	if s := r.Stats; s.Acked < 1000 || s.Read < s.Acked || s.Faults < 2 || s.Crashes < 2 || s.FinalReaders != 2 || s.Replaced == 0 {
		t.Fatalf("the run shows too little: %+v", s)
	}
}

// TestIdempotentUnderKills is kill -9 after kill -9 under idempotent producers alone: nothing acknowledged lost, no
// duplicate, offsets contiguous.
func TestIdempotentUnderKills(t *testing.T) {
	cfg, node := live(t)
	cfg.Faults, cfg.CrashEvery, cfg.RecordsPerSecond = []string{load.KillNode}, 0, 1000
	cfg.Plain, cfg.Transactional, cfg.Copiers, cfg.Idempotent, cfg.Readers, cfg.Members = 0, 0, 0, 3, 1, 0
	r := runAndCheck(t, cfg, node)
	if s := r.Stats; !r.OK() || s.Faults < 3 || s.Unknown > 0 || s.Acked < 5000 {
		t.Fatal("not what an idempotent producer is promised")
	}
}

// forgetful is a node that comes back without the end of a partition.
type forgetful struct {
	load.Node
	segment string
	err     error
}

func (f *forgetful) Start(ctx context.Context) error {
	info, err := os.Stat(f.segment)
	if err == nil && info.Size() > 0 {
		err = os.Truncate(f.segment, info.Size()*2/3)
	}
	f.err = errors.Join(f.err, err)
	return f.Node.Start(ctx)
}

// TestLiveFindsLoss: the run that finds nothing elsewhere finds a broker that forgets.
func TestLiveFindsLoss(t *testing.T) {
	cfg, node := live(t)
	cfg.Duration, cfg.Faults, cfg.Transactional, cfg.Copiers, cfg.Plain = 8*time.Second, []string{load.KillNode}, 0, 0, 0
	f := &forgetful{Node: node, segment: filepath.Join(node.Dir(), load.IdempotentTopic+"-0", "00000000000000000000.log")}
	r := runAndCheck(t, cfg, f)
	if f.err != nil {
		t.Fatal(f.err)
	}
	if r.Found[history.Lost] == 0 || r.Found[history.Inconsistent] == 0 {
		t.Fatal("the loss was not found")
	}
}
