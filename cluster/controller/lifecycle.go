package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster/metadata"
	"grete/internal/clock"
	"grete/protocol"
)

// Requester is what the lifecycle needs of a Node, or of a client of the active controller.
type Requester interface {
	Do(ctx context.Context, p protocol.Principal, req kmsg.Request) (kmsg.Response, error)
	Image() *metadata.Image
}

// LifecycleOptions describe the broker to its controller.
type LifecycleOptions struct {
	Controller Requester
	Principal  protocol.Principal // whom inter-broker requests come from
	Clock      clock.Clock
	Logger     zerolog.Logger
	NodeID     int32
	ClusterID  string
	// Incarnation is new for every run of the process.
	Incarnation metadata.UUID
	// StoppedEpoch is the epoch of the run before, if that ended cleanly, else -1 (KIP-966).
	StoppedEpoch int64
	Endpoints    []metadata.Endpoint // advertised.listeners
	Rack         string              // broker.rack, "" when none
	LogDirs      []metadata.UUID     // directory.id of every log directory
	Features     []Feature           // nil: DefaultFeatures
	// Registered is called once the controller has accepted the broker, before it is unfenced: from then on others
	// connect to it. Its error ends the start. Nil: nothing is to be done.
	Registered func() error
	IntervalMs int64 // broker.heartbeat.interval.ms
	// LeaderGone gives a channel that is closed when the controller of the moment is not it any more: the next one
	// hears of this broker at once. Nil: it hears with the next interval.
	LeaderGone func() <-chan struct{}
	// Hopeless says that no controller can answer any more, as a majority of the quorum has ended. Nil: that is never
	// known.
	Hopeless func() bool
	// OfflineDirs are those of LogDirs that cannot be used any more; nil: never any.
	OfflineDirs func() []metadata.UUID
}

// Lifecycle keeps the broker registered: registration, heartbeats, controlled shutdown. One goroutine.
type Lifecycle struct {
	o     LifecycleOptions
	epoch atomic.Int64
	// heardMs is when a heartbeat was last answered.
	heardMs atomic.Int64

	ctx      context.Context
	cancel   context.CancelFunc
	wg       sync.WaitGroup
	shutdown atomic.Bool
	owed     atomic.Int64  // the offset that the next heartbeat must not be below
	wake     chan struct{} // holds one: heartbeat now
	answered chan struct{} // holds one: a heartbeat was
	told     chan struct{} // closed when the controller lets the broker go
	ended    chan struct{} // closed when heartbeats have ended
}

// retryEvery is how soon a failed request is tried again.
const retryEvery = 100 * time.Millisecond

// unheardLimit is how long a broker that stops waits for an answer of any controller: longer than an election.
const unheardLimit = 2500 * time.Millisecond

var (
	errUnheard  = errors.New("no controller answers")
	errHopeless = errors.New("a majority of the metadata quorum has ended")
)

// NewLifecycle makes one that has not begun.
func NewLifecycle(o LifecycleOptions) *Lifecycle {
	if o.Features == nil {
		o.Features = DefaultFeatures()
	}
	if o.Registered == nil {
		o.Registered = func() error { return nil }
	}
	if o.LeaderGone == nil {
		o.LeaderGone = func() <-chan struct{} { return nil }
	}
	l := &Lifecycle{o: o, wake: make(chan struct{}, 1), answered: make(chan struct{}, 1), told: make(chan struct{}), ended: make(chan struct{})}
	l.epoch.Store(-1)
	l.owed.Store(-1)
	return l
}

// BrokerEpoch is the epoch of this registration, -1 before it.
func (l *Lifecycle) BrokerEpoch() int64 { return l.epoch.Load() }

// Tell has a heartbeat say soon that this node's image has come to offset: a broker that stops waits until all others
// know of it. It may be called before the image is published.
func (l *Lifecycle) Tell(offset int64) {
	l.owed.Store(offset)
	poke(l.wake)
}

// Start registers the broker and returns once it is unfenced: from then on it is given partitions, and this node's
// image names it. It retries what may succeed later until ctx ends.
func (l *Lifecycle) Start(ctx context.Context) error {
	if err := l.register(ctx); err != nil {
		return err
	}
	if err := l.o.Registered(); err != nil {
		return err
	}
	for {
		resp, err := l.heartbeat(ctx)
		if err == nil && !resp.IsFenced {
			break
		}
		if errors.Is(err, ErrStopped) {
			return err
		}
		if err := clock.Pause(ctx, l.o.Clock, retryEvery); err != nil {
			return err
		}
	}
	l.ctx, l.cancel = context.WithCancel(context.WithoutCancel(ctx))
	l.wg.Go(l.run)
	return nil
}

// Shutdown is the controlled shutdown: it returns once the controller has moved what this broker led, or when ctx ends,
// this node's part of the quorum has, no controller can answer, or none has answered for unheardLimit; heartbeats have
// stopped then.
func (l *Lifecycle) Shutdown(ctx context.Context) error {
	if l.cancel == nil {
		return nil // it never was in service
	}
	l.shutdown.Store(true)
	poke(l.wake)
	err := l.awaitRelease(ctx)
	l.Stop()
	return err
}

func (l *Lifecycle) awaitRelease(ctx context.Context) error {
	unheard := make(chan struct{}, 1)
	limit := l.o.Clock.AfterFunc(unheardLimit, func() { poke(unheard) })
	defer limit.Stop()
	var look <-chan time.Time // nil: never
	if l.o.Hopeless != nil {
		ticker := l.o.Clock.NewTicker(retryEvery)
		defer ticker.Stop()
		look = ticker.C()
	}
	for {
		select {
		case <-look:
			if l.o.Hopeless() {
				return errHopeless
			}
		case <-l.told:
			return nil
		case <-l.ended:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-l.answered:
			limit.Reset(unheardLimit)
		case <-unheard:
			return errUnheard
		}
	}
}

// Unheard is how long ago a controller last answered a heartbeat, or the start.
func (l *Lifecycle) Unheard() time.Duration {
	return time.Duration(clock.Millis(l.o.Clock)-l.heardMs.Load()) * time.Millisecond
}

// Stop ends the heartbeats without telling the controller.
func (l *Lifecycle) Stop() {
	if l.cancel == nil {
		return
	}
	l.cancel()
	l.wg.Wait()
}

func (l *Lifecycle) run() {
	defer close(l.ended)
	ticker := l.o.Clock.NewTicker(time.Duration(l.o.IntervalMs) * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-l.ctx.Done():
			return
		case <-ticker.C():
		case <-l.wake:
		case <-l.o.LeaderGone():
		}
		for l.o.Controller.Image().Offset() < l.owed.Load() && clock.Pause(l.ctx, l.o.Clock, time.Millisecond) == nil {
		}
		resp, err := l.heartbeat(l.ctx)
		if errors.Is(err, ErrStopped) {
			return // no controller will hear this broker again
		}
		if err != nil {
			l.recover(err)
			continue
		}
		poke(l.answered)
		if resp.ShouldShutdown {
			close(l.told)
			return
		}
		if l.shutdown.Load() {
			_ = clock.Pause(l.ctx, l.o.Clock, time.Millisecond)
			poke(l.wake)
		}
	}
}

// recover registers again when the controller does not know this registration any more; other faults pass by
// themselves.
func (l *Lifecycle) recover(err error) {
	if l.ctx.Err() != nil {
		return
	}
	l.o.Logger.Warn().Err(err).Msg("a broker heartbeat failed")
	if code, ok := err.(*kerr.Error); ok && code == kerr.StaleBrokerEpoch {
		if err := l.register(l.ctx); err != nil && l.ctx.Err() == nil {
			l.o.Logger.Error().Err(err).Msg("the broker cannot register again")
		}
	}
	if clock.Pause(l.ctx, l.o.Clock, retryEvery) == nil {
		poke(l.wake)
	}
}

// register asks until the controller accepts; only a refusal that will last is an error.
func (l *Lifecycle) register(ctx context.Context) error {
	for {
		resp, err := l.o.Controller.Do(ctx, l.o.Principal, l.registration())
		if err == nil {
			r := resp.(*kmsg.BrokerRegistrationResponse)
			switch r.ErrorCode {
			case 0:
				l.epoch.Store(r.BrokerEpoch)
				return nil
			case kerr.InconsistentClusterID.Code, kerr.InvalidRegistration.Code, kerr.UnsupportedVersion.Code:
				return fmt.Errorf("the controller refuses broker %d: %w", l.o.NodeID, kerr.ErrorForCode(r.ErrorCode))
			}
			err = kerr.ErrorForCode(r.ErrorCode)
		}
		if errors.Is(err, ErrStopped) {
			return err
		}
		l.o.Logger.Warn().Err(err).Msg("the broker is not registered yet")
		if err := clock.Pause(ctx, l.o.Clock, retryEvery); err != nil {
			return err
		}
	}
}

func (l *Lifecycle) registration() *kmsg.BrokerRegistrationRequest {
	r := kmsg.NewPtrBrokerRegistrationRequest()
	r.Version = r.MaxVersion()
	r.BrokerID, r.ClusterID, r.IncarnationID = l.o.NodeID, l.o.ClusterID, l.o.Incarnation
	r.PreviousBrokerEpoch = l.o.StoppedEpoch
	if epoch := l.epoch.Load(); epoch >= 0 { // it is running still
		r.PreviousBrokerEpoch = epoch
	}
	if l.o.Rack != "" {
		r.Rack = &l.o.Rack
	}
	for _, e := range l.o.Endpoints {
		listener := kmsg.NewBrokerRegistrationRequestListener()
		listener.Name, listener.Host, listener.Port, listener.SecurityProtocol = e.Listener, e.Host, e.Port, e.SecurityProtocol
		r.Listeners = append(r.Listeners, listener)
	}
	for _, f := range l.o.Features {
		feature := kmsg.NewBrokerRegistrationRequestFeature()
		feature.Name, feature.MinSupportedVersion, feature.MaxSupportedVersion = f.Name, f.Min, f.Max
		r.Features = append(r.Features, feature)
	}
	offline := l.offlineDirs()
	for _, id := range l.o.LogDirs {
		if !slices.Contains(offline, id) {
			r.LogDirs = append(r.LogDirs, id)
		}
	}
	return r
}

func (l *Lifecycle) offlineDirs() []metadata.UUID {
	if l.o.OfflineDirs == nil {
		return nil
	}
	return l.o.OfflineDirs()
}

// Beat sends a heartbeat now: there is news.
func (l *Lifecycle) Beat() { poke(l.wake) }

func (l *Lifecycle) heartbeat(ctx context.Context) (*kmsg.BrokerHeartbeatResponse, error) {
	r := kmsg.NewPtrBrokerHeartbeatRequest()
	r.Version = r.MaxVersion()
	r.BrokerID, r.BrokerEpoch = l.o.NodeID, l.epoch.Load()
	r.CurrentMetadataOffset = l.o.Controller.Image().Offset()
	r.WantShutdown = l.shutdown.Load()
	for _, id := range l.offlineDirs() {
		r.OfflineLogDirs = append(r.OfflineLogDirs, id)
	}
	resp, err := l.o.Controller.Do(ctx, l.o.Principal, r)
	if err != nil {
		return nil, err
	}
	heard := resp.(*kmsg.BrokerHeartbeatResponse)
	if heard.ErrorCode != 0 {
		return nil, kerr.ErrorForCode(heard.ErrorCode)
	}
	l.heardMs.Store(clock.Millis(l.o.Clock))
	return heard, nil
}
