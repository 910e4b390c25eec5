package group

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/coordinator"
	"grete/coordinator/logtest"
	"grete/protocol/batch"
)

// TestManyMembers joins 500 members in one group, twice, as a deployment of that size does; the time is the
// coordinator's own, for the clock is the test's.
func TestManyMembers(t *testing.T) {
	const members = 500
	r := newRig(t, DefaultConfig())
	ids := make([]string, members)
	joined := 0
	var leader string
	var generation int32
	started := time.Now()
	join := func(i int) {
		req := kmsg.NewPtrJoinGroupRequest()
		req.Version, req.Group, req.MemberID = 9, "g", ids[i]
		req.SessionTimeoutMillis, req.RebalanceTimeoutMillis, req.ProtocolType = 45000, 300000, consumerProtocolType
		req.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: subscription("t")}}
		r.s.JoinGroup(RequestContext{Version: 9, ClientID: fmt.Sprint("c", i)}, req, func(resp *kmsg.JoinGroupResponse) {
			if ids[i] = resp.MemberID; resp.ErrorCode == 0 {
				joined++
				leader, generation = resp.LeaderID, resp.Generation
			}
		})
	}
	for round := range 2 {
		joined = 0
		for i := range ids {
			join(i)
			if ids[i] != "" && round == 0 {
				join(i)
			}
		}
		r.clock.Advance(10 * time.Second)
		if joined != members || generation != int32(round+1) {
			t.Fatalf("round %d: %d joined generation %d", round, joined, generation)
		}
		synced := 0
		for _, id := range ids {
			req := kmsg.NewPtrSyncGroupRequest()
			req.Version, req.Group, req.MemberID, req.Generation = 4, "g", id, generation
			if id == leader {
				for _, m := range ids {
					req.GroupAssignment = append(req.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{MemberID: m, MemberAssignment: []byte("x")})
				}
			}
			r.s.SyncGroup(req, func(resp *kmsg.SyncGroupResponse) {
				if resp.ErrorCode == 0 {
					synced++
				}
			})
		}
		if synced != members {
			t.Fatalf("round %d: %d synced", round, synced)
		}
	}
	took := time.Since(started)
	t.Logf("%d members joined and synced twice in %v", members, took)
	if took > 3*time.Second {
		t.Errorf("took %v", took)
	}
}

func benchmarkLog(b *testing.B, commits, keys, perBatch int) []batch.Batch {
	b.Helper()
	var out []batch.Batch
	var records []batch.Record
	for i := range commits {
		c := committed{offset: int64(i), leaderEpoch: 1, metadata: "", commitMs: 1, expireMs: unknownTimestampMs, topicID: [16]byte{1}}
		key := offsetCommitKey(fmt.Sprint("group-", i%keys/10), "some-topic-name", int32(i%10))
		records = append(records, batch.Record{Offset: int64(len(records)), Key: key, Value: c.value()})
		if len(records) == perBatch {
			built, err := batch.Build(batch.BuildOptions{ProducerID: -1, ProducerEpoch: -1}, records)
			if err != nil {
				b.Fatal(err)
			}
			out, records = append(out, built), records[:0]
		}
	}
	return out
}

// BenchmarkReload loads a log of commits: the goal is 10 million in 5 s, 500 ns each.
func BenchmarkReload(b *testing.B) {
	for _, perBatch := range []int{1, 50} {
		b.Run(fmt.Sprintf("%d-per-batch", perBatch), func(b *testing.B) {
			const commits = 200_000
			log := &logtest.Log{}
			for _, built := range benchmarkLog(b, commits, 10_000, perBatch) {
				if _, err := log.Append(1, built); err != nil {
					b.Fatal(err)
				}
			}
			raw, err := log.Read(0, 1<<30)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				cfg := DefaultConfig()
				sh := newShard(&cfg, nil)
				loadAll(b, sh, raw)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/commits, "ns/commit")
		})
	}
}

func loadAll(b *testing.B, sh *shard, raw []byte) {
	for len(raw) > 0 {
		var one batch.Batch
		var err error
		if one, raw, err = batch.Next(raw); err != nil || !one.ChecksumOK() {
			b.Fatal(err)
		}
		for r, rerr := range one.Records() {
			if rerr != nil {
				b.Fatal(rerr)
			}
			if err := sh.Replay(coordinator.Position{Offset: r.Offset, ProducerID: -1}, r.Key, r.Value); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// BenchmarkCommit is one offset committed, from the request to the answer.
func BenchmarkCommit(b *testing.B) {
	r := newRig(b, DefaultConfig())
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Version, req.Group, req.Generation = 9, "g", -1
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	p.Metadata = new(string)
	req.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: "t", Partitions: []kmsg.OffsetCommitRequestTopicPartition{p}}}
	b.ReportAllocs()
	for b.Loop() {
		r.s.CommitOffsets(req, func([]kmsg.OffsetCommitResponseTopic) {})
	}
}

// TestManyConsumers joins 500 members of a consumer group on 1000 partitions and lets them settle; the time is the
// coordinator's own, for the clock is the test's.
func TestManyConsumers(t *testing.T) {
	const members, partitionCount = 500, 1000
	cfg := DefaultConfig()
	r := newRig(t, cfg)
	playTopic(r, command{label: "t", args: map[string]string{"partitions": fmt.Sprint(partitionCount)}})
	w := &consumerWorld{rig: r}
	for i := range members {
		w.members = append(w.members, &modelConsumer{name: fmt.Sprint("c", i), topics: "t"})
	}
	started := time.Now()
	rounds := 0
	for settled := false; !settled; rounds++ {
		settled = rounds > 1
		for _, c := range w.members {
			before := c.epoch
			w.beat(c, false)
			n := 0
			for _, ps := range c.owned {
				n += len(ps)
			}
			settled = settled && c.epoch == before && n == partitionCount/members
		}
		r.clock.Advance(5 * time.Second)
		if rounds > 20 {
			t.Fatalf("does not settle: %v", w.texts(consumerText))
		}
	}
	w.check()
	t.Logf("%d members of %d partitions settle in %d rounds of heartbeats; the coordinator works for %v", members, partitionCount, rounds, time.Since(started).Round(time.Millisecond))
	if d := time.Since(started); d > 20*time.Second {
		t.Errorf("took %v", d)
	}
}
