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
			out.Topics = describeLogs(dir.Logs, wanted)
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
func describeLogs(logs []*logstore.Log, wanted func(logstore.ID) bool) []kmsg.DescribeLogDirsResponseDirTopic {
	logs = slices.DeleteFunc(slices.Clone(logs), func(l *logstore.Log) bool {
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
		t.Partitions = append(t.Partitions, describeLog(l))
	}
	return out
}

// describeLog: the lag of a replica that is no future one is how far its log is behind its own high watermark.
func describeLog(l *logstore.Log) kmsg.DescribeLogDirsResponseDirTopicPartition {
	p := kmsg.NewDescribeLogDirsResponseDirTopicPartition()
	p.Partition, p.Size = l.ID().Partition, l.SizeBytes()
	p.OffsetLag = max(l.HighWatermark()-l.EndOffset(), 0)
	return p
}
