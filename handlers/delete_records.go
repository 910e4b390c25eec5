package handlers

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster/replica"
	"grete/protocol"
)

// DeleteRecords serves versions 0–2: it answers when no replica has the records any more, or the request's timeout is
// over (DelayedDeleteRecords).
func DeleteRecords(b *Broker, _ context.Context, r *protocol.Request) {
	req := r.Body.(*kmsg.DeleteRecordsRequest)
	resp := kmsg.NewPtrDeleteRecordsResponse()
	resp.Version = r.Version
	resp.Topics = deletions(req)
	d := &deletion{b: b, r: r, resp: resp}
	for i := range resp.Topics {
		t := &resp.Topics[i]
		for j := range t.Partitions {
			d.begin(t.Topic, &t.Partitions[j])
		}
	}
	if len(d.waits) == 0 {
		r.Respond(resp)
		return
	}
	d.park(time.Duration(max(req.TimeoutMillis, 0)) * time.Millisecond)
}

// deletion is a request that waits for followers.
type deletion struct {
	b    *Broker
	r    *protocol.Request
	resp *kmsg.DeleteRecordsResponse

	parked
	waits   []deletionWait
	pending int
}

type deletionWait struct {
	partition *replica.Partition
	answer    *kmsg.DeleteRecordsResponseTopicPartition
	required  int64
	over      bool
	watch     replica.Watch
}

// begin deletes here; answer has the wanted offset as its low watermark.
func (d *deletion) begin(topic string, answer *kmsg.DeleteRecordsResponseTopicPartition) {
	p, done, err := d.b.deleteRecords(topic, answer.Partition, answer.LowWatermark)
	if err != nil {
		answer.LowWatermark, answer.ErrorCode = -1, codeOf(err)
		return
	}
	answer.LowWatermark = done.LowWatermark
	if !done.Done() {
		answer.ErrorCode = kerr.RequestTimedOut.Code // until it is known better
		d.waits = append(d.waits, deletionWait{partition: p, answer: answer, required: done.Required})
	}
}

func (d *deletion) park(wait time.Duration) {
	d.mu.Lock() // to the end, so that a finish finds all watches set
	d.pending = len(d.waits)
	d.timer = d.b.Clock.AfterFunc(wait, d.finish)
	d.stop = context.AfterFunc(d.r.Conn.Context(), d.finish)
	for i := range d.waits {
		d.waits[i].partition.Watch(&d.waits[i].watch, d, i)
	}
	d.mu.Unlock()
	for i := range d.waits { // what changed before its watch was set
		d.PartitionChanged(i)
	}
}

// PartitionChanged looks at one partition again.
func (d *deletion) PartitionChanged(i int) {
	if d.b.Replicas.Draining() {
		d.finish()
		return
	}
	d.mu.Lock()
	if w := &d.waits[i]; !d.done && !w.over {
		low, err := w.partition.LowWatermark()
		if w.over = err != nil || low >= w.required; w.over {
			w.answer.LowWatermark, w.answer.ErrorCode = low, codeOf(err)
			d.pending--
		}
	}
	all := d.pending == 0
	d.mu.Unlock()
	if all {
		d.finish()
	}
}

// finish answers; whoever comes first.
func (d *deletion) finish() {
	if !d.end() {
		return
	}
	for i := range d.waits {
		d.waits[i].watch.Unwatch()
	}
	d.r.Respond(d.resp)
}

// deletions lays out the response, for now with each partition's wanted offset as its low watermark. Of a partition
// that is named twice the last counts.
func deletions(req *kmsg.DeleteRecordsRequest) []kmsg.DeleteRecordsResponseTopic {
	var out []kmsg.DeleteRecordsResponseTopic
	var topics lookup[string]
	var places []lookup[int32] // of each topic's partitions
	for i := range req.Topics {
		t := &req.Topics[i]
		if len(t.Partitions) == 0 {
			continue
		}
		at, again := topics.add(t.Topic)
		if !again {
			rt := kmsg.NewDeleteRecordsResponseTopic()
			rt.Topic = t.Topic
			out, places = append(out, rt), append(places, lookup[int32]{})
		}
		for _, p := range t.Partitions {
			k, twice := places[at].add(p.Partition)
			if !twice {
				a := kmsg.NewDeleteRecordsResponseTopicPartition()
				a.Partition = p.Partition
				out[at].Partitions = append(out[at].Partitions, a)
			}
			out[at].Partitions[k].LowWatermark = p.Offset
		}
	}
	return out
}

func (b *Broker) deleteRecords(topic string, index int32, offset int64) (*replica.Partition, replica.Deletion, error) {
	p, err := b.Replicas.Partition(topic, index)
	if err != nil {
		return nil, replica.Deletion{}, err
	}
	if isInternal(topic) {
		return nil, replica.Deletion{}, kerr.InvalidTopicException
	}
	d, err := p.DeleteRecords(offset)
	return p, d, err
}
