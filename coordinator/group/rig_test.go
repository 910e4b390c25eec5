package group

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster/metadata"
	"grete/coordinator/logtest"
	"grete/internal/clock"
)

// rig is a coordinator of one partition whose clock and log the test moves.
type rig struct {
	t       testing.TB
	cfg     Config
	s       *Service
	log     *logtest.Log
	clock   *clock.Manual
	ids     int
	epoch   int32
	image   *metadata.Image
	epochs  map[string]int32 // of members of consumer groups, by label
	mu      sync.Mutex
	answers []string // in the order in which they came
}

func newRig(t testing.TB, cfg Config) *rig {
	r := &rig{t: t, cfg: cfg, log: &logtest.Log{}, image: &metadata.Image{}, epochs: map[string]int32{}, clock: clock.NewManual(time.UnixMilli(1_000_000))}
	r.start()
	t.Cleanup(func() { r.s.Close() })
	return r
}

func (r *rig) start() {
	r.s = NewService(Options{
		Config: r.cfg, Clock: r.clock, Log: zerolog.Nop(), Partitions: func() int32 { return 1 },
		NewUUID: func() string { r.ids++; return fmt.Sprint(r.ids) },
		Image:   func() *metadata.Image { return r.image },
	})
	r.lead()
}

// lead takes the partition over at a new epoch and waits until it is loaded.
func (r *rig) lead() {
	r.epoch++
	r.s.BecomeLeader(0, r.epoch, r.log)
	for range 5000 {
		code := make(chan int16, 1)
		r.s.ListGroups(nil, nil, func(c int16, _ []kmsg.ListGroupsResponseGroup) { code <- c })
		if <-code != kerr.CoordinatorLoadInProgress.Code {
			return
		}
		time.Sleep(time.Millisecond)
	}
	r.t.Fatal("does not load")
}

// change applies records to the metadata, and returns when the shard has followed.
func (r *rig) change(records ...metadata.Record) {
	r.t.Helper()
	old := r.image
	next, delta, err := old.Apply(records, old.Offset()+1, 1)
	if err != nil {
		r.t.Fatal(err)
	}
	r.image = next
	r.s.Applied(old, next, delta)
	r.look(func(*shard) {})
}

// dropTopic deletes a topic that the metadata of the test need not have.
func (r *rig) dropTopic(name string) {
	if r.image.Topic(name) == nil {
		playTopic(r, command{label: name})
	}
	playRemoveTopic(r, command{label: name})
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

func subscription(topics ...string) []byte {
	b := []byte{0, 0, 0, 0, 0, byte(len(topics))}
	for _, t := range topics {
		b = append(append(b, 0, byte(len(t))), t...)
	}
	return append(b, 0xff, 0xff, 0xff, 0xff)
}

func ptr[T any](v T) *T { return &v }

func deref(s *string) string {
	if s == nil {
		return "-"
	}
	return *s
}
