package txn

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"grete/coordinator"
	"grete/coordinator/logtest"
	"grete/internal/clock"
	"grete/protocol/batch"
)

// rig is a coordinator of one partition whose clock, log and partitions the test moves.
type rig struct {
	t       testing.TB
	cfg     Config
	version int16 // transaction.version
	s       *Service
	log     *logtest.Log
	clock   *clock.Manual
	markers *fakeMarkers
	epoch   int32

	mu      sync.Mutex
	nextID  int64
	lines   bytes.Buffer // that the service logs
	noIDs   error
	idsHeld bool
	heldIDs []func() // requests for an id, while idsHeld
	answers []string // in the order in which they came
}

func newRig(t testing.TB, cfg Config) *rig {
	r := &rig{t: t, cfg: cfg, version: 2, log: &logtest.Log{}, clock: clock.NewManual(time.UnixMilli(1_000_000)), nextID: 100}
	r.markers = &fakeMarkers{r: r, fail: map[Partition]error{}}
	r.start()
	t.Cleanup(func() { r.s.Close() })
	return r
}

func (r *rig) start() {
	r.s = NewService(Options{
		Config: r.cfg, Clock: r.clock, Log: zerolog.New(zerolog.SyncWriter(&r.lines)), Partitions: func() int32 { return 1 },
		TransactionVersion: func() int16 { return r.version }, NextProducerID: r.id, Markers: r.markers,
	})
	r.lead()
}

func (r *rig) id(got func(int64, error)) {
	r.mu.Lock()
	if r.idsHeld {
		r.heldIDs = append(r.heldIDs, func() { r.id(got) })
		r.mu.Unlock()
		return
	}
	id, err := r.nextID, r.noIDs
	if err == nil {
		r.nextID++
	}
	r.mu.Unlock()
	got(id, err)
}

// holdIDs lets requests for a producer id wait until the returned function is called.
func (r *rig) holdIDs() (let func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.idsHeld = true
	return func() {
		r.mu.Lock()
		held := r.heldIDs
		r.heldIDs, r.idsHeld = nil, false
		r.mu.Unlock()
		for _, h := range held {
			h()
		}
	}
}

// lead takes the partition over at a new epoch and waits until it is loaded.
func (r *rig) lead() {
	r.epoch++
	r.s.BecomeLeader(0, r.epoch, r.log)
	for range 5000 {
		loaded := make(chan error, 1)
		r.s.List(ListRequest{DurationMs: -1}, func(_ []Listed, _ []string, err error) { loaded <- err })
		if err := <-loaded; !errors.Is(err, coordinator.ErrLoading) {
			return
		}
		time.Sleep(time.Millisecond)
	}
	r.t.Fatal("does not load")
}

func (r *rig) note(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answers = append(r.answers, fmt.Sprintf(format, args...))
}

// takeAnswers returns what came since the last call.
func (r *rig) takeAnswers() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := r.answers
	r.answers = nil
	return a
}

// rest waits until nobody works for the shard any more.
func (r *rig) rest() {
	for range 20 { // what one round starts ends in the next
		done := make(chan struct{})
		r.s.rt.Submit(0, op{Run: func(*shard, *coordinator.Tx) { close(done) }, Refuse: func(error) { close(done) }})
		<-done
	}
}

// states renders every transactional id.
func (r *rig) states() []string {
	var out []string
	done := make(chan struct{})
	r.s.rt.Submit(0, op{
		Run: func(sh *shard, _ *coordinator.Tx) {
			for _, e := range sh.ids {
				out = append(out, e.text(r.clock.Now().UnixMilli()))
			}
			close(done)
		},
		Refuse: func(err error) {
			out = append(out, err.Error())
			close(done)
		},
	})
	<-done
	slices.Sort(out)
	return out
}

func (e *entry) text(nowMs int64) string {
	var b strings.Builder
	fmt.Fprintf(&b, "[%s] %v %d/%d", e.id, e.state, e.producerID, e.epoch)
	if e.prevProducerID != e.producerID {
		fmt.Fprintf(&b, " prev=%d", e.prevProducerID)
	}
	if e.lastEpoch != noEpoch {
		fmt.Fprintf(&b, " last=%d", e.lastEpoch)
	}
	if e.nextProducerID != noProducerID {
		fmt.Fprintf(&b, " next=%d", e.nextProducerID)
	}
	fmt.Fprintf(&b, " %v", partitionTexts(e.partitions))
	if e.startMs >= 0 {
		fmt.Fprintf(&b, " started=%v", time.Duration(nowMs-e.startMs)*time.Millisecond)
	}
	fmt.Fprintf(&b, " updated=%v v%d", time.Duration(nowMs-e.updateMs)*time.Millisecond, e.clientVersion)
	if len(e.unsent) > 0 {
		fmt.Fprintf(&b, " unsent=%v", partitionTexts(e.unsent))
	}
	if len(e.waiting) > 0 {
		fmt.Fprintf(&b, " waiting=%d", len(e.waiting))
	}
	return b.String()
}

func partitionTexts(ps []Partition) []string {
	out := make([]string, len(ps))
	for i, p := range ps {
		out[i] = fmt.Sprintf("%s-%d", p.Topic, p.Index)
	}
	return out
}

// fakeMarkers notes markers, and answers as it is told.
type fakeMarkers struct {
	r    *rig
	mu   sync.Mutex
	fail map[Partition]error
	hold bool
	held []func()
}

func (f *fakeMarkers) WriteMarkers(m coordinator.Marker, partitions []Partition, done func([]error)) {
	outcome := "abort"
	if m.Commit {
		outcome = "commit"
	}
	f.r.note("marker: %s %d/%d coordinator=%d v%d %v", outcome, m.ID, m.Epoch, m.CoordinatorEpoch, m.TransactionVersion, partitionTexts(partitions))
	f.mu.Lock()
	results := make([]error, len(partitions))
	for i, p := range partitions {
		results[i] = f.fail[p]
	}
	if f.hold {
		f.held = append(f.held, func() { done(results) })
		f.mu.Unlock()
		return
	}
	f.mu.Unlock()
	done(results)
}

// let lets what is held go.
func (f *fakeMarkers) let() {
	f.mu.Lock()
	held := f.held
	f.held, f.hold = nil, false
	f.mu.Unlock()
	for _, h := range held {
		h()
	}
}

// append puts a record into the log behind the coordinator's back.
func (r *rig) append(key, value []byte) {
	b, err := batch.Build(batch.BuildOptions{ProducerID: batch.NoProducerID, ProducerEpoch: -1}, []batch.Record{{Key: key, Value: value}})
	if err != nil {
		r.t.Fatal(err)
	}
	if _, err := r.log.Append(r.epoch, b); err != nil {
		r.t.Fatal(err)
	}
}
