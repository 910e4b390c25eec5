package group

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/coordinator"
	"grete/protocol/batch"
)

// history plays a log of commits on a shard.
type history struct {
	t      *testing.T
	s      *shard
	offset int64
}

func newHistory(t *testing.T) *history {
	cfg := DefaultConfig()
	return &history{t: t, s: newShard(&cfg, nil)}
}

func (h *history) commit(producerID int64, partition int32, offset int64) {
	h.t.Helper()
	c := committed{offset: offset, metadata: strings.Repeat("m", int(offset)), leaderEpoch: absentLeaderEpoch, expireMs: unknownTimestampMs}
	h.replay(producerID, partition, c.value())
}

func (h *history) replay(producerID int64, partition int32, value []byte) {
	h.t.Helper()
	h.offset++
	if err := h.s.Replay(coordinator.Position{Offset: h.offset, ProducerID: producerID}, offsetCommitKey("g", "t", partition), value); err != nil {
		h.t.Fatal(err)
	}
}

// fetch reads partitions 0 and 1 as "offset" or "offset!code".
func (h *history) fetch(requireStable bool) string {
	resp := h.s.fetch(kmsg.OffsetFetchRequestGroup{Group: "g", Topics: []kmsg.OffsetFetchRequestGroupTopic{{Topic: "t", Partitions: []int32{0, 1}}}}, requireStable)
	text := ""
	for _, p := range resp.Topics[0].Partitions {
		text += fmt.Sprint(p.Offset)
		if p.ErrorCode != 0 {
			text += fmt.Sprint("!", p.ErrorCode)
		}
		text += " "
	}
	return text
}

func (h *history) expect(committed, stable string) {
	h.t.Helper()
	if got := h.fetch(false); got != committed {
		h.t.Errorf("committed %q, want %q", got, committed)
	}
	if got := h.fetch(true); got != stable {
		h.t.Errorf("stable %q, want %q", got, stable)
	}
	h.expectBytes()
}

// expectBytes compares what the ledger is told with what is there.
func (h *history) expectBytes() {
	h.t.Helper()
	sum := int64(0)
	tables := []offsetTable{h.s.offsets}
	for _, t := range h.s.pending.byProducer {
		tables = append(tables, t.offsets)
	}
	for _, t := range tables {
		for id, of := range t.groups {
			own := int64(0)
			of.each(nil, func(_ string, _ int32, c *committed) bool {
				own += c.bytes()
				return true
			})
			if own != of.bytes {
				h.t.Errorf("%s takes %d bytes, %d are counted", id, own, of.bytes)
			}
			sum += own
		}
	}
	if sum != h.s.offsetsBytes {
		h.t.Errorf("offsets take %d bytes, %d are counted", sum, h.s.offsetsBytes)
	}
}

func TestTransactionalCommits(t *testing.T) {
	h := newHistory(t)
	h.commit(batch.NoProducerID, 0, 5)
	h.commit(7, 0, 6)
	h.expect("5 -1 ", "-1!88 -1 ")
	h.commit(8, 1, 9)
	h.expect("5 -1 ", "-1!88 -1!88 ")
	h.s.EndTransaction(7, true)
	h.expect("6 -1 ", "6 -1!88 ")
	h.s.EndTransaction(8, false)
	h.expect("6 -1 ", "6 -1 ")
	h.s.EndTransaction(99, true) // a transaction without offsets of this partition
	h.expect("6 -1 ", "6 -1 ")
	if len(h.s.pending.byProducer)+len(h.s.pending.producers) != 0 {
		t.Errorf("left over: %v", h.s.pending)
	}
}

// TestLaterCommitWins: the commit outside of the transaction came after the transaction's own.
func TestLaterCommitWins(t *testing.T) {
	h := newHistory(t)
	h.commit(7, 0, 6)
	h.commit(batch.NoProducerID, 0, 5)
	h.s.EndTransaction(7, true)
	h.expect("5 -1 ", "5 -1 ")
}

func TestTombstoneEndsPendingCommit(t *testing.T) {
	h := newHistory(t)
	h.commit(7, 0, 6)
	h.commit(7, 1, 7)
	h.replay(batch.NoProducerID, 0, nil)
	h.expect("-1 -1 ", "-1 -1!88 ")
	h.s.EndTransaction(7, true)
	h.expect("-1 7 ", "-1 7 ")
}

// TestPendingIsKept: an open transaction keeps the group and its partitions from expiry, deletion reaches into it.
func TestPendingIsKept(t *testing.T) {
	cfg := DefaultConfig()
	cfg.OffsetsRetentionMs, cfg.OffsetsRetentionCheckIntervalMs = 1000, 10000
	r := newRig(t, cfg)
	for partition := range int32(2) {
		c := committed{offset: 6, leaderEpoch: absentLeaderEpoch, expireMs: unknownTimestampMs}
		b, err := batch.Build(batch.BuildOptions{ProducerID: 7, Transactional: true}, []batch.Record{{Key: offsetCommitKey("g", "t", partition), Value: c.value()}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.log.Append(1, b); err != nil {
			t.Fatal(err)
		}
	}
	r.lead()
	before := r.log.Appends()
	r.clock.Advance(time.Minute)
	if n := r.log.Appends() - before; n != 0 || len(r.state()) != 1 {
		t.Errorf("%d appends by expiry, left: %v", n, r.state())
	}
	r.s.DeleteGroup("g", func(code int16) {
		if code != 0 {
			t.Errorf("deletion: %d", code)
		}
	})
	if records, err := r.log.Records(); err != nil || len(records) != 2+3 {
		t.Errorf("%d records after the deletion, %v", len(records), err)
	}
}

// TestExpiryIsCut: a group with very many offsets expires in several appends of bounded size.
func TestExpiryIsCut(t *testing.T) {
	cfg := DefaultConfig()
	cfg.OffsetsRetentionMs, cfg.OffsetsRetentionCheckIntervalMs = 1000, 10000
	r := newRig(t, cfg)
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Version, req.Group, req.Generation = 9, "g", -1
	topic := kmsg.OffsetCommitRequestTopic{Topic: "t"}
	for i := range int32(2*maxTombstones + 500) {
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Partition = i
		topic.Partitions = append(topic.Partitions, p)
	}
	req.Topics = append(req.Topics, topic)
	r.s.CommitOffsets(req, func([]kmsg.OffsetCommitResponseTopic) {})
	before := r.log.Appends()
	r.clock.Advance(10 * time.Second)
	if n := r.log.Appends() - before; n != 3 {
		t.Errorf("%d appends", n)
	}
	if state := r.state(); len(state) != 0 {
		t.Errorf("left: %v", state)
	}
}
