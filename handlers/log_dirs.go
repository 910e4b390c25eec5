package handlers

import (
	"context"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/logstore"
	"grete/protocol"
)

// metadataTopic is the metadata log's.
const metadataTopic = "__cluster_metadata"

// DescribeLogDirs tells what the log directories hold, of all partitions (null) or of those named.
func DescribeLogDirs(b *Broker, _ context.Context, r *protocol.Request) {
	req := r.Body.(*kmsg.DescribeLogDirsRequest)
	resp := req.ResponseKind().(*kmsg.DescribeLogDirsResponse)
	wanted := wantedLogs(req)
	for _, dir := range b.LogDirs() {
		out := kmsg.NewDescribeLogDirsResponseDir()
		out.Dir, out.TotalBytes, out.UsableBytes = dir.Path, dir.TotalBytes, dir.UsableBytes
		if dir.Offline != nil {
			out.ErrorCode, out.TotalBytes, out.UsableBytes = kerr.KafkaStorageError.Code, -1, -1
		} else {
			out.Topics = b.describeLogs(append(slices.Clone(dir.Logs), dir.Futures...), dir.Futures, wanted)
		}
		resp.Dirs = append(resp.Dirs, out)
	}
	r.Respond(resp)
}

// wantedLogs says which logs a request asks for.
func wantedLogs(req *kmsg.DescribeLogDirsRequest) func(logstore.ID) bool {
	if req.Topics == nil {
		return func(logstore.ID) bool { return true }
	}
	named := map[logstore.ID]bool{}
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			named[logstore.ID{Topic: t.Topic, Partition: p}] = true
		}
	}
	return func(id logstore.ID) bool { return named[id] }
}

// describeLogs groups logs by topic, in order. The metadata log is no topic of clients.
func (b *Broker) describeLogs(logs, futures []*logstore.Log, wanted func(logstore.ID) bool) []kmsg.DescribeLogDirsResponseDirTopic {
	logs = slices.DeleteFunc(logs, func(l *logstore.Log) bool {
		return !wanted(l.ID()) || l.ID().Topic == metadataTopic
	})
	slices.SortFunc(logs, func(a, b *logstore.Log) int {
		if c := strings.Compare(a.ID().Topic, b.ID().Topic); c != 0 {
			return c
		}
		return int(a.ID().Partition) - int(b.ID().Partition)
	})
	var out []kmsg.DescribeLogDirsResponseDirTopic
	for _, l := range logs {
		if len(out) == 0 || out[len(out)-1].Topic != l.ID().Topic {
			t := kmsg.NewDescribeLogDirsResponseDirTopic()
			t.Topic = l.ID().Topic
			out = append(out, t)
		}
		t := &out[len(out)-1]
		t.Partitions = append(t.Partitions, b.describeLog(l, slices.Contains(futures, l)))
	}
	return out
}

// describeLog: a future log lags behind the log that it will replace, any other behind its own high watermark.
func (b *Broker) describeLog(l *logstore.Log, future bool) kmsg.DescribeLogDirsResponseDirTopicPartition {
	p := kmsg.NewDescribeLogDirsResponseDirTopicPartition()
	p.Partition, p.Size, p.IsFuture = l.ID().Partition, l.SizeBytes(), future
	p.OffsetLag = max(l.HighWatermark()-l.EndOffset(), 0)
	if !future {
		return p
	}
	p.OffsetLag = 0
	if current, err := b.Replicas.Partition(l.ID().Topic, l.ID().Partition); err == nil && current.Log() != nil {
		p.OffsetLag = max(current.Log().EndOffset()-l.EndOffset(), 0)
	}
	return p
}
