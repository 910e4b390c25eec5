package controller

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster/metadata"
	"grete/internal/clock"
	"grete/protocol"
)

// machines answer probes: by address, nil is a listener, an error what a dial gets.
type machines struct {
	mu      sync.Mutex
	answers map[string]error
	asked   map[string]int
	running int
	most    int
	hold    chan struct{} // probes wait for it to be closed
}

func (m *machines) set(address string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.answers[address] = err
}

func (m *machines) count(address string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.asked[address]
}

func (m *machines) probe(_ context.Context, address string) error {
	m.mu.Lock()
	m.running++
	m.most = max(m.most, m.running)
	hold := m.hold
	m.mu.Unlock()
	if hold != nil {
		<-hold
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.running--
	m.asked[address]++
	return m.answers[address]
}

var (
	errRefused = &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	errSilent  = errors.New("no answer")
)

func addressOf(id int32) string { return fmt.Sprintf("host-%d:9092", id) }

// withMachines starts a controller that probes machines.
func withMachines(t *testing.T) (*rig, *machines) {
	t.Helper()
	m := &machines{answers: map[string]error{}, asked: map[string]int{}}
	r := newRig(memory(t), "/data", 1)
	r.probe = m.probe
	must(t, r.open())
	r.register(t)
	t.Cleanup(func() { r.kill(t) })
	return r, m
}

// decide is a request that comes in on a connection.
func (r *rig) decide(t *testing.T, conn context.Context, req kmsg.Request) kmsg.Response {
	t.Helper()
	resp, _, err := r.Decide(conn, protocol.Principal{}, req)
	must(t, err)
	return resp
}

func registrationOf(id int32, incarnation byte) *kmsg.BrokerRegistrationRequest {
	l := NewLifecycle(LifecycleOptions{
		NodeID: id, ClusterID: "cluster", Incarnation: metadata.UUID{0: byte(id), 1: byte(id >> 8), 2: incarnation},
		LogDirs:   []metadata.UUID{{0: byte(id), 1: byte(id >> 8), 2: 9}},
		Endpoints: []metadata.Endpoint{{Listener: "PLAINTEXT", Host: fmt.Sprint("host-", id), Port: 9092}},
	})
	return l.registration()
}

// enter registers another broker and has it unfenced by a heartbeat over conn.
func (r *rig) enter(t *testing.T, conn context.Context, id int32, incarnation byte) (epoch int64) {
	t.Helper()
	resp := r.decide(t, context.Background(), registrationOf(id, incarnation)).(*kmsg.BrokerRegistrationResponse)
	if resp.ErrorCode != 0 {
		t.Fatalf("broker %d: %v", id, kerr.ErrorForCode(resp.ErrorCode))
	}
	r.beat(t, conn, id, resp.BrokerEpoch)
	eventually(t, "unfenced", func() bool { b := r.Image().Broker(id); return b != nil && !b.Fenced })
	return resp.BrokerEpoch
}

func (r *rig) beat(t *testing.T, conn context.Context, id int32, epoch int64) {
	t.Helper()
	h := kmsg.NewPtrBrokerHeartbeatRequest()
	h.BrokerID, h.BrokerEpoch, h.CurrentMetadataOffset = id, epoch, 1<<40
	if code := r.decide(t, conn, h).(*kmsg.BrokerHeartbeatResponse).ErrorCode; code != 0 {
		t.Fatalf("heartbeat of %d: %d", id, code)
	}
}

func (r *rig) fenced(id int32) bool { return r.Image().Broker(id).Fenced }

// A killed broker: its connection ends, its machine refuses. It is fenced at once, and comes back with its next
// heartbeat or life.
func TestDeadBrokerIsFencedAtOnce(t *testing.T) {
	r, m := withMachines(t)
	conn, cut := context.WithCancel(context.Background())
	r.enter(t, conn, 2, 1)
	m.set(addressOf(2), errRefused)
	began := time.Now()
	cut()
	eventually(t, "fenced", func() bool { return r.fenced(2) })
	if took := time.Since(began); took > time.Second {
		t.Errorf("fenced after %v", took)
	}
	r.enter(t, context.Background(), 2, 2)
}

// Suspicions of a broker that is there, or that merely says nothing, change nothing: whoever forges gossip cannot
// fence.
func TestSuspicionAloneFencesNobody(t *testing.T) {
	r, m := withMachines(t)
	lost, cut := context.WithCancel(context.Background())
	r.enter(t, context.Background(), 2, 1) // connected
	r.enter(t, lost, 3, 1)                 // accepts connections, as a paused process does
	r.enter(t, lost, 4, 1)                 // silent
	m.set(addressOf(2), errRefused)
	m.set(addressOf(4), errSilent)
	cut()
	for range 100 {
		for id := int32(1); id <= 5; id++ {
			r.Suspect(id)
		}
		time.Sleep(time.Millisecond)
	}
	eventually(t, "all attempts", func() bool {
		return m.count(addressOf(3)) >= len(probePauses) && m.count(addressOf(4)) >= len(probePauses)
	})
	if r.fenced(1) || r.fenced(2) || r.fenced(3) || r.fenced(4) {
		t.Error("fenced without proof")
	}
	if n := m.count(addressOf(2)); n > 0 {
		t.Errorf("a broker that is connected was probed %d times", n)
	}
}

// A controller that has not heard a broker itself wants more than one refusal, and a process that accepts a last time
// is asked again.
func TestRefusalsAreRepeated(t *testing.T) {
	r, m := withMachines(t)
	r.enter(t, context.Background(), 2, 1)
	r.presence.close() // as after a change of controllers
	m.set(addressOf(2), errRefused)
	r.Suspect(2)
	eventually(t, "fenced", func() bool { return r.fenced(2) })
	if n := m.count(addressOf(2)); n != refusalsNeeded {
		t.Errorf("fenced after %d refusals", n)
	}
	conn, cut := context.WithCancel(context.Background())
	r.enter(t, conn, 3, 1)
	cut()
	eventually(t, "an attempt", func() bool { return m.count(addressOf(3)) > 0 })
	m.set(addressOf(3), errRefused)
	eventually(t, "fenced", func() bool { return r.fenced(3) })
}

// Probes are bounded, and those beyond the bound take their turn.
func TestProbesAreBounded(t *testing.T) {
	r, m := withMachines(t)
	const brokers = 3 * maxProbes
	conn, cut := context.WithCancel(context.Background())
	for id := int32(2); id < 2+brokers; id++ {
		r.enter(t, conn, id, 1)
		m.set(addressOf(id), errRefused)
	}
	m.mu.Lock()
	m.hold = make(chan struct{})
	m.mu.Unlock()
	cut()
	eventually(t, "many probes", func() bool { m.mu.Lock(); defer m.mu.Unlock(); return m.running >= maxProbes })
	for range 2 * queuedSuspicions { // a flood of suspicions blocks nobody
		r.Suspect(2)
	}
	close(m.hold)
	for id := int32(2); id < 2+brokers; id++ {
		eventually(t, "fenced", func() bool { return r.fenced(id) })
	}
	if m.most > maxProbes {
		t.Errorf("%d probes at a time", m.most)
	}
}

// A new life of a broker may register before the session of the old one ends when the old one's connection has ended;
// while it stands, the id is taken.
func TestRestartedBrokerNeedNotWait(t *testing.T) {
	r, _ := withMachines(t)
	conn, cut := context.WithCancel(context.Background())
	r.enter(t, conn, 2, 1)
	resp := r.decide(t, context.Background(), registrationOf(2, 2)).(*kmsg.BrokerRegistrationResponse)
	if resp.ErrorCode != kerr.DuplicateBrokerRegistration.Code {
		t.Errorf("a second broker 2: %d", resp.ErrorCode)
	}
	cut()
	r.enter(t, context.Background(), 2, 2)
}

// A broker that stops and hears of no controller does not wait for long.
func TestShutdownWithoutControllerIsBounded(t *testing.T) {
	manual := clock.NewManual(time.UnixMilli(1_000_000))
	deaf := &deafAfter{answers: 2}
	l := NewLifecycle(LifecycleOptions{Controller: deaf, Clock: manual, Logger: zerolog.Nop(), NodeID: 1, IntervalMs: 2000})
	must(t, l.Start(context.Background()))
	done := make(chan error, 1)
	go func() { done <- l.Shutdown(context.Background()) }()
	eventually(t, "the limit's timer", func() bool { return manual.Pending() == 2 })
	manual.Advance(unheardLimit)
	select {
	case err := <-done:
		if !errors.Is(err, errUnheard) {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Error("it waits")
	}
}

// deafAfter answers some requests, and then none.
type deafAfter struct{ answers int }

func (*deafAfter) Image() *metadata.Image { return &metadata.Image{} }
func (d *deafAfter) Do(ctx context.Context, _ protocol.Principal, req kmsg.Request) (kmsg.Response, error) {
	if d.answers--; d.answers < 0 {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	resp := req.ResponseKind()
	if h, ok := resp.(*kmsg.BrokerHeartbeatResponse); ok {
		h.IsFenced = false
	}
	return resp, nil
}

// A broker that has learnt of another's stop says so at once, not with its next interval.
func TestTellIsAtOnce(t *testing.T) {
	r, _ := withManualClock(t)
	heard := r.heartbeats.Load()
	r.life.Tell(r.Image().Offset())
	eventually(t, "a heartbeat", func() bool { return r.heartbeats.Load() > heard })
	r.kill(t)
}
