package controller

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"grete/cluster/metadata"
)

// place spreads partitions over brokers as Kafka's StripedReplicaPlacer does, with random starts: replicas of a
// partition lie on different racks as far as there are racks, the first replica goes round racks and brokers, and a
// fenced broker never comes first. reason is Kafka's text when it cannot be done.
func (v *view) place(partitions, factor int) (placed [][]int32, reason string) {
	p := newPlacer(v.image, v.rand)
	switch {
	case factor <= 0:
		return nil, fmt.Sprintf("Invalid replication factor %d: the replication factor must be positive.", factor)
	case p.unfenced == 0:
		return nil, "All brokers are currently fenced."
	case factor > p.total:
		return nil, fmt.Sprintf("The target replication factor of %d cannot be reached because only %d broker(s) are "+
			"registered or some brokers have all their log directories cordoned.", factor, p.total)
	}
	placed = make([][]int32, partitions)
	for i := range placed {
		placed[i] = p.next(factor)
	}
	return placed, ""
}

// placer goes round the racks; within a rack, round its brokers.
type placer struct {
	rand            *rand.Rand
	racks           []*placementRack
	total, unfenced int
	round           int // partitions placed since the last shuffle
	offset          int // the rack that is first for the next partition
}

// placementRack lists a rack's usable brokers, each list from a random start.
type placementRack struct {
	name             string
	unfenced, fenced ring
}

// ring goes round its ids. All ids of one partition are taken without repetition: taken counts them.
type ring struct {
	ids   []int32
	at    int
	taken int
}

func newPlacer(im *metadata.Image, rng *rand.Rand) *placer {
	p := &placer{rand: rng}
	for b := range im.Brokers() {
		if cordoned(b) || b.InControlledShutdown && !b.Fenced {
			continue // it takes no new partitions
		}
		r := p.rack(b.Rack)
		p.total++
		if b.Fenced {
			r.fenced.ids = append(r.fenced.ids, b.ID)
			continue
		}
		p.unfenced++
		r.unfenced.ids = append(r.unfenced.ids, b.ID)
	}
	slices.SortFunc(p.racks, func(a, b *placementRack) int { return strings.Compare(a.name, b.name) })
	p.shuffle()
	return p
}

// cordoned: none of its log directories takes new partitions.
func cordoned(b *metadata.Broker) bool {
	return len(b.LogDirs) > 0 && len(b.CordonedLogDirs) == len(b.LogDirs)
}

func (p *placer) rack(name string) *placementRack {
	for _, r := range p.racks {
		if r.name == name {
			return r
		}
	}
	r := &placementRack{name: name}
	p.racks = append(p.racks, r)
	return r
}

// shuffle begins a new round, so that partitions beyond the number of brokers do not repeat the same sets.
func (p *placer) shuffle() {
	if len(p.racks) == 0 {
		return
	}
	p.round, p.offset = 0, p.rand.IntN(len(p.racks))
	if len(p.racks) > 1 {
		p.rand.Shuffle(len(p.racks), func(i, j int) { p.racks[i], p.racks[j] = p.racks[j], p.racks[i] })
	}
	for _, r := range p.racks {
		r.unfenced.shuffle(p.rand)
		r.fenced.shuffle(p.rand)
	}
}

func (r *ring) shuffle(rng *rand.Rand) {
	rng.Shuffle(len(r.ids), func(i, j int) { r.ids[i], r.ids[j] = r.ids[j], r.ids[i] })
	r.at = 0
}

// next places one partition: the leader on the next rack that has an unfenced broker, then a replica from each rack in
// turn, fenced brokers after unfenced ones.
func (p *placer) next(factor int) []int32 {
	if p.round == p.unfenced && p.unfenced > 1 {
		p.shuffle()
	}
	for _, r := range p.racks {
		r.unfenced.taken, r.fenced.taken = 0, 0
	}
	replicas := make([]int32, 0, factor)
	first := p.offset
	for ; ; first++ {
		if id, ok := p.racks[first%len(p.racks)].unfenced.take(); ok {
			replicas = append(replicas, id)
			break
		}
	}
	for at := first + 1; len(replicas) < factor; at++ {
		if id, ok := p.racks[at%len(p.racks)].take(); ok {
			replicas = append(replicas, id)
		}
	}
	for _, r := range p.racks {
		r.unfenced.advance()
		r.fenced.advance()
	}
	p.round++
	p.offset = (p.offset + 1) % len(p.racks)
	return replicas
}

func (r *placementRack) take() (int32, bool) {
	if id, ok := r.unfenced.take(); ok {
		return id, true
	}
	return r.fenced.take()
}

func (r *ring) take() (int32, bool) {
	if r.taken == len(r.ids) {
		return 0, false
	}
	id := r.ids[(r.at+r.taken)%len(r.ids)]
	r.taken++
	return id, true
}

// advance starts the next partition one broker further, if this one had any.
func (r *ring) advance() {
	if r.taken > 0 {
		r.at = (r.at + 1) % len(r.ids)
	}
}
