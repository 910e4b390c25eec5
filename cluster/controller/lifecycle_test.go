package controller

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster/metadata"
	"grete/internal/clock"
	"grete/protocol"
)

func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !cond(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

// withManualClock starts a node whose time only the test moves.
func withManualClock(t *testing.T) (*rig, *clock.Manual) {
	t.Helper()
	manual := clock.NewManual(time.UnixMilli(1_000_000))
	r := newRig(memory(t), "/data", 1)
	r.clock = manual
	must(t, r.open())
	r.register(t)
	return r, manual
}

func TestSilentBrokerIsFencedAndComesBack(t *testing.T) {
	r, manual := withManualClock(t)
	r.create(t, 1, "a")
	epoch := r.life.BrokerEpoch()
	r.life.Stop()
	manual.Advance(8 * time.Second) // of broker.session.timeout.ms, 9 s
	time.Sleep(20 * time.Millisecond)
	if r.Image().Broker(1).Fenced {
		t.Fatal("fenced too early")
	}
	eventually(t, "fenced", func() bool { manual.Advance(time.Second); return r.Image().Broker(1).Fenced })
	if p := r.Image().Topic("a").Partitions[0]; p.Leader != -1 {
		t.Errorf("%+v is led by a fenced broker", p)
	}
	r.register(t) // the same incarnation: the same registration
	if p := r.Image().Topic("a").Partitions[0]; p.Leader != 1 || r.life.BrokerEpoch() != epoch {
		t.Errorf("%+v, epoch %d after %d", p, r.life.BrokerEpoch(), epoch)
	}
	r.kill(t)
}

func TestHeartbeatsKeepABrokerIn(t *testing.T) {
	r, manual := withManualClock(t)
	eventually(t, "the session's alarm and the heartbeats' ticker", func() bool { return manual.Pending() == 2 })
	offset := r.Image().Offset()
	for range 30 {
		heard := r.heartbeats.Load()
		manual.Advance(2 * time.Second)
		eventually(t, "a heartbeat", func() bool { return r.heartbeats.Load() > heard })
	}
	if r.Image().Broker(1).Fenced || r.Image().Offset() != offset {
		t.Errorf("fenced %v, %d records written by idling", r.Image().Broker(1).Fenced, r.Image().Offset()-offset)
	}
	r.kill(t)
}

func TestForgottenBrokerRegistersAgain(t *testing.T) {
	r, manual := withManualClock(t)
	epoch := r.life.BrokerEpoch()
	unregister := kmsg.NewPtrUnregisterBrokerRequest()
	unregister.BrokerID = 1
	r.do(t, unregister)
	eventually(t, "registered again", func() bool {
		manual.Advance(500 * time.Millisecond)
		b := r.Image().Broker(1)
		return b != nil && !b.Fenced && b.Epoch > epoch
	})
	r.kill(t)
}

func TestLifecycleOfNoController(t *testing.T) {
	l := NewLifecycle(LifecycleOptions{
		Controller: refusing{}, Clock: clock.System, Logger: zerolog.Nop(), NodeID: 1, IntervalMs: 2000,
	})
	if err := l.Start(context.Background()); !errors.Is(err, ErrStopped) {
		t.Error(err)
	}
	must(t, l.Shutdown(context.Background()))
	l.Stop()
}

type refusing struct{}

func (refusing) Image() *metadata.Image { return &metadata.Image{} }

func (refusing) Do(context.Context, protocol.Principal, kmsg.Request) (kmsg.Response, error) {
	return nil, ErrStopped
}

func TestRefusedRegistration(t *testing.T) {
	r := newRig(memory(t), "/data", 1)
	must(t, r.open())
	l := newLifecycleOf(r)
	l.o.ClusterID = "another"
	if err := l.Start(context.Background()); err == nil || errors.Is(err, ErrStopped) {
		t.Error(err)
	}
	r.kill(t)
}

// A broker that stops hears of no controller, and waits for none once a majority of the quorum has ended.
func TestShutdownWithoutQuorumDoesNotWait(t *testing.T) {
	manual := clock.NewManual(time.UnixMilli(1_000_000))
	hopeless := atomic.Bool{}
	l := NewLifecycle(LifecycleOptions{Controller: &deafAfter{answers: 2}, Clock: manual, Logger: zerolog.Nop(), NodeID: 1, IntervalMs: 2000, Hopeless: hopeless.Load})
	must(t, l.Start(context.Background()))
	done := make(chan error, 1)
	go func() { done <- l.Shutdown(context.Background()) }()
	eventually(t, "the timers", func() bool { return manual.Pending() == 3 })
	manual.Advance(retryEvery)
	hopeless.Store(true)
	manual.Advance(retryEvery)
	select {
	case err := <-done:
		if !errors.Is(err, errHopeless) {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Error("it waits")
	}
}
