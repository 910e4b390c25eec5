package coordinator

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"grete/coordinator/logtest"
	"grete/internal/clock"
)

// ledger is a machine that keeps the last value of each key, and what happened to it.
type ledger struct {
	values   map[string]string
	offsets  []int64
	timer    Timer
	fired    int
	loaded   bool
	unloaded bool
}

func newLedger(int32) *ledger { return &ledger{values: map[string]string{}} }

func (l *ledger) Replay(at Position, key, value []byte) error {
	if string(key) == "poison" {
		return errors.New("poison")
	}
	l.offsets = append(l.offsets, at.Offset)
	l.values[string(key)] = string(value)
	return nil
}

func (l *ledger) EndTransaction(producerID int64, committed bool) {
	l.values[fmt.Sprint("txn", producerID)] = fmt.Sprint(committed)
}

func (l *ledger) Loaded(tx *Tx) {
	l.loaded = true
	l.timer.Fire = func(*Tx) { l.fired++ }
}

func (l *ledger) Unloaded(*Tx) { l.unloaded = true }

// bench is a runtime with one shard, number 0, and a clock that the test moves.
type bench struct {
	t     *testing.T
	rt    *Runtime[*ledger]
	log   *logtest.Log
	clock *clock.Manual
}

func newBench(t *testing.T) *bench {
	b := &bench{t: t, log: &logtest.Log{}, clock: clock.NewManual(time.UnixMilli(1_000_000))}
	b.rt = NewRuntime(Options[*ledger]{Clock: b.clock, Log: zerolog.Nop(), New: newLedger, CommitTimeoutMs: 5000, LoadBufferBytes: 1 << 20})
	t.Cleanup(b.rt.Close)
	b.lead(1)
	return b
}

// lead makes the runtime leader at epoch and waits until the shard serves.
func (b *bench) lead(epoch int32) {
	b.t.Helper()
	b.rt.BecomeLeader(0, epoch, b.log)
	b.await(0)
}

// await returns when the shard of partition serves.
func (b *bench) await(partition int32) {
	b.t.Helper()
	for range 2000 {
		answer := make(chan error, 1)
		b.rt.Submit(partition, Op[*ledger]{Run: func(*ledger, *Tx) { answer <- nil }, Refuse: func(err error) { answer <- err }})
		if !errors.Is(<-answer, ErrLoading) {
			return
		}
		time.Sleep(time.Millisecond)
	}
	b.t.Fatal("shard does not load")
}

// submit runs an operation that answers on the channel.
func (b *bench) submit(key string, run func(*ledger, *Tx)) <-chan error {
	answer := make(chan error, 1)
	b.rt.Submit(0, Op[*ledger]{
		Key:    key,
		Run:    func(l *ledger, tx *Tx) { run(l, tx); tx.Reply(func(err error) { answer <- err }) },
		Refuse: func(err error) { answer <- err },
	})
	return answer
}

func (b *bench) do(key string, run func(*ledger, *Tx)) error {
	b.t.Helper()
	select {
	case err := <-b.submit(key, run):
		return err
	case <-time.After(5 * time.Second):
		b.t.Fatal("no answer")
		return nil
	}
}

func (b *bench) put(key, value string) error {
	b.t.Helper()
	return b.do(key, func(_ *ledger, tx *Tx) { tx.Append([]byte(key), []byte(value)) })
}

func (b *bench) get(key string) string {
	b.t.Helper()
	var v string
	if err := b.do(key, func(l *ledger, _ *Tx) { v = l.values[key] }); err != nil {
		b.t.Fatal(err)
	}
	return v
}
