package controller

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"grete/cluster/metadata"
	"grete/internal/clock"
)

// the defaults
const testPatience, testSession = 2500 * time.Millisecond, 9 * time.Second

var errNoAnswer = syscall.ETIMEDOUT

// hearsay is what nodes beside the controller say of brokers.
type hearsay struct {
	mu   sync.Mutex
	says map[int32]error // by witness: nil is that the broker is silent
	seen map[int32]bool  // by gossip
}

var errReached = errors.New("it answers")

func (w *hearsay) witness(_ context.Context, witness int32, _ *metadata.Broker) (bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch err := w.says[witness]; {
	case errors.Is(err, errReached):
		return false, nil
	case err != nil:
		return false, err
	}
	return true, nil
}

func (w *hearsay) unseen(id int32) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.seen[id]
}

// withHearsay is a controller, broker 1, with brokers 2 to last. Broker 2's machine says nothing, and its connection
// stands.
func withHearsay(t *testing.T, w *hearsay, last int32) (*rig, *machines, int64) {
	t.Helper()
	m := &machines{answers: map[string]error{}, asked: map[string]int{}}
	r := newRig(memory(t), "/data", 1)
	r.probe, r.witness, r.unseen = m.probe, w.witness, w.unseen
	must(t, r.open())
	r.register(t)
	t.Cleanup(func() { r.kill(t) })
	var epoch int64
	for id := last; id >= 2; id-- {
		m.set(addressOf(id), nil)
		if id == 2 {
			m.set(addressOf(id), errNoAnswer)
		}
		epoch = r.enter(t, context.Background(), id, 1)
	}
	return r, m, epoch
}

// A machine that nobody reaches is fenced once its patience is over, and not before, though its connection stands.
func TestSilentMachineIsFenced(t *testing.T) {
	synctest.Test(t, silentMachineIsFenced)
}

func silentMachineIsFenced(t *testing.T) {
	r, _, _ := withHearsay(t, &hearsay{}, 3)
	began := time.Now()
	eventually(t, "fenced", func() bool { return r.fenced(2) })
	if took := time.Since(began); took < testPatience || took > testPatience+probeTimeout {
		t.Errorf("fenced after %v", took)
	}
	if r.fenced(1) || r.fenced(3) {
		t.Error("others are fenced, too")
	}
	r.enter(t, context.Background(), 2, 2)
}

// Any doubt leaves a silent broker its session.
func TestDoubtfulSilenceFencesNobody(t *testing.T) {
	for name, tt := range map[string]struct {
		world  *hearsay
		last   int32
		answer error
		beats  bool
	}{
		"another broker reaches it":              {&hearsay{says: map[int32]error{3: errReached}}, 3, errNoAnswer, false},
		"the other broker does not answer":       {&hearsay{says: map[int32]error{3: errNoAnswer}}, 3, errNoAnswer, false},
		"half of the others reach it":            {&hearsay{says: map[int32]error{4: errReached, 5: errReached}}, 5, errNoAnswer, false},
		"gossip sees it":                         {&hearsay{seen: map[int32]bool{2: true}}, 3, errNoAnswer, false},
		"there is no other broker":               {&hearsay{}, 2, errNoAnswer, false},
		"it accepts, as a paused process does":   {&hearsay{}, 3, nil, false},
		"it refuses, while its connection lasts": {&hearsay{}, 3, errRefused, false},
		"the controller has no network":          {&hearsay{}, 3, syscall.ENETUNREACH, false},
		"it is heard":                            {&hearsay{}, 3, errNoAnswer, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, m, epoch := withHearsay(t, tt.world, tt.last)
				m.set(addressOf(2), tt.answer)
				for until := time.Now().Add(testSession - 100*time.Millisecond); time.Now().Before(until); time.Sleep(50 * time.Millisecond) {
					if tt.beats {
						r.beat(t, context.Background(), 2, epoch)
					}
					r.Suspect(2) // as gossip that somebody forges
				}
				if r.fenced(2) {
					t.Error("it was fenced")
				}
			})
		})
	}
}

// The majority is that of the other brokers, and one node alone never decides.
func TestEnoughWitnesses(t *testing.T) {
	for _, tt := range []struct {
		witnesses, others int
		here, want        bool
	}{
		{0, 0, false, false}, // the only broker
		{0, 1, true, false},  // two brokers, one of which is the controller
		{1, 1, false, true},  // two brokers and a controller
		{0, 2, true, false},
		{1, 2, true, true}, // three brokers: both others
		{1, 2, false, false},
		{2, 2, false, true},
		{1, 3, true, true}, // four: two of three
		{1, 4, true, false},
		{2, 4, true, true}, // five: three of four
		{499, 999, true, true},
		{498, 999, true, false},
	} {
		if got := enough(tt.witnesses, tt.others, tt.here); got != tt.want {
			t.Errorf("%d witnesses, %d others, controller among them %v: %v", tt.witnesses, tt.others, tt.here, got)
		}
	}
}

// Silence is a property of who asks, too: what this process was late to see counts for nothing.
func TestProberIsSureOfSilence(t *testing.T) {
	manual := clock.NewManual(time.UnixMilli(0))
	endpoints := []metadata.Endpoint{{Host: "a", Port: 1}, {Host: "b", Port: 2}}
	hangs := func(late time.Duration) func(context.Context, string) error {
		return func(ctx context.Context, _ string) error {
			manual.Advance(probeTimeout + late)
			<-ctx.Done()
			return ctx.Err()
		}
	}
	each := func(answers ...error) func(context.Context, string) error {
		return func(_ context.Context, address string) error { return answers[address[0]-'a'] }
	}
	for name, tt := range map[string]struct {
		dial func(context.Context, string) error
		want answer
	}{
		"nobody answers":          {each(syscall.ETIMEDOUT, syscall.EHOSTUNREACH), silent},
		"one accepts":             {each(nil, syscall.ETIMEDOUT), accepted},
		"one refuses":             {each(errRefused, syscall.ETIMEDOUT), unsure},
		"both refuse":             {each(errRefused, errRefused), refused},
		"descriptors are lacking": {each(syscall.EMFILE, syscall.EMFILE), unsure},
		"no network here":         {each(syscall.ENETUNREACH, syscall.ENETDOWN), unsure},
		"this process slept":      {hangs(2 * probeTimeout), unsure},
	} {
		p := &Prober{Clock: manual, Dial: tt.dial}
		if got := p.ask(context.Background(), endpoints); got != tt.want {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
	p := &Prober{Clock: manual, Dial: hangs(0)}
	if got := p.ask(context.Background(), endpoints[:1]); got != silent {
		t.Errorf("a dial that hangs: %v", got)
	}
	stopping, cancel := context.WithCancel(context.Background())
	cancel()
	if got := p.ask(stopping, endpoints[:1]); got == silent {
		t.Error("a probe that was called off")
	}
}

// However many ask a witness at a time, it probes a broker once, and few brokers.
func TestWitnessIsBounded(t *testing.T) {
	im := &metadata.Image{}
	var records []metadata.Record
	for id := range int32(2 * maxProbes) {
		records = append(records, &metadata.RegisterBrokerRecord{BrokerID: id, BrokerEpoch: 1, Endpoints: []metadata.Endpoint{{Host: "h", Port: uint16(id)}}})
	}
	im, _, err := im.Apply(records, 0, 0)
	must(t, err)
	var dials atomic.Int64
	release := make(chan struct{})
	p := &Prober{Clock: clock.NewManual(time.UnixMilli(0)), Image: func() *metadata.Image { return im }, Dial: func(context.Context, string) error {
		dials.Add(1)
		<-release
		return syscall.ETIMEDOUT
	}}
	if _, err := p.Silent(context.Background(), 1, 2); !errors.Is(err, kerr.StaleBrokerEpoch) {
		t.Errorf("another registration: %v", err)
	}
	var asking sync.WaitGroup
	var yes, busy atomic.Int64
	for id := range int32(2 * maxProbes) {
		for range 10 {
			asking.Go(func() {
				silent, err := p.Silent(context.Background(), id, 1)
				switch {
				case errors.Is(err, kerr.ThrottlingQuotaExceeded):
					busy.Add(1)
				case silent:
					yes.Add(1)
				}
			})
		}
	}
	eventually(t, "refusals", func() bool { return busy.Load() == 10*maxProbes })
	close(release)
	asking.Wait()
	if dials.Load() != maxProbes || yes.Load() != 10*maxProbes {
		t.Errorf("%d dials, %d answers", dials.Load(), yes.Load())
	}
}
