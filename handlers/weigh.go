package handlers

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/protocol"
)

// What a part of a response takes while it is built and encoded: measured, and rounded up.
const (
	metadataTopicBytes     = 400
	metadataPartitionBytes = 250
	configResourceBytes    = 24 << 10
	groupBytes             = 4 << 10
	logDirPartitionBytes   = 200
	fetchPartitionBytes    = 400
	listedGroupBytes       = 300
	fetchedOffsetBytes     = 150
	// fewFetched partitions of a Fetch are not weighed: a Fetch may be parked, and most are.
	fewFetched = 4096
)

// Weigh is protocol.Weigher's: requests whose responses grow with the cluster, or far beyond the request.
func (b *Broker) Weigh(r *protocol.Request) int64 {
	switch req := r.Body.(type) {
	case *kmsg.MetadataRequest:
		return b.weighTopics(len(req.Topics), req.Topics == nil || req.Version == 0 && len(req.Topics) == 0)
	case *kmsg.DescribeTopicPartitionsRequest:
		return b.weighTopics(len(req.Topics), len(req.Topics) == 0)
	case *kmsg.DescribeConfigsRequest:
		return int64(len(req.Resources)) * configResourceBytes
	case *kmsg.DescribeLogDirsRequest:
		return int64(b.Image().PartitionCount()) * logDirPartitionBytes
	case *kmsg.DescribeGroupsRequest:
		return int64(len(req.Groups)) * groupBytes
	case *kmsg.ConsumerGroupDescribeRequest:
		return int64(len(req.Groups)) * groupBytes
	case *kmsg.ListGroupsRequest:
		return b.Groups.GroupCount() * listedGroupBytes
	case *kmsg.OffsetFetchRequest:
		return b.weighOffsets(req)
	case *kmsg.FetchRequest:
		return weighFetch(req)
	}
	return 0
}

// weighOffsets knows what groups have committed that is much; of what is asked for by name, many partitions count, too.
func (b *Broker) weighOffsets(req *kmsg.OffsetFetchRequest) int64 {
	if req.Version < 8 {
		return b.weighGroupOffsets(oneFetchGroup(req))
	}
	bytes := int64(0)
	for _, g := range req.Groups {
		bytes += b.weighGroupOffsets(g)
	}
	return bytes
}

func (b *Broker) weighGroupOffsets(g kmsg.OffsetFetchRequestGroup) int64 {
	partitions := 0
	for _, t := range g.Topics {
		partitions += len(t.Partitions)
	}
	if g.Topics != nil && partitions <= fewFetched {
		return 0
	}
	return int64(partitions)*fetchedOffsetBytes + 2*b.Groups.OffsetsBytes(g.Group)
}

// weighTopics is for some topics of average size, or for all.
func (b *Broker) weighTopics(topics int, all bool) int64 {
	im := b.Image()
	known := int64(im.TopicCount())
	whole := known*metadataTopicBytes + int64(im.PartitionCount())*metadataPartitionBytes
	if all || known == 0 {
		return whole
	}
	return int64(topics) * (whole/known + 1)
}

func weighFetch(req *kmsg.FetchRequest) int64 {
	n := partitionCount(req)
	if n <= fewFetched {
		return 0
	}
	return int64(n) * fetchPartitionBytes
}
