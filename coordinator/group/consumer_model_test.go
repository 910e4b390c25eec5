package group

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/coordinator"
)

// TestRandomConsumers lets members of both protocols join, leave, crash, come back, change what they want and be slow,
// on a log that fails at times and a coordinator that restarts. Never may two members have the same partition, or
// anything be without a timer; and when everyone behaves again the group settles: all partitions have an owner, the
// loads are even, and a restart finds the same.
func TestRandomConsumers(t *testing.T) {
	seeds := uint64(25)
	if os.Getenv("GRETE_LONG") != "" {
		seeds = 3000
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := newConsumerWorld(t, seed)
			for range 400 {
				w.step()
				w.check()
			}
			w.settle()
		})
	}
}

type consumerWorld struct {
	*rig
	rng     *rand.Rand
	members []*modelConsumer
	failing bool
}

// modelConsumer is a client: what it believes to have is what it was told, and it gives up at once what it must.
type modelConsumer struct {
	name     string
	instance *string
	epoch    int32
	in       bool
	topics   string
	owned    partitions
}

func newConsumerWorld(t *testing.T, seed uint64) *consumerWorld {
	cfg := DefaultConfig()
	cfg.Consumer.Defaults.AssignmentIntervalMs = int32(seed%2) * 1000
	cfg.Consumer.MaxSize = 10
	cfg.OffsetsRetentionMs, cfg.OffsetsRetentionCheckIntervalMs = 20_000, 10_000
	w := &consumerWorld{rig: newRig(t, cfg), rng: rand.New(rand.NewPCG(seed, 7))}
	for i := range 12 {
		c := &modelConsumer{name: fmt.Sprint("c", i), topics: "t"}
		if i%3 == 0 {
			c.instance = ptr(fmt.Sprint("i", i))
		}
		w.members = append(w.members, c)
	}
	playTopic(w.rig, command{label: "t", args: map[string]string{"partitions": "7"}})
	playTopic(w.rig, command{label: "u", args: map[string]string{"partitions": "3"}})
	return w
}

func (w *consumerWorld) step() {
	c := w.members[w.rng.IntN(len(w.members))]
	switch n := w.rng.IntN(100); {
	case n < 60:
		w.beat(c, n%4 == 0)
	case n < 66:
		w.leave(c)
	case n < 69:
		c.in, c.epoch, c.owned = false, 0, nil // it crashed, and has forgotten everything
	case n < 73:
		c.topics = []string{"t", "u", "t+u"}[w.rng.IntN(3)]
		if c.in {
			w.send(c, c.epoch, words(c.topics), c.owned)
		}
	case n < 80:
		w.commit(c)
	case n < 90:
		w.clock.Advance(time.Duration(w.rng.IntN(9000)) * time.Millisecond)
	case n < 94:
		w.failing = !w.failing
		w.log.FailAppends(nil)
		if w.failing {
			w.log.FailAppends(kerr.NotEnoughReplicas)
		}
	case n < 97:
		playTopic(w.rig, command{label: "u", args: map[string]string{"partitions": fmt.Sprint(3 + w.rng.IntN(5))}})
	default:
		w.reload()
	}
}

// beat is a heartbeat, or a join; a lazy one does not say what it has.
func (w *consumerWorld) beat(c *modelConsumer, lazy bool) {
	switch {
	case !c.in:
		c.owned = partitions{}
		w.send(c, 0, words(c.topics), c.owned)
	case lazy:
		w.send(c, c.epoch, nil, nil)
	default:
		w.send(c, c.epoch, nil, c.owned)
	}
}

func (w *consumerWorld) send(c *modelConsumer, epoch int32, topics []string, owned partitions) {
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Version, req.Group, req.MemberID, req.MemberEpoch, req.InstanceID = 1, "g", c.name, epoch, c.instance
	req.SubscribedTopicNames = topics
	if epoch == 0 {
		req.RebalanceTimeoutMillis = 20000
	}
	if owned != nil {
		req.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
		for id, ps := range owned {
			t := kmsg.NewConsumerGroupHeartbeatRequestTopic()
			t.TopicID, t.Partitions = id, ps
			req.Topics = append(req.Topics, t)
		}
	}
	answer := make(chan *kmsg.ConsumerGroupHeartbeatResponse, 1)
	w.s.ConsumerGroupHeartbeat(RequestContext{Version: 1, ClientID: c.name}, req, func(resp *kmsg.ConsumerGroupHeartbeatResponse) { answer <- resp })
	c.took(w.t, <-answer)
}

func (c *modelConsumer) took(t testing.TB, resp *kmsg.ConsumerGroupHeartbeatResponse) {
	switch resp.ErrorCode {
	case 0:
	case kerr.FencedMemberEpoch.Code, kerr.UnknownMemberID.Code, kerr.GroupIDNotFound.Code, kerr.UnreleasedInstanceID.Code, kerr.GroupMaxSizeReached.Code:
		c.in, c.epoch, c.owned = false, 0, nil
		return
	case kerr.CoordinatorNotAvailable.Code:
		return // the log fails
	default:
		t.Errorf("%s: %v", c.name, kerr.ErrorForCode(resp.ErrorCode))
	}
	c.in, c.epoch = true, resp.MemberEpoch
	if resp.Assignment != nil {
		c.owned = partitions{}
		for _, a := range resp.Assignment.Topics {
			c.owned[a.TopicID] = a.Partitions
		}
	}
}

// commit is by a member, for a topic that members may use or not.
func (w *consumerWorld) commit(c *modelConsumer) {
	if !c.in {
		return
	}
	topic := []string{"t", "u", "v"}[w.rng.IntN(3)]
	req := txnCommit("g", int32(w.rng.IntN(3)), 1)
	req.Version, req.Topics[0].Topic, req.Topics[0].TopicID = 9, topic, testTopicID(topic)
	req.MemberID, req.InstanceID, req.Generation = c.name, c.instance, c.epoch
	w.s.CommitOffsets(req, func([]kmsg.OffsetCommitResponseTopic) {})
}

func (w *consumerWorld) leave(c *modelConsumer) {
	if !c.in {
		return
	}
	epoch := int32(leavingEpoch)
	if c.instance != nil && w.rng.IntN(2) == 0 {
		epoch = staticLeaveEpoch
	}
	w.send(c, epoch, nil, nil)
	c.in, c.epoch, c.owned = false, 0, nil
}

func (w *consumerWorld) reload() {
	before := w.texts(consumerText)
	w.s.Close()
	w.log.FailAppends(nil)
	w.failing = false
	w.start()
	if after := w.texts(consumerText); !slices.Equal(before, after) {
		w.t.Fatalf("before the restart: %v\nafter: %v", before, after)
	}
}

func (w *consumerWorld) texts(text func(*consumerGroup) string) []string {
	var out []string
	done := make(chan struct{})
	w.s.rt.Submit(0, op{
		Run: func(s *shard, tx *coordinator.Tx) {
			defer close(done)
			for id, g := range s.groups {
				out = append(out, text(g.(*consumerGroup)))
				if bad := checkExpiry(s, id, tx.NowMs); bad != "" {
					w.t.Error(bad)
				}
			}
		},
		Refuse: func(err error) { out = append(out, err.Error()); close(done) },
	})
	<-done // after a restart the loader's goroutine may still be at work
	return out
}

func (w *consumerWorld) check() {
	w.t.Helper()
	for _, bad := range w.texts(func(g *consumerGroup) string { return fmt.Sprint(checkConsumerGroup(g)) }) {
		if bad != "[]" {
			w.t.Fatal(bad, w.texts(consumerText))
		}
	}
	w.look(func(s *shard) { checkWeights(w.t, s) })
}

// settle lets all members behave, until heartbeats change nothing any more.
func (w *consumerWorld) settle() {
	w.log.FailAppends(nil)
	for round := range 60 {
		before := w.texts(consumerText)
		for _, c := range w.members[:9] {
			w.beat(c, false)
			w.check()
		}
		w.clock.Advance(5 * time.Second)
		if after := w.texts(consumerText); round > 12 && slices.Equal(before, after) {
			w.checkSettled()
			return
		}
	}
	w.t.Fatalf("does not settle: %v", w.texts(consumerText))
}

func (w *consumerWorld) checkSettled() {
	w.texts(func(g *consumerGroup) string {
		if g.stateName() != "Stable" || len(g.members) != 9 {
			w.t.Errorf("%s", consumerText(g))
		}
		for _, c := range w.members[:9] {
			if m := g.members[c.name]; m == nil || !m.assigned.plain().equal(c.owned) || m.epoch != c.epoch {
				w.t.Errorf("%s believes %v at %d: %s", c.name, c.owned, c.epoch, consumerText(g))
			}
		}
		checkUniform(w.t, w.image.Topic, g)
		return ""
	})
}
