package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"grete/internal/history"
	"grete/internal/vfs"
)

// plan is what a world is to be.
type plan struct {
	seed  uint64
	tempo int64         // by which all times of brokers and clients are stretched
	lasts time.Duration // of the troubles
}

// world is one cluster with its clients, from its forming until it has healed.
type world struct {
	plan
	t        testing.TB
	durable  bool // every write is fsynced before it is acknowledged, and any power may be lost
	log      zerolog.Logger
	net      *network
	machines []*machine
	clients  *clients
	checks   *checks
	began    time.Time
	starts   atomic.Int64 // of brokers
	lives    []*life      // all there were
	fragile  *machine     // lost what was acknowledged and has not got it back; nil: nobody

	mu    sync.Mutex
	rng   *rand.Rand // for whatever happens on many goroutines
	dice  *rand.Rand // the troubles' own: a seed repeats them
	wrong string     // first thing that a goroutine found wrong
	notes []string   // the last troubles
	done  figures
}

// figures say how much a run says: a quiet world proves nothing.
type figures struct {
	steps, crashes, powerLosses, wipes, lostDisks, cuts, jumps, slanders, halfJoins, stops, failedFsyncs, changes int
	tablesRead, rowsGone, slowDisks, lacks, unlooked, adopted                                                     int
	reassigned, packets                                                                                           int64 // of gossip that arrived
	handovers, commits                                                                                            int   // of groups' members
	history.Stats
}

func newWorld(t testing.TB, p plan) *world {
	w := &world{
		plan: p, t: t, durable: p.seed%2 == 1, log: zerolog.Nop(), net: newNetwork(p.seed), began: time.Now(),
		rng: rand.New(rand.NewPCG(p.seed, 1)), dice: rand.New(rand.NewPCG(p.seed, 3)),
	}
	w.net.slow = time.Duration(3*min(p.tempo, 2)) * time.Millisecond // a network is as fast as ever
	w.net.lossPercent = []int{0, 5, 20, 50}[p.seed/2%4]
	if os.Getenv("SIM_LOG") != "" {
		w.log = zerolog.New(os.Stderr).With().Timestamp().Logger().Hook(simulatedTime{})
	}
	count := int32(3)
	if p.seed%5 == 4 {
		count = 5
	}
	for id := range count {
		w.machines = append(w.machines, &machine{w: w, id: id + 1, host: fmt.Sprint("n", id+1), disk: vfs.NewMem()})
	}
	w.checks = newChecks(w)
	w.clients = newClients(w)
	return w
}

// simulatedTime stamps lines with the bubble's clock.
type simulatedTime struct{}

func (simulatedTime) Run(e *zerolog.Event, _ zerolog.Level, _ string) {
	e.Str("at", time.Now().Format("15:04:05.000"))
}

func (w *world) intN(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rng.IntN(n)
}

// stretch is a time at tempo 1 as it is in this world.
func (w *world) stretch(d time.Duration) time.Duration { return d * time.Duration(w.tempo) }

// found notes what is wrong; the first is what counts.
func (w *world) found(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.wrong == "" {
		w.log.Error().Msg("FOUND")
		w.wrong = fmt.Sprintf(format, args...)
	}
}

func (w *world) whatIsWrong() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.wrong
}

// trouble tells of one, in the log and, if something is wrong soon after, in the failure.
func (w *world) trouble(format string, args ...any) {
	note := fmt.Sprintf("%s %s", time.Since(w.began).Round(time.Millisecond), fmt.Sprintf(format, args...))
	w.log.Info().Msg(note)
	if w.notes = append(w.notes, note); len(w.notes) > 12 {
		w.notes = w.notes[1:]
	}
}

// run plays a world and returns what is wrong with it.
func (w *world) run() string {
	ctx, over := context.WithCancel(context.Background())
	defer w.end(over)
	for _, m := range w.machines {
		m.start()
	}
	if !w.eventually(w.stretch(30*time.Second), w.allUp) {
		return "no cluster was formed: " + w.describe()
	}
	if err := w.clients.prepare(ctx); err != nil {
		return "no topics: " + err.Error()
	}
	w.clients.start(ctx)
	for end := time.Now().Add(w.lasts); time.Now().Before(end); {
		w.step()
		time.Sleep(w.pause())
		if wrong := w.look(); wrong != "" {
			return wrong
		}
	}
	w.heal()
	if wrong := w.look(); wrong != "" {
		return "healed: " + wrong
	}
	return w.checks.healed(ctx)
}

// look checks everything, with nobody at work.
func (w *world) look() string {
	synctest.Wait()
	w.done.steps++
	w.reap()
	if wrong := w.whatIsWrong(); wrong != "" {
		return wrong
	}
	return w.checks.check()
}

// end lets nothing of the world remain.
func (w *world) end(over context.CancelFunc) {
	over()
	w.clients.wait()
	for _, m := range w.machines {
		if m.now != nil {
			m.now.crash(false, 100)
		}
	}
	for _, l := range w.lives {
		<-l.gone
	}
	time.Sleep(w.stretch(30 * time.Second)) // memberlist does not wait for its probes
}

func (w *world) allUp() bool {
	for _, m := range w.machines {
		if m.running() == nil {
			return false
		}
	}
	return true
}

// eventually waits for f, looking for what is wrong meanwhile.
func (w *world) eventually(limit time.Duration, f func() bool) bool {
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(w.stretch(50 * time.Millisecond)) {
		w.reap()
		if f() {
			return true
		}
		if w.whatIsWrong() != "" {
			return true
		}
	}
	return false
}

// reap notices processes that have ended.
func (w *world) reap() {
	for _, m := range w.machines {
		l := m.now
		if l == nil {
			continue
		}
		select {
		case err := <-l.failed:
			w.ended(l, err)
		default:
		}
		if !l.alive.Load() {
			w.checks.remember(l)
			m.now = nil
		}
	}
}

func (w *world) describe() string {
	text := ""
	for _, m := range w.machines {
		switch {
		case m.now == nil:
			text += fmt.Sprintf("; n%d is down", m.id)
		case m.running() == nil:
			text += fmt.Sprintf("; n%d is starting", m.id)
		default:
			text += fmt.Sprintf("; n%d runs", m.id)
		}
	}
	return text
}
