package group

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/coordinator"
)

func txnCommit(group string, partition int32, offset int64) *kmsg.OffsetCommitRequest {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Version, req.Group, req.Generation = 8, group, -1
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	p.Partition, p.Offset = partition, offset
	req.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: "t", Partitions: []kmsg.OffsetCommitRequestTopicPartition{p}}}
	return req
}

func (r *rig) txnCommit(req *kmsg.OffsetCommitRequest, producer int64) int16 {
	r.t.Helper()
	code := int16(-99)
	r.s.CommitTxnOffsets(req, coordinator.Producer{ID: producer, Epoch: 1}, func(topics []kmsg.OffsetCommitResponseTopic) {
		code = topics[0].Partitions[0].ErrorCode
	})
	return code
}

func (r *rig) endTxn(producer int64, commit bool) {
	r.t.Helper()
	err := errors.New("not answered")
	r.s.EndTransaction(0, coordinator.Marker{Producer: coordinator.Producer{ID: producer, Epoch: 2}, Commit: commit}, func(e error) { err = e })
	if err != nil {
		r.t.Fatal(err)
	}
}

// offsetsText is each partition's offset, and the code when only stable ones are wanted.
func (r *rig) offsetsText(group string) string {
	var out []string
	for p := range int32(3) {
		req := kmsg.OffsetFetchRequestGroup{Group: group, MemberEpoch: -1, Topics: []kmsg.OffsetFetchRequestGroupTopic{{Topic: "t", Partitions: []int32{p}}}}
		var offset int64
		r.s.FetchOffsets(req, false, func(g kmsg.OffsetFetchResponseGroup) { offset = g.Topics[0].Partitions[0].Offset })
		r.s.FetchOffsets(req, true, func(g kmsg.OffsetFetchResponseGroup) {
			out = append(out, fmt.Sprintf("%d/%d", offset, g.Topics[0].Partitions[0].ErrorCode))
		})
	}
	return strings.Join(out, " ")
}

func (r *rig) wantOffsets(when, want string) {
	r.t.Helper()
	if got := r.offsetsText("g"); got != want {
		r.t.Errorf("%s: %s, want %s", when, got, want)
	}
}

// Offsets of a transaction count from its end on, also for a coordinator that comes later; two producers do not touch
// each other's.
func TestOffsetsInTransactions(t *testing.T) {
	r := newRig(t, DefaultConfig())
	r.txnCommit(txnCommit("g", 0, 10), 1)
	r.txnCommit(txnCommit("g", 1, 20), 1)
	r.txnCommit(txnCommit("g", 2, 30), 2)
	r.wantOffsets("open", "-1/88 -1/88 -1/88")
	r.lead()
	r.wantOffsets("open, loaded", "-1/88 -1/88 -1/88")
	r.endTxn(1, true)
	r.wantOffsets("one committed", "10/0 20/0 -1/88")
	r.endTxn(2, false)
	r.wantOffsets("the other aborted", "10/0 20/0 -1/0")
	r.txnCommit(txnCommit("g", 0, 11), 1)
	r.lead()
	r.endTxn(1, true)
	r.lead()
	r.wantOffsets("again, loaded", "11/0 20/0 -1/0")
}

func TestTransactionalCommitsAreRefused(t *testing.T) {
	cfg := DefaultConfig()
	cfg.OffsetMetadataMaxBytes = 4
	r := newRig(t, cfg)
	bend := func(f func(*kmsg.OffsetCommitRequest)) *kmsg.OffsetCommitRequest {
		req := txnCommit("g", 0, 1)
		f(req)
		return req
	}
	for _, c := range []struct {
		what string
		req  *kmsg.OffsetCommitRequest
		want *kerr.Error
	}{
		{"no group", bend(func(q *kmsg.OffsetCommitRequest) { q.Group = "" }), kerr.InvalidGroupID},
		{"generation of no group", bend(func(q *kmsg.OffsetCommitRequest) { q.Generation = 3 }), kerr.IllegalGeneration},
		{"the same, of a client that knows more", bend(func(q *kmsg.OffsetCommitRequest) { q.Generation, q.Version = 3, 10 }), kerr.GroupIDNotFound},
		{"large metadata", bend(func(q *kmsg.OffsetCommitRequest) { q.Topics[0].Partitions[0].Metadata = ptr("12345") }), kerr.OffsetMetadataTooLarge},
	} {
		if code := r.txnCommit(c.req, 1); code != c.want.Code {
			t.Errorf("%s: %d, want %v", c.what, code, c.want)
		}
	}
	if n := r.log.Appends(); n != 0 {
		t.Errorf("%d batches were written", n)
	}
	r.log.FailAppends(kerr.InvalidTxnState)
	if code := r.txnCommit(txnCommit("g", 0, 1), 1); code != kerr.InvalidTxnState.Code {
		t.Errorf("refused by the log: %d", code)
	}
	r.s.Resign(0, r.epoch)
	if code := r.txnCommit(txnCommit("g", 0, 1), 1); code != kerr.NotCoordinator.Code {
		t.Errorf("not led: %d", code)
	}
}
