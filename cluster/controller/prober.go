package controller

import (
	"context"
	"errors"
	"net"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"grete/cluster/metadata"
	"grete/internal/clock"
	"grete/internal/sched"
	"grete/protocol"
)

// answer is what a broker's machine says to a probe.
type answer int

const (
	unsure   answer = iota // the listeners differ, or the fault is this node's
	accepted               // somebody listens, or the kernel does for a paused process
	refused                // the machine says that nobody listens
	silent                 // nothing came back
)

const probeTimeout = 250 * time.Millisecond

// Prober asks brokers' machines whether they are there. Whoever asks it through Silent, it probes a broker at most once
// every probeTimeout, and maxProbes brokers at a time.
type Prober struct {
	Clock clock.Clock
	// Dial connects to an address and lets go: nil when somebody listens there.
	Dial  func(ctx context.Context, address string) error
	Image func() *metadata.Image

	mu sched.Mutex
	by map[int32]*observation // of the brokers that were asked about lately
}

// observation is one probe that several may wait for.
type observation struct {
	epoch  int64
	began  time.Time
	answer answer
	done   chan struct{} // closed when answer is there
}

// Silent says whether no listener of a broker answers. kerr.StaleBrokerEpoch: this broker's image does not have that
// registration; kerr.ThrottlingQuotaExceeded: too many brokers are probed.
func (p *Prober) Silent(ctx context.Context, id int32, epoch int64) (bool, error) {
	b := p.Image().Broker(id)
	if b == nil || b.Epoch != epoch {
		return false, kerr.StaleBrokerEpoch
	}
	o, mine := p.observe(b)
	switch {
	case o == nil:
		return false, kerr.ThrottlingQuotaExceeded
	case mine:
		o.answer = p.ask(ctx, b.Endpoints)
		close(o.done)
	}
	select {
	case <-o.done:
		return o.answer == silent, nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

// observe finds the probe of b that answers now; mine: the caller has to make it. nil: there is no room for another.
func (p *Prober) observe(b *metadata.Broker) (o *observation, mine bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.Clock.Now()
	for id, o := range p.by {
		if now.Sub(o.began) >= probeTimeout && o.over() {
			delete(p.by, id)
		}
	}
	if o := p.by[b.ID]; o != nil && o.epoch == b.Epoch {
		return o, false
	}
	if len(p.by) >= maxProbes {
		return nil, false
	}
	if p.by == nil {
		p.by = map[int32]*observation{}
	}
	o = &observation{epoch: b.Epoch, began: now, done: make(chan struct{})}
	p.by[b.ID] = o
	return o, true
}

func (o *observation) over() bool {
	select {
	case <-o.done:
		return true
	default:
		return false
	}
}

// ask dials all listeners at once, and waits for probeTimeout at most.
func (p *Prober) ask(ctx context.Context, endpoints []metadata.Endpoint) answer {
	answers := make([]answer, len(endpoints))
	var asking sync.WaitGroup
	for i, e := range endpoints {
		asking.Go(func() { answers[i] = p.dial(ctx, net.JoinHostPort(e.Host, strconv.Itoa(int(e.Port)))) })
	}
	asking.Wait()
	return agreed(answers)
}

// agreed is what all listeners answer; one that accepts is enough.
func agreed(answers []answer) answer {
	if len(answers) == 0 {
		return unsure
	}
	all := answers[0]
	for _, a := range answers {
		if a == accepted {
			return accepted
		}
		if a != all {
			all = unsure
		}
	}
	return all
}

// dial asks one listener. A timeout that this process was late to notice counts for nothing: it may have been paused
// itself.
func (p *Prober) dial(ctx context.Context, address string) answer {
	began := p.Clock.Now()
	limited, cancel := clock.WithTimeout(ctx, p.Clock, probeTimeout)
	defer cancel()
	err := p.Dial(limited, address)
	late := p.Clock.Now().Sub(began) > 2*probeTimeout
	switch {
	case err == nil:
		return accepted
	case protocol.Refused(err):
		return refused
	case ctx.Err() == nil && !late && (limited.Err() != nil || unreachable(err)):
		return silent
	}
	return unsure
}

// unreachable: the system gave up before we did, for want of an answer.
func unreachable(err error) bool {
	return errors.Is(err, syscall.ETIMEDOUT) || errors.Is(err, syscall.EHOSTUNREACH) || errors.Is(err, syscall.EHOSTDOWN)
}
