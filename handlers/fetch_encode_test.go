package handlers

import (
	"bytes"
	"fmt"
	"os"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster/metadata"
	"grete/cluster/replica"
	"grete/internal/vfs"
	"grete/logstore"
	"grete/protocol"
)

// spanOf is a span over one region that holds data, in the middle of a file.
func spanOf(t *testing.T, data string, aborted ...logstore.AbortedTxn) *logstore.Span {
	t.Helper()
	fs := vfs.NewMem()
	f, err := fs.OpenFile("/span", os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("before"+data+"after"), 0); err != nil {
		t.Fatal(err)
	}
	return &logstore.Span{
		Regions:   []vfs.Region{{File: f, OffsetBytes: 6, SizeBytes: len(data)}},
		SizeBytes: len(data), AbortedTxns: aborted,
	}
}

// body is what the parts put on the wire.
func body(t *testing.T, parts []protocol.Part) []byte {
	t.Helper()
	var out []byte
	for _, p := range parts {
		if p.Bytes != nil {
			out = append(out, p.Bytes...)
			continue
		}
		data := make([]byte, p.Region.SizeBytes)
		if _, err := p.Region.File.ReadAt(data, p.Region.OffsetBytes); err != nil {
			t.Fatal(err)
		}
		out = append(out, data...)
	}
	return out
}

// expected is the response that kmsg would send, records in memory.
func expected(version int16, sessionID int32, code int16, answers []fetchAnswer, records map[*logstore.Span]string, nodes []node) *kmsg.FetchResponse {
	resp := kmsg.NewPtrFetchResponse()
	resp.Version, resp.SessionID, resp.ErrorCode = version, sessionID, code
	for i := range answers {
		a := &answers[i]
		if i == 0 || a.key.topic != answers[i-1].key.topic || a.key.topicID != answers[i-1].key.topicID {
			t := kmsg.NewFetchResponseTopic()
			t.Topic, t.TopicID = a.key.topic, a.key.topicID
			resp.Topics = append(resp.Topics, t)
		}
		p := kmsg.NewFetchResponseTopicPartition()
		p.Partition, p.ErrorCode = a.key.partition, a.code
		p.HighWatermark, p.LastStableOffset, p.LogStartOffset = a.highWatermark, a.lastStableOffset, a.logStartOffset
		p.RecordBatches = []byte(records[a.span])
		if version >= 11 {
			p.PreferredReadReplica = a.preferred
		}
		if !a.abortedNull {
			p.AbortedTransactions = []kmsg.FetchResponseTopicPartitionAbortedTransaction{}
		}
		if a.span != nil {
			for _, x := range a.span.AbortedTxns {
				tx := kmsg.NewFetchResponseTopicPartitionAbortedTransaction()
				tx.ProducerID, tx.FirstOffset = x.ProducerID, x.FirstOffset
				p.AbortedTransactions = append(p.AbortedTransactions, tx)
			}
		}
		if a.diverging != nil {
			p.DivergingEpoch.Epoch, p.DivergingEpoch.EndOffset = a.diverging.Epoch, a.diverging.EndOffset
		}
		if version >= 16 {
			p.CurrentLeader.LeaderID, p.CurrentLeader.LeaderEpoch = a.leaderID, a.leaderEpoch
		}
		last := &resp.Topics[len(resp.Topics)-1]
		last.Partitions = append(last.Partitions, p)
	}
	for _, n := range nodes {
		b := kmsg.NewFetchResponseBroker()
		b.NodeID, b.Host, b.Port, b.Rack = n.id, n.host, n.port, n.rack
		resp.Brokers = append(resp.Brokers, b)
	}
	return resp
}

func TestFetchEncodingIsKmsgs(t *testing.T) {
	rack := "r1"
	nodes := []node{{id: 1, host: "host", port: 9092}, {id: 2, host: "other", port: 19092, rack: &rack}}
	for version := int16(4); version <= 18; version++ {
		t.Run(fmt.Sprint(version), func(t *testing.T) {
			idA, idB := metadata.UUID{1}, metadata.UUID{2}
			long, short := string(bytes.Repeat([]byte("0123456789"), 3000)), "short"
			plain := spanOf(t, long)
			aborted := spanOf(t, short, logstore.AbortedTxn{ProducerID: 7, FirstOffset: 8, LastOffset: 9}, logstore.AbortedTxn{ProducerID: 10, FirstOffset: 11})
			answers := []fetchAnswer{
				{fetchTarget: fetchTarget{key: fetchKey{"a", idA, 0}}, highWatermark: 5, lastStableOffset: 4, logStartOffset: 3, leaderID: -1, leaderEpoch: -1, preferred: -1, abortedNull: true, span: plain},
				{fetchTarget: fetchTarget{key: fetchKey{"a", idA, 9}}, highWatermark: 50, lastStableOffset: 40, logStartOffset: 30, leaderID: -1, leaderEpoch: -1, preferred: 7, span: aborted},
				{fetchTarget: fetchTarget{key: fetchKey{"b", idB, 1}}, highWatermark: 5, lastStableOffset: 4, logStartOffset: 3, leaderID: -1, leaderEpoch: -1, preferred: -1},
				failedFetch(fetchTarget{key: fetchKey{"a", idA, 3}}, 3),
			}
			var sent []node
			if version >= 16 {
				answers[3].leaderID, answers[3].leaderEpoch, sent = 2, 17, nodes
			}
			if version >= 12 {
				answers[2].diverging = &replica.EpochEnd{Epoch: 4, EndOffset: 12}
			}
			records := map[*logstore.Span]string{plain: long, aborted: short}
			want := expected(version, 77, 0, answers, records, sent).AppendTo(nil)
			parts, release := encodeFetch(version, 77, 0, fetchAnswers{known: answers}, sent)
			got := body(t, parts)
			release()
			if !bytes.Equal(got, want) {
				t.Fatalf("got  %x\nwant %x", got[:min(len(got), 300)], want[:min(len(want), 300)])
			}
		})
	}
}

func TestFetchEncodingOfNothing(t *testing.T) {
	for version := int16(4); version <= 18; version++ {
		parts, release := encodeFetch(version, 0, 71, fetchAnswers{}, nil)
		got := body(t, parts)
		release()
		want := expected(version, 0, 71, nil, nil, nil).AppendTo(nil)
		if !bytes.Equal(got, want) {
			t.Errorf("version %d: got %x want %x", version, got, want)
		}
	}
}
