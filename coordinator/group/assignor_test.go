package group

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"grete/cluster/metadata"
)

// checkUniform holds a settled group to what uniform promises: every partition that somebody subscribes to has an
// owner, who subscribes to it, and no move would make two subscribers of a topic more even.
func checkUniform(t testing.TB, topic func(string) *metadata.Topic, g *consumerGroup) {
	t.Helper()
	load := map[string]int{}
	for id, m := range g.members {
		for _, ps := range m.assigned {
			load[id] += len(ps)
		}
	}
	for _, name := range []string{"t", "u"} {
		subscribed := topic(name)
		var members []string
		for id, m := range g.members {
			if slices.Contains(m.topics, name) {
				members = append(members, id)
			}
		}
		for p := range subscribed.Partitions {
			owner := g.owners[topicPartition{subscribed.ID, int32(p)}]
			if len(members) > 0 && !slices.Contains(members, owner) {
				t.Errorf("%s-%d is %q's, of %v", name, p, owner, members)
			}
			for _, id := range members {
				if owner != "" && load[owner]-load[id] > 1 {
					t.Errorf("%s-%d: %s has %d, %s has %d: %s", name, p, owner, load[owner], id, load[id], consumerText(g))
				}
			}
		}
	}
}

// randomAssignment has members of some topics each, with targets from an assignment before.
func randomAssignment(rng *rand.Rand, same bool, held map[string]partitions) assignment {
	a := assignment{sizes: map[topicID]int32{}}
	var topics []topicID
	for i := range 1 + rng.IntN(4) {
		id := topicID{byte(i + 1)}
		topics = append(topics, id)
		a.sizes[id] = int32(1 + rng.IntN(9))
	}
	for i := range 1 + rng.IntN(8) {
		m := assignee{id: fmt.Sprint("m", i), topics: topics, held: held[fmt.Sprint("m", i)]}
		if !same {
			m.topics = nil
			for _, id := range topics {
				if rng.IntN(2) == 0 {
					m.topics = append(m.topics, id)
				}
			}
		}
		if rng.IntN(4) == 0 {
			m.instance = ptr(fmt.Sprint("i", 9-i))
		}
		a.members = append(a.members, m)
	}
	for id := range a.sizes { // only topics that somebody subscribes to
		if !slices.ContainsFunc(a.members, func(m assignee) bool { return slices.Contains(m.topics, id) }) {
			delete(a.sizes, id)
		}
	}
	return a
}

// owners checks that each partition has exactly one owner, who subscribes to it, and returns the loads.
func owners(t *testing.T, a assignment, out map[string]partitions) map[string]int {
	t.Helper()
	owned, load := map[topicPartition]string{}, map[string]int{}
	for _, m := range a.members {
		for id, ps := range out[m.id] {
			if !slices.Contains(m.topics, id) || len(ps) == 0 || !slices.IsSorted(ps) {
				t.Fatalf("%s got %v of %x", m.id, ps, id[:1])
			}
			for _, p := range ps {
				if was := owned[topicPartition{id, p}]; was != "" || p >= a.sizes[id] {
					t.Fatalf("%x-%d is %s's and %s's", id[:1], p, was, m.id)
				}
				owned[topicPartition{id, p}] = m.id
			}
			load[m.id] += len(ps)
		}
	}
	want := 0
	for _, size := range a.sizes {
		want += int(size)
	}
	if len(owned) != want {
		t.Fatalf("%d of %d partitions have an owner", len(owned), want)
	}
	return load
}

// TestUniformSameTopics: loads differ by at most one, and only what must move moves.
func TestUniformSameTopics(t *testing.T) {
	for seed := range uint64(500) {
		rng := rand.New(rand.NewPCG(seed, 3))
		before := assignUniform(randomAssignment(rng, true, nil))
		a := randomAssignment(rng, true, before)
		out := assignUniform(a)
		load := owners(t, a, out)
		low, high := 1<<30, 0
		for _, m := range a.members {
			low, high = min(low, load[m.id]), max(high, load[m.id])
		}
		if high-low > 1 {
			t.Fatalf("seed %d: loads %v", seed, load)
		}
		checkSticky(t, a, out, low)
		a.members = slices.Clone(a.members)
		for i := range a.members {
			a.members[i].held = out[a.members[i].id]
		}
		for id, p := range assignUniform(a) {
			if !p.equal(out[id]) {
				t.Fatalf("seed %d: assigned again %s has %v, not %v", seed, id, p, out[id])
			}
		}
	}
}

// checkSticky: who gave something up had more than the smaller share, and is left with no less than it.
func checkSticky(t *testing.T, a assignment, out map[string]partitions, share int) {
	t.Helper()
	for _, m := range a.members {
		had, kept, has := 0, 0, 0
		for id, ps := range m.held {
			for _, p := range ps {
				if p < a.sizes[id] {
					had++
					if slices.Contains(out[m.id][id], p) {
						kept++
					}
				}
			}
		}
		for _, ps := range out[m.id] {
			has += len(ps)
		}
		if kept < had && (had <= share || kept < share || has > kept) {
			t.Fatalf("%s had %d, kept %d, has %d, shares are of %d", m.id, had, kept, has, share)
		}
	}
}

// TestUniformDifferentTopics: no single move makes two subscribers of a topic more even.
func TestUniformDifferentTopics(t *testing.T) {
	for seed := range uint64(500) {
		rng := rand.New(rand.NewPCG(seed, 4))
		before := assignUniform(randomAssignment(rng, false, nil))
		a := randomAssignment(rng, false, before)
		out := assignUniform(a)
		load := owners(t, a, out)
		for _, from := range a.members {
			for id := range out[from.id] {
				for _, to := range a.members {
					if slices.Contains(to.topics, id) && load[from.id]-load[to.id] > 1 {
						t.Fatalf("seed %d: %s has %d and %s %d, and both want %x", seed, from.id, load[from.id], to.id, load[to.id], id[:1])
					}
				}
			}
		}
	}
}

// TestRange: each topic is cut into runs in the order of the members, static ones first by instance, the longer first.
func TestRange(t *testing.T) {
	id, other := topicID{1}, topicID{2}
	a := assignment{sizes: map[topicID]int32{id: 7, other: 1}, members: []assignee{
		{id: "a", topics: []topicID{id, other}}, {id: "b", topics: []topicID{id}, instance: ptr("z")}, {id: "c", topics: []topicID{id, other}, instance: ptr("y")},
	}}
	got := fmt.Sprint(assignRange(a))
	want := fmt.Sprint(map[string]partitions{"a": {id: {5, 6}}, "b": {id: {3, 4}}, "c": {id: {0, 1, 2}, other: {0}}})
	if got != want {
		t.Errorf("%s, want %s", got, want)
	}
	for seed := range uint64(300) {
		a := randomAssignment(rand.New(rand.NewPCG(seed, 5)), seed%2 == 0, nil)
		owners(t, a, assignRange(a))
	}
}

// TestParseAssignors: by name or by the class that Kafka has for it; nothing else.
func TestParseAssignors(t *testing.T) {
	got, err := ParseAssignors([]string{"range", "org.apache.kafka.coordinator.group.assignor.UniformAssignor"})
	if err != nil || !slices.Equal(got, []string{"range", "uniform"}) {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := ParseAssignors([]string{"uniform", "com.example.Assignor"}); err == nil {
		t.Error("an assignor that is not there was taken")
	}
}
