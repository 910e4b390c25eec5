package group

import (
	"cmp"
	"slices"
)

// assignUniform balances partitions over members, whatever topic they are of, and moves as few as it can.
func assignUniform(a assignment) map[string]partitions {
	u := newUniform(a)
	if a.homogeneous() {
		u.trimToQuota()
		u.fillQuotas()
	} else {
		u.assignLeastLoaded()
		u.balance()
	}
	return u.result()
}

// uniform is an assignment in the making; members go by index.
type uniform struct {
	a       assignment
	topics  []topicID
	subs    map[topicID][]int // subscribers
	owner   map[topicID][]int // by partition; nobody is -1
	load    []int             // partitions of each member
	quota   []int             // homogeneous groups only
	waiting []topicPartition  // homogeneous groups only: not assigned yet
}

const nobody = -1

// newUniform starts from the targets that the members have, without what is gone or not subscribed to any more; those
// of a group that was classic are whatever its leader assigned. Should two members hold the same partition the first
// one keeps it.
func newUniform(a assignment) *uniform {
	u := &uniform{a: a, topics: sortedTopics(a.sizes), subs: make(map[topicID][]int), owner: make(map[topicID][]int), load: make([]int, len(a.members))}
	for _, id := range u.topics {
		u.owner[id] = slices.Repeat([]int{nobody}, int(a.sizes[id]))
	}
	for i, m := range a.members {
		for _, id := range m.topics {
			u.subs[id] = append(u.subs[id], i)
			for _, p := range m.held[id] {
				if owners := u.owner[id]; 0 <= p && int(p) < len(owners) && owners[p] == nobody {
					u.give(id, p, i)
				}
			}
		}
	}
	return u
}

func (u *uniform) give(id topicID, p int32, member int) {
	if from := u.owner[id][p]; from != nobody {
		u.load[from]--
	}
	u.owner[id][p] = member
	u.load[member]++
}

// trimToQuota sets each member's share and takes from those who have more. The larger shares go to whoever has most.
func (u *uniform) trimToQuota() {
	total := 0
	for _, size := range u.a.sizes {
		total += int(size)
	}
	share, extra := total/len(u.load), total%len(u.load)
	byLoad := make([]int, len(u.load))
	for i := range byLoad {
		byLoad[i] = i
	}
	slices.SortStableFunc(byLoad, func(a, b int) int { return u.load[b] - u.load[a] })
	u.quota = make([]int, len(u.load))
	for rank, i := range byLoad {
		u.quota[i] = share
		if rank < extra {
			u.quota[i]++
		}
	}
	kept := make([]int, len(u.load))
	for _, id := range u.topics {
		for p, i := range u.owner[id] {
			if i != nobody && kept[i] < u.quota[i] {
				kept[i]++
				continue
			}
			u.owner[id][p] = nobody
			u.waiting = append(u.waiting, topicPartition{id, int32(p)})
		}
	}
	copy(u.load, kept)
}

// fillQuotas hands out what nobody has: the quotas add up to all of it.
func (u *uniform) fillQuotas() {
	next := 0
	for i := range u.load {
		for u.load[i] < u.quota[i] {
			at := u.waiting[next]
			u.give(at.id, at.partition, i)
			next++
		}
	}
}

// assignLeastLoaded gives every partition without an owner to the subscriber with the least. Topics with most
// partitions for each subscriber come first: they leave the least choice.
func (u *uniform) assignLeastLoaded() {
	topics := slices.Clone(u.topics)
	slices.SortStableFunc(topics, func(a, b topicID) int {
		return cmp.Compare(len(u.owner[b])*len(u.subs[a]), len(u.owner[a])*len(u.subs[b]))
	})
	for _, id := range topics {
		for p, i := range u.owner[id] {
			if i == nobody {
				u.give(id, int32(p), u.least(id))
			}
		}
	}
}

// least is the topic's subscriber with the least.
func (u *uniform) least(id topicID) int {
	return slices.MinFunc(u.subs[id], func(a, b int) int { return u.load[a] - u.load[b] })
}

// maxBalanceRounds bounds the passes over all topics (Kafka's MAX_ITERATION_COUNT); each makes the loads more even.
const maxBalanceRounds = 16

// balance moves partitions from the most to the least loaded subscriber of their topic until no move makes it better.
func (u *uniform) balance() {
	for range maxBalanceRounds {
		moved := false
		for _, id := range u.topics {
			moved = u.balanceTopic(id) || moved
		}
		if !moved {
			return
		}
	}
}

func (u *uniform) balanceTopic(id topicID) (moved bool) {
	held := make(map[int][]int32) // by owner, those it gives away first at the end
	for p, i := range u.owner[id] {
		held[i] = append(held[i], int32(p))
	}
	for {
		from, to := u.mostOf(id, held), u.least(id)
		if from == nobody || u.load[from]-u.load[to] <= 1 {
			return moved
		}
		last := len(held[from]) - 1
		p := held[from][last]
		held[from], held[to] = held[from][:last], append(held[to], p)
		u.give(id, p, to)
		moved = true
	}
}

// mostOf is the member with the most that has a partition of the topic.
func (u *uniform) mostOf(id topicID, held map[int][]int32) int {
	most := nobody
	for _, i := range u.subs[id] {
		if len(held[i]) > 0 && (most == nobody || u.load[i] > u.load[most]) {
			most = i
		}
	}
	return most
}

func (u *uniform) result() map[string]partitions {
	out := make(map[string]partitions, len(u.a.members))
	for _, m := range u.a.members {
		out[m.id] = make(partitions)
	}
	for _, id := range u.topics {
		for p, i := range u.owner[id] {
			mine := out[u.a.members[i].id]
			mine[id] = append(mine[id], int32(p))
		}
	}
	return out
}
