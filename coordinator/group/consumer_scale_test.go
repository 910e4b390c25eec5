package group

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"grete/cluster/metadata"
)

// settledGroup is a consumer group of so many members that have followed their targets, and a heartbeat of one of them.
func settledGroup(t testing.TB, members int) (*rig, func()) {
	cfg := DefaultConfig()
	cfg.Consumer.Defaults.AssignmentIntervalMs = 5000 // targets are not computed with each join
	r := newRig(t, cfg)
	playTopic(r, command{label: "t", args: map[string]string{"partitions": "100"}})
	w := &consumerWorld{rig: r}
	for i := range members {
		w.members = append(w.members, &modelConsumer{name: fmt.Sprint("m", i), topics: "t"})
	}
	for range 6 {
		for _, c := range w.members {
			w.beat(c, false)
		}
		r.clock.Advance(5 * time.Second)
	}
	w.texts(func(g *consumerGroup) string {
		if g.stateName() != "Stable" {
			t.Errorf("%d members: %s", members, g.stateName())
		}
		return ""
	})
	next := 0
	return r, func() {
		next = (next + 1) % members
		w.beat(w.members[next], true)
	}
}

// allocated is the bytes that n calls of f allocate, each.
func allocated(n int, f func()) float64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range n {
		f()
	}
	runtime.ReadMemStats(&after)
	return float64(after.TotalAlloc-before.TotalAlloc) / float64(n)
}

// TestHeartbeatLooksAtItsMemberOnly: what a heartbeat allocates, as it would to gather the members, does not grow with
// the group.
func TestHeartbeatLooksAtItsMemberOnly(t *testing.T) {
	const beats = 2000
	cost := func(members int) float64 {
		r, beat := settledGroup(t, members)
		before := r.log.Appends()
		bytes := allocated(beats, beat)
		if n := r.log.Appends() - before; n != 0 {
			t.Errorf("%d members: %d appends by heartbeats that change nothing", members, n)
		}
		return bytes
	}
	few, many := cost(100), cost(5000)
	t.Logf("a heartbeat allocates %.0f bytes beside 100 members, %.0f beside 5,000", few, many)
	if many > 1.5*few {
		t.Errorf("%.0f bytes beside many members, %.0f beside few", many, few)
	}
}

// BenchmarkConsumerHeartbeat is a heartbeat that changes nothing.
func BenchmarkConsumerHeartbeat(b *testing.B) {
	for _, members := range []int{100, 10_000} {
		b.Run(fmt.Sprint(members, "-members"), func(b *testing.B) {
			_, beat := settledGroup(b, members)
			b.ReportAllocs()
			for b.Loop() {
				beat()
			}
		})
	}
}

// replayGroups puts consumer groups into the shard that have compared their topics: each has one member, which
// subscribes to "all", and ten of them to "some".
func replayGroups(t testing.TB, r *rig, groups int) {
	t.Helper()
	r.look(func(sh *shard) {
		for i := range groups {
			m := newConsumerMember("m")
			if m.topics = []string{"all"}; i%(groups/10) == 0 {
				m.topics = []string{"all", "some"}
			}
			var c changes
			c.member(fmt.Sprint("g", i), m)
			if err := sh.replayConsumer(c.records[0].key, c.records[0].value); err != nil {
				t.Fatal(err)
			}
		}
		for _, g := range sh.groups {
			g := g.(*consumerGroup)
			g.checked = r.s.followed.standing(r.image)
		}
	})
}

// unchecked counts the groups that will compare their topics at their next heartbeats.
func (r *rig) unchecked() (n int) {
	r.look(func(sh *shard) {
		for _, g := range sh.groups {
			if g.(*consumerGroup).checked != r.s.followed.racks.Load() {
				n++
			}
		}
	})
	return n
}

func partitionRecord(topic string, index int32, replicas ...int32) metadata.Record {
	return &metadata.PartitionRecord{
		Index: index, TopicID: testTopicID(topic), Partition: metadata.Partition{Replicas: replicas, ISR: replicas, Leader: 1},
	}
}

func isrChange(topic topicID) metadata.Record {
	change := metadata.NewPartitionChange(topic, 0)
	change.ISR = []int32{1}
	return change
}

// TestMetadataTouchesItsGroupsOnly: groups compare their topics anew only when partitions, their places or racks have
// changed, and only those that subscribe to them.
func TestMetadataTouchesItsGroupsOnly(t *testing.T) {
	const groups = 1000
	all, some := testTopicID("all"), testTopicID("some")
	moved := metadata.NewPartitionChange(some, 0)
	moved.Replicas = []int32{1, 3}
	for name, c := range map[string]struct {
		records []metadata.Record
		touched int
	}{
		"in-sync replicas": {[]metadata.Record{
			isrChange(all),
			isrChange(some),
		}, 0},
		"producer ids":       {[]metadata.Record{&metadata.ProducerIDsRecord{BrokerID: 1, Next: 1000}}, 0},
		"another topic":      {[]metadata.Record{&metadata.TopicRecord{Name: "other", ID: topicID{9}}}, 0},
		"partitions added":   {[]metadata.Record{partitionRecord("some", 1, 1, 2)}, 10},
		"replicas moved":     {[]metadata.Record{moved}, 10},
		"topic deleted":      {[]metadata.Record{&metadata.RemoveTopicRecord{ID: some}}, 10},
		"broker with a rack": {[]metadata.Record{&metadata.RegisterBrokerRecord{BrokerID: 7, Rack: ptr("r")}}, groups},
		"broker without":     {[]metadata.Record{&metadata.RegisterBrokerRecord{BrokerID: 7}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, DefaultConfig())
			r.change(&metadata.TopicRecord{Name: "all", ID: all}, partitionRecord("all", 0, 1, 2),
				&metadata.TopicRecord{Name: "some", ID: some}, partitionRecord("some", 0, 1, 2))
			replayGroups(t, r, groups)
			r.change(c.records...)
			if n := r.unchecked(); n != c.touched {
				t.Errorf("%d groups compare their topics, want %d", n, c.touched)
			}
		})
	}
}

// TestHeartbeatBeforeTheImage: a group that compares its topics when a change of them has been told of, but is not
// visible yet, compares them again.
func TestHeartbeatBeforeTheImage(t *testing.T) {
	r := newRig(t, DefaultConfig())
	playTopic(r, command{label: "t"})
	beat := func(epoch string) {
		playBeat(r, command{label: "a", args: map[string]string{"topics": "t", "epoch": epoch}})
	}
	beat("0")
	beat("now")
	before := r.epochs["a"]
	old := r.image
	next, delta, err := old.Apply([]metadata.Record{partitionRecord("t", 1, 1)}, old.Offset()+1, 1)
	if err != nil {
		t.Fatal(err)
	}
	r.s.Applied(old, next, delta)
	r.look(func(*shard) {})
	beat("now") // sees the old image
	r.image = next
	r.clock.Advance(10 * time.Second)
	beat("now")
	beat("now")
	if after := r.epochs["a"]; after != before+1 {
		t.Errorf("epoch %d before the partition was added, %d after", before, after)
	}
}

// BenchmarkImage is a change of in-sync replicas of a topic that 100,000 groups read, and the heartbeats that follow it
// pay nothing for it (TestMetadataTouchesItsGroupsOnly).
func BenchmarkImage(b *testing.B) {
	r := newRig(b, DefaultConfig())
	all := testTopicID("all")
	r.change(&metadata.TopicRecord{Name: "all", ID: all}, partitionRecord("all", 0, 1, 2))
	replayGroups(b, r, 100_000)
	for b.Loop() {
		r.change(isrChange(all))
	}
	if n := r.unchecked(); n != 0 {
		b.Errorf("%d groups compare their topics", n)
	}
}
