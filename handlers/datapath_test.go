package handlers

import (
	"fmt"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster/metadata"
	"grete/protocol/batch"
)

// Producers and long-polling consumers of several partitions, while configurations change and the leader's epoch is
// renewed: every consumer sees every record of its partition once and in order.
func TestDataPathUnderChange(t *testing.T) {
	const partitions, batches, perBatch = 4, 150, 3
	r := newRig(t)
	r.createTopic("t", partitions, "segment.bytes", "1048576")
	var all sync.WaitGroup
	for p := range int32(partitions) {
		producer, sessions, plainConsumer := r.dial(), r.dial(), r.dial()
		all.Go(func() { produceSequence(t, producer, p, batches, perBatch) })
		all.Go(func() { consumeInSession(t, sessions, p, batches*perBatch) })
		all.Go(func() { consumePlainly(t, plainConsumer, p, batches*perBatch) })
	}
	changes := make(chan struct{})
	go func() {
		defer close(changes)
		for i := range 30 {
			r.apply(&metadata.ConfigRecord{Type: metadata.TopicResource, Name: "t", Config: "max.message.bytes", Value: new(fmt.Sprint(1_000_000 + i))})
			for p := range int32(partitions) {
				c := metadata.NewPartitionChange(topicID("t"), p)
				c.Leader = rigNode
				r.apply(c)
			}
		}
	}()
	all.Wait()
	<-changes
	for p := range int32(partitions) {
		part, err := r.broker.Replicas.Partition("t", p)
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, "idle", func() bool { return part.Waiting() == 0 })
	}
}

// produceSequence writes batches of an idempotent producer, each twice: the second must be recognised.
func produceSequence(t *testing.T, w *wire, partition int32, batches, perBatch int) {
	o := plain
	o.ProducerID, o.ProducerEpoch = int64(100+partition), 0
	for i := range batches {
		o.BaseSequence = int32(i * perBatch)
		var vs []string
		for j := range perBatch {
			vs = append(vs, fmt.Sprint(i*perBatch+j))
		}
		for range 2 {
			a := call[*kmsg.ProduceResponse](w, 9, produceRequest("t", partition, -1, records(t, o, vs...))).Topics[0].Partitions[0]
			if a.ErrorCode != 0 || a.BaseOffset != int64(i*perBatch) {
				t.Errorf("partition %d, batch %d: %+v", partition, i, a)
				return
			}
		}
	}
}

// sequence checks that what is fetched goes on where it ended.
type sequence struct {
	t    *testing.T
	next int64
}

func (s *sequence) take(raw []byte) bool {
	for len(raw) > 0 {
		b, rest, err := batch.Next(raw)
		if err != nil {
			return true // a cut last batch
		}
		for rec, err := range b.Records() {
			if err != nil || rec.Offset != s.next || string(rec.Value) != fmt.Sprint(s.next) {
				s.t.Errorf("offset %d holds %q, want %d: %v", rec.Offset, rec.Value, s.next, err)
				return false
			}
			s.next++
		}
		raw = rest
	}
	return true
}

func consumePlainly(t *testing.T, w *wire, partition int32, count int) {
	s := sequence{t: t}
	for s.next < int64(count) {
		req := fetchRequest("t", partition, s.next)
		req.MaxWaitMillis, req.IsolationLevel = 10_000, 1
		p := call[*kmsg.FetchResponse](w, 12, req).Topics[0].Partitions[0]
		if p.ErrorCode != 0 || len(p.RecordBatches) == 0 {
			t.Errorf("partition %d at %d: %+v", partition, s.next, p)
			return
		}
		if !s.take(p.RecordBatches) {
			return
		}
	}
}

func consumeInSession(t *testing.T, w *wire, partition int32, count int) {
	s := sequence{t: t}
	id, epoch := int32(0), int32(0)
	for s.next < int64(count) {
		req := fetchRequest("t", partition, s.next)
		req.MaxWaitMillis, req.SessionID, req.SessionEpoch = 10_000, id, epoch
		resp := call[*kmsg.FetchResponse](w, 13, req)
		if resp.ErrorCode != 0 || resp.SessionID == 0 || len(resp.Topics) == 0 {
			t.Errorf("session %d epoch %d at %d: %+v", id, epoch, s.next, resp)
			return
		}
		id, epoch = resp.SessionID, nextFetchEpoch(epoch)
		if !s.take(resp.Topics[0].Partitions[0].RecordBatches) {
			return
		}
	}
}
