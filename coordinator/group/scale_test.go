package group

import (
	"fmt"
	"testing"
	"time"

	"grete/cluster/metadata"
	"grete/coordinator"
	"grete/protocol/batch"
)

// replayCommit puts a committed offset of partition 0 into the shard, in the transaction of producer if there is one.
func replayCommit(t testing.TB, sh *shard, producer int64, group, topic string) {
	t.Helper()
	c := committed{offset: 1, leaderEpoch: absentLeaderEpoch, commitMs: 1_000_000, expireMs: unknownTimestampMs}
	if err := sh.Replay(coordinator.Position{ProducerID: producer}, offsetCommitKey(group, topic, 0), c.value()); err != nil {
		t.Fatal(err)
	}
}

// fastest is the shortest of several runs: the others were disturbed.
func fastest(runs int, run func(i int)) time.Duration {
	best := time.Hour
	for i := range runs {
		started := time.Now()
		run(i)
		best = min(best, time.Since(started))
	}
	return best
}

// TestDeletedTopicFindsItsGroups: of 100,000 groups ten have offsets of the topic that is deleted.
func TestDeletedTopicFindsItsGroups(t *testing.T) {
	const groups, readers, topics = 100_000, 10, 5
	r := newRig(t, DefaultConfig())
	var records []metadata.Record
	for i := range topics {
		records = append(records, &metadata.TopicRecord{Name: fmt.Sprint("t", i), ID: topicID{1, byte(i)}})
	}
	r.change(records...)
	r.look(func(sh *shard) {
		for i := range groups {
			id := fmt.Sprint("g", i)
			replayCommit(t, sh, batch.NoProducerID, id, fmt.Sprint("own", i%100))
			for k := range topics {
				if i%(groups/readers) == k {
					replayCommit(t, sh, batch.NoProducerID, id, fmt.Sprint("t", k))
				}
			}
		}
	})
	took := fastest(topics, func(i int) { r.change(&metadata.RemoveTopicRecord{ID: topicID{1, byte(i)}}) })
	if dropped, err := r.log.Records(); err != nil || len(dropped) != topics*readers {
		t.Errorf("%d offsets were dropped, %v", len(dropped), err)
	}
	t.Logf("a topic that %d of %d groups read is deleted in %v", readers, groups, took)
	if took > 10*time.Millisecond {
		t.Errorf("took %v", took)
	}
}

// TestDeletedTopicInSlices: the groups of a topic that many read are cleaned up in several rounds.
func TestDeletedTopicInSlices(t *testing.T) {
	const groups = 3*groupsPerSlice + 1
	r := newRig(t, DefaultConfig())
	playTopic(r, command{label: "t"})
	r.look(func(sh *shard) {
		for i := range groups {
			replayCommit(t, sh, batch.NoProducerID, fmt.Sprint("g", i), "t")
		}
	})
	playRemoveTopic(r, command{label: "t"})
	for left := 1; left > 0; {
		r.look(func(sh *shard) { left = len(sh.readers) })
	}
	if n := r.log.Appends(); n != 4 {
		t.Errorf("%d appends for %d groups", n, groups)
	}
}

// TestDeletedTopicMadeAnew: what is committed for a topic of the same name that was made since is kept.
func TestDeletedTopicMadeAnew(t *testing.T) {
	r := newRig(t, DefaultConfig())
	r.look(func(sh *shard) {
		for i, id := range []topicID{{1}, {2}, {}} {
			c := committed{offset: 1, topicID: id, expireMs: unknownTimestampMs}
			key := offsetCommitKey("g", "t", int32(i))
			if err := sh.Replay(coordinator.Position{ProducerID: batch.NoProducerID}, key, c.value()); err != nil {
				t.Fatal(err)
			}
		}
	})
	r.change(&metadata.TopicRecord{Name: "t", ID: topicID{1}})
	r.change(&metadata.RemoveTopicRecord{ID: topicID{1}}, &metadata.TopicRecord{Name: "t", ID: topicID{2}})
	r.look(func(sh *shard) {
		if of := sh.offsets.groups["g"]; of == nil || of.count != 1 || of.topics["t"][1] == nil {
			t.Errorf("left: %+v", of)
		}
	})
}

// TestTransactionEndsAlone: the end of a transaction costs the same beside many open ones.
func TestTransactionEndsAlone(t *testing.T) {
	cfg := DefaultConfig()
	end := func(open int) time.Duration {
		sh := newShard(&cfg, nil)
		for i := range open {
			replayCommit(t, sh, int64(i), fmt.Sprint("g", i), "t")
		}
		return fastest(100, func(i int) {
			replayCommit(t, sh, 1<<40, "g", "t")
			sh.EndTransaction(1<<40, i%2 == 0)
		})
	}
	few, many := end(10), end(20_000)
	t.Logf("beside 10 open transactions %v, beside 20,000 %v", few, many)
	if many > 20*few {
		t.Errorf("%v beside many open transactions, %v beside few", many, few)
	}
}

// TestIndexOfOffsets: the index has what the tables have, and nothing when they are empty.
func TestIndexOfOffsets(t *testing.T) {
	cfg := DefaultConfig()
	sh := newShard(&cfg, nil)
	for producer := int64(batch.NoProducerID); producer < 4; producer++ {
		replayCommit(t, sh, producer, "g", "t")
		replayCommit(t, sh, producer, "g", "u")
	}
	if n := sh.readers["t"]["g"]; n != 5 {
		t.Errorf("%d tables have offsets of t", n)
	}
	for producer := range int64(3) {
		sh.EndTransaction(producer, producer > 1)
	}
	if n := sh.readers["t"]["g"]; n != 2 {
		t.Errorf("%d tables have offsets of t", n)
	}
	for _, topic := range []string{"t", "u"} {
		if err := sh.Replay(coordinator.Position{ProducerID: batch.NoProducerID}, offsetCommitKey("g", topic, 0), nil); err != nil {
			t.Fatal(err)
		}
	}
	sh.EndTransaction(3, true)
	if len(sh.readers) != 0 || len(sh.offsets.groups) != 0 || len(sh.pending.producers) != 0 {
		t.Errorf("left: %v %v %v", sh.readers, sh.offsets.groups, sh.pending.producers)
	}
}
