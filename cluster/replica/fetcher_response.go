package replica

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// take does with each partition what the leader's answer asks for. An error is the connection's.
func (f *fetcher) take(parts map[partitionKey]*followedPartition, resp *kmsg.FetchResponse) error {
	for i := range resp.Topics {
		t := &resp.Topics[i]
		for j := range t.Partitions {
			key := partitionKey{t.TopicID, t.Partitions[j].Partition}
			p := parts[key]
			if p == nil {
				continue // forgotten meanwhile
			}
			if err := f.takeOne(p, f.session.sent[key], &t.Partitions[j]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (f *fetcher) takeOne(p *followedPartition, asked position, answer *kmsg.FetchResponseTopicPartition) error {
	var err error
	switch code := kerr.TypedErrorForCode(answer.ErrorCode); {
	case code == nil && answer.DivergingEpoch.EndOffset >= 0:
		err = p.reconcile(p.epoch, EpochEnd{answer.DivergingEpoch.Epoch, answer.DivergingEpoch.EndOffset})
	case code == nil:
		err = f.append(p, asked, answer)
	case code == kerr.OffsetOutOfRange:
		lost, failed := f.outOfRange(p)
		if lost != nil {
			return lost
		}
		err = failed
	default:
		err = code
	}
	if answer.ErrorCode == 0 && (err != nil || answer.DivergingEpoch.EndOffset >= 0) {
		f.session.lost() // the high watermark was not taken over, and is not told again in this session
	}
	if err != nil {
		f.delay(p, err)
	} else if p.failures > 0 {
		f.recovered(p)
	}
	return nil
}

func (f *fetcher) recovered(p *followedPartition) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p.failures = 0
}

func (f *fetcher) append(p *followedPartition, asked position, answer *kmsg.FetchResponseTopicPartition) error {
	err := p.replicate(p.epoch, fetched{
		offset: asked.offset, records: answer.RecordBatches, highWatermark: answer.HighWatermark, logStart: answer.LogStartOffset,
	})
	if err != nil {
		return err
	}
	p.lag.Store(max(answer.HighWatermark-p.Log().EndOffset(), 0))
	return nil
}

// outOfRange asks where the leader's log begins and ends, and goes on there. lost is the connection's error, failed the
// partition's.
func (f *fetcher) outOfRange(p *followedPartition) (lost, failed error) {
	end, lost, failed := f.leaderOffset(p, TimestampLatest)
	if lost != nil || failed != nil {
		return lost, failed
	}
	start, lost, failed := f.leaderOffset(p, TimestampEarliest)
	if lost != nil || failed != nil {
		return lost, failed
	}
	if own := p.Log().EndOffset(); start <= own && own <= end {
		return nil, fmt.Errorf("%w: it has %d to %d, and this log ends at %d", errContradiction, start, end, own)
	}
	f.o.Log.Warn().Str("topic", p.Topic).Int32("partition", p.Index).Int64("leader-start", start).Int64("leader-end", end).
		Msg("the log's end is outside of the leader's log")
	return nil, p.resume(p.epoch, start, end)
}

// errContradiction: to go on at once would be refused again, and again.
var errContradiction = errors.New("the leader refuses this log's end or its epoch as out of range")

var errNoAnswer = errors.New("the leader did not answer for the partition")

func (f *fetcher) leaderOffset(p *followedPartition, timestampMs int64) (offset int64, lost, failed error) {
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID = f.o.NodeID
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic = p.Topic
	tp := kmsg.NewListOffsetsRequestTopicPartition()
	tp.Partition, tp.CurrentLeaderEpoch, tp.Timestamp = p.Index, p.epoch, timestampMs
	t.Partitions = append(t.Partitions, tp)
	req.Topics = append(req.Topics, t)
	answer, err := f.call(req, false)
	if err != nil {
		return 0, err, nil
	}
	for _, t := range answer.(*kmsg.ListOffsetsResponse).Topics {
		for _, a := range t.Partitions {
			return a.Offset, nil, kerr.ErrorForCode(a.ErrorCode)
		}
	}
	return 0, nil, errNoAnswer
}
