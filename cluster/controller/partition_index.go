package controller

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strings"

	"grete/cluster/metadata"
)

// partitionIndex finds the partitions that a broker's coming, going or heartbeat concerns, without a look at any other
// (Kafka's BrokersToIsrs, with brokersToElrs and imbalancedPartitions). It is of one image and follows the changes to
// the next.
type partitionIndex struct {
	// by has, for each broker, the partitions that it leads, is in sync with, or is eligible for; for noBroker those
	// that nobody leads.
	by          map[int32]partitionSet
	led         map[int32]int // how many partitions each broker leads
	unpreferred partitionSet  // their first replica does not lead
}

type topicPartition struct {
	topic string
	index int32
}

type partitionSet map[topicPartition]struct{}

// newPartitionIndex looks at all partitions of an image.
func newPartitionIndex(im *metadata.Image) *partitionIndex {
	x := &partitionIndex{by: map[int32]partitionSet{}, led: map[int32]int{}, unpreferred: partitionSet{}}
	for t := range im.Topics() {
		x.replace(nil, t)
	}
	return x
}

// of is the set of a broker; nil when it is empty.
func (x *partitionIndex) of(id int32) partitionSet { return x.by[id] }

// leads says whether a broker leads a partition.
func (x *partitionIndex) leads(id int32) bool { return x.led[id] > 0 }

// follow makes the index that of next; topics are those that differ from was. A name may come twice.
func (x *partitionIndex) follow(was, next *metadata.Image, topics []string) {
	for _, name := range slices.Compact(slices.Sorted(slices.Values(topics))) {
		x.replace(was.Topic(name), next.Topic(name))
	}
}

// replace takes a topic's partitions as they were for those that they are now; nil stands for no topic.
func (x *partitionIndex) replace(was, now *metadata.Topic) {
	for i := range max(partitionCount(was), partitionCount(now)) {
		old, next := partitionOf(was, i), partitionOf(now, i)
		if old != nil && next != nil && samePlaces(old, next) {
			continue
		}
		if old != nil {
			x.remove(topicPartition{was.Name, int32(i)}, old)
		}
		if next != nil {
			x.add(topicPartition{now.Name, int32(i)}, next)
		}
	}
}

func partitionCount(t *metadata.Topic) int {
	if t == nil {
		return 0
	}
	return len(t.Partitions)
}

func partitionOf(t *metadata.Topic, i int) *metadata.Partition {
	if i >= partitionCount(t) {
		return nil
	}
	return &t.Partitions[i]
}

// samePlaces says whether the index has the same for both.
func samePlaces(a, b *metadata.Partition) bool {
	return a.Leader == b.Leader && slices.Equal(a.ISR, b.ISR) && slices.Equal(a.ELR, b.ELR) && preferred(a) == preferred(b)
}

// preferred is the replica that should lead, noBroker where there is none.
func preferred(p *metadata.Partition) int32 {
	if len(p.Replicas) == 0 {
		return noBroker
	}
	return p.Replicas[0]
}

// members are the brokers that lead a partition, noBroker included, are in its ISR, or are eligible; one may come
// twice.
func members(p *metadata.Partition) []int32 { return slices.Concat([]int32{p.Leader}, p.ISR, p.ELR) }

func (x *partitionIndex) add(at topicPartition, p *metadata.Partition) {
	for _, id := range members(p) {
		if x.by[id] == nil {
			x.by[id] = partitionSet{}
		}
		x.by[id][at] = struct{}{}
	}
	x.led[p.Leader]++
	if p.Leader != preferred(p) {
		x.unpreferred[at] = struct{}{}
	}
}

func (x *partitionIndex) remove(at topicPartition, p *metadata.Partition) {
	for _, id := range members(p) {
		delete(x.by[id], at)
		if len(x.by[id]) == 0 {
			delete(x.by, id)
		}
	}
	if x.led[p.Leader]--; x.led[p.Leader] == 0 {
		delete(x.led, p.Leader)
	}
	delete(x.unpreferred, at)
}

// in iterates over a set's partitions in an image, by the topic's name and by number.
func (s partitionSet) in(im *metadata.Image) iter.Seq2[*metadata.Topic, int32] {
	return func(yield func(*metadata.Topic, int32) bool) {
		var t *metadata.Topic
		for _, at := range slices.SortedFunc(maps.Keys(s), comparePartitions) {
			if t == nil || t.Name != at.topic {
				t = im.Topic(at.topic)
			}
			if !yield(t, at.index) {
				return
			}
		}
	}
}

func comparePartitions(a, b topicPartition) int {
	return cmp.Or(strings.Compare(a.topic, b.topic), cmp.Compare(a.index, b.index))
}
