package replica

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"

	"grete/internal/metrics"
)

// stats are a topic's counters; of nobody's when traffic is not counted.
func (m *Manager) stats(topic string) *metrics.TopicStats {
	if m.o.Topics == nil {
		return &metrics.TopicStats{}
	}
	return m.o.Topics.Topic(topic)
}

func (m *Manager) forgetStats(topic string) {
	if m.o.Topics != nil {
		m.o.Topics.Remove(topic)
	}
}

// countProduce counts a produce of sizeBytes that ended with err.
func (p *Partition) countProduce(sizeBytes int, a Appended, err error) {
	p.stats.TotalProduceRequests.Add(1)
	if err == nil {
		p.stats.BytesIn.Add(int64(sizeBytes))
		p.stats.MessagesIn.Add(int64(a.RecordCount))
		return
	}
	p.stats.FailedProduceRequests.Add(1)
	switch {
	case errors.Is(err, kerr.MessageTooLarge), errors.Is(err, kerr.RecordListTooLarge):
		p.stats.BytesRejected.Add(int64(sizeBytes))
	case errors.Is(err, kerr.CorruptMessage):
		p.stats.InvalidCRCRecords.Add(1)
	case errors.Is(err, kerr.InvalidRecord):
		p.stats.InvalidOffsetOrSequenceRecords.Add(1)
	}
}

// CountFetch counts a fetch, of a follower or a client, that was answered with sizeBytes of records.
func (p *Partition) CountFetch(sizeBytes int, failed, follower bool) {
	p.stats.TotalFetchRequests.Add(1)
	if follower {
		p.stats.ReplicationBytesOut.Add(int64(sizeBytes))
		p.countSent(sizeBytes)
	} else {
		p.stats.BytesOut.Add(int64(sizeBytes))
	}
	if failed {
		p.stats.FailedFetchRequests.Add(1)
	}
}
