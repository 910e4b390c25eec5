package controller

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster/metadata"
)

// compareIndex compares an index with what a look at all partitions finds.
func compareIndex(x *partitionIndex, im *metadata.Image) error {
	want := partitionIndex{by: map[int32]partitionSet{}, led: map[int32]int{}, unpreferred: partitionSet{}}
	for t := range im.Topics() {
		for i := range t.Partitions {
			p, at := &t.Partitions[i], topicPartition{t.Name, int32(i)}
			for id := int32(-1); id < 100; id++ {
				if p.Leader == id || slices.Contains(p.ISR, id) || slices.Contains(p.ELR, id) {
					if want.by[id] == nil {
						want.by[id] = partitionSet{}
					}
					want.by[id][at] = struct{}{}
				}
			}
			want.led[p.Leader]++
			if p.Leader != p.Replicas[0] {
				want.unpreferred[at] = struct{}{}
			}
		}
	}
	if !reflect.DeepEqual(*x, want) {
		return fmt.Errorf("the index has\n%+v\nand a look at all partitions finds\n%+v", *x, want)
	}
	return nil
}

// TestPartitionIndexFollows changes topics at random through a decider's advance, takes some of it back as a failed
// append does, and compares the index with a full look each time; now and then it begins from an image alone, as a new
// controller does.
func TestPartitionIndexFollows(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 7))
		d := &decider{pending: &metadata.Image{}, index: newPartitionIndex(&metadata.Image{})}
		for step := range 200 {
			before := d.pending
			for range 1 + rng.IntN(3) {
				must(t, d.advance(randomChange(rng, d.pending)))
				if err := compareIndex(d.index, d.pending); err != nil {
					t.Fatalf("seed %d, step %d: %v", seed, step, err)
				}
			}
			switch rng.IntN(4) {
			case 0:
				d.retreat(before)
			case 1:
				d.index = newPartitionIndex(d.pending)
				fallthrough
			default:
				d.settle(d.pending.Offset() + 1)
			}
			if err := compareIndex(d.index, d.pending); err != nil {
				t.Fatalf("seed %d, step %d, afterwards: %v", seed, step, err)
			}
			checkSets(t, d)
		}
	}
}

// checkSets: iteration meets each partition of a set once, in the order of topics and numbers.
func checkSets(t *testing.T, d *decider) {
	t.Helper()
	for id := range d.index.by {
		var met []topicPartition
		for topic, index := range d.index.of(id).in(d.pending) {
			met = append(met, topicPartition{topic.Name, index})
		}
		if !slices.IsSortedFunc(met, comparePartitions) || len(slices.Compact(met)) != len(d.index.of(id)) {
			t.Fatalf("of broker %d: %v, iterated as %v", id, d.index.of(id), met)
		}
	}
}

// randomChange creates, deletes (and creates again under the same name), grows and changes topics.
func randomChange(rng *rand.Rand, im *metadata.Image) []metadata.Record {
	name := fmt.Sprint("t", rng.IntN(6))
	t := im.Topic(name)
	if t == nil {
		return randomTopic(rng, name)
	}
	switch n := rng.IntN(10); {
	case n == 0:
		return []metadata.Record{&metadata.RemoveTopicRecord{ID: t.ID}}
	case n == 1:
		return append([]metadata.Record{&metadata.RemoveTopicRecord{ID: t.ID}}, randomTopic(rng, name)...)
	case n == 2:
		return []metadata.Record{randomPartition(rng, t.ID, int32(len(t.Partitions)))}
	case n == 3:
		return []metadata.Record{&metadata.ClearELRRecord{Topic: name}}
	}
	from := randomPartition(rng, t.ID, rng.Int32N(int32(len(t.Partitions))))
	c := metadata.NewPartitionChange(t.ID, from.Index)
	if rng.IntN(2) == 0 {
		c.Leader = from.Leader
	}
	if rng.IntN(2) == 0 {
		c.ISR, c.ELR = from.ISR, from.ELR
	}
	if rng.IntN(4) == 0 {
		c.Replicas = from.Replicas
	}
	return []metadata.Record{c}
}

func randomTopic(rng *rand.Rand, name string) []metadata.Record {
	id := metadata.UUID{}
	for i := range id {
		id[i] = byte(rng.Uint32())
	}
	records := []metadata.Record{&metadata.TopicRecord{Name: name, ID: id}}
	for i := range 1 + rng.Int32N(4) {
		records = append(records, randomPartition(rng, id, i))
	}
	return records
}

func randomPartition(rng *rand.Rand, topic metadata.UUID, index int32) *metadata.PartitionRecord {
	r := &metadata.PartitionRecord{TopicID: topic, Index: index}
	for _, id := range rng.Perm(6) {
		r.Replicas = append(r.Replicas, int32(id))
	}
	r.ISR = append([]int32{}, r.Replicas[:rng.IntN(4)]...)
	r.ELR = append([]int32{}, r.Replicas[len(r.ISR):len(r.ISR)+rng.IntN(3)]...)
	r.Leader = rng.Int32N(7) - 1
	return r
}

// BenchmarkStoppingHeartbeat: a broker that leads nothing any more beats until the others know; others have 100,000
// partitions.
func BenchmarkStoppingHeartbeat(b *testing.B) {
	s := crowded(b, 100_000)
	s.run("heartbeat 1 shutdown")
	r := kmsg.NewPtrBrokerHeartbeatRequest()
	r.BrokerID, r.BrokerEpoch, r.WantShutdown, r.CurrentMetadataOffset = 1, s.image.Broker(1).Epoch, true, s.image.Offset()
	for b.Loop() {
		if records, resp := s.view().heartbeat(r); len(records) > 0 || resp.ShouldShutdown {
			b.Fatal("it changes something")
		}
	}
}

// BenchmarkElectionAfterDeath: a broker with 100 of 100,000 partitions is fenced.
func BenchmarkElectionAfterDeath(b *testing.B) {
	s := crowded(b, 100_000)
	for b.Loop() {
		if records := s.view().fence(s.image.Broker(1)); len(records) != 101 {
			b.Fatalf("%d records", len(records))
		}
	}
}

// crowded is a stage on which brokers 2 to 4 have n partitions in 1,000 topics, and broker 1 is in the ISR of 100 more.
func crowded(b *testing.B, n int) *stage {
	s := newStage()
	for id := range 4 {
		s.run(fmt.Sprintf("register %d", id+1))
		s.run(fmt.Sprintf("heartbeat %d", id+1))
	}
	create := func(name string, partitions int, replicas ...int32) {
		records := []metadata.Record{&metadata.TopicRecord{Name: name, ID: metadata.UUID([]byte(fmt.Sprintf("%16s", name)))}}
		for i := range partitions {
			records = append(records, &metadata.PartitionRecord{
				TopicID: records[0].(*metadata.TopicRecord).ID, Index: int32(i), Partition: metadata.Partition{Replicas: replicas, ISR: replicas, Leader: replicas[0]},
			})
		}
		next, delta, err := s.image.Apply(records, s.image.Offset()+int64(len(records)), 1)
		must(b, err)
		s.index.follow(s.image, next, delta.Topics)
		s.image = next
	}
	for i := range 1000 {
		create(fmt.Sprint("t", i), n/1000, 2, 3, 4)
	}
	create("mine", 100, 1, 2, 3)
	return s
}
