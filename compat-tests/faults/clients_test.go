package faults

import (
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// fetchRequest is a sessionless fetch of partition 0 from an offset.
func fetchRequest(topic string, offset int64, minBytes, maxBytes, partitionBytes, waitMs int32) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.MinBytes, req.MaxBytes, req.MaxWaitMillis, req.SessionEpoch = minBytes, maxBytes, waitMs, -1
	part := kmsg.NewFetchRequestTopicPartition()
	part.FetchOffset, part.PartitionMaxBytes = offset, partitionBytes
	ft := kmsg.NewFetchRequestTopic()
	ft.Topic, ft.Partitions = topic, []kmsg.FetchRequestTopicPartition{part}
	req.Topics = []kmsg.FetchRequestTopic{ft}
	return req
}

// Two hundred requests of mixed kinds and versions without a read: all are answered, in order.
func TestPipelining(t *testing.T) {
	b := start(t, nil)
	createTopic(t, b, "t", 1, nil)
	nc := dial(t, b)
	requests := func(i int) (int16, kmsg.Request) {
		switch i % 5 {
		case 0:
			return int16(i/5) % 3, kmsg.NewPtrApiVersionsRequest()
		case 1:
			return int16(3 + i/5%6), produceRequest("t", goodBatch([]byte(fmt.Sprint(i))).bytes())
		case 2:
			return int16(1 + i/5%8), kmsg.NewPtrMetadataRequest()
		case 3: // parked, behind which the others wait
			return 11, fetchRequest("t", 1<<40, 1, 100, 100, 10)
		}
		return 11, fetchRequest("t", 0, 1, 1, 1, 10)
	}
	go func() {
		for i := range 200 {
			version, req := requests(i)
			frame := requestFrame(version, req)
			copy(frame[8:12], []byte{0, 0, byte(i >> 8), byte(i)})
			if _, err := nc.Write(frame); err != nil {
				return
			}
		}
	}()
	for i := range 200 {
		body, err := readAnswer(nc)
		if err != nil {
			t.Fatalf("answer %d: %v", i, err)
		}
		if got := int(body[2])<<8 | int(body[3]); got != i {
			t.Fatalf("answer %d is to request %d", i, got)
		}
	}
	assertServes(t, b)
}

// What was sent before the peer ended its side is done, though nothing answers it; a peer that goes in mid-response
// is no harm.
func TestHalfCloseAndGone(t *testing.T) {
	b := start(t, nil)
	createTopic(t, b, "t", 1, nil)
	nc := dial(t, b)
	const n = 50
	for range n {
		req := produceRequest("t", goodBatch(make([]byte, 10_000)).bytes())
		req.Acks = 0
		send(t, nc, requestFrame(9, req))
	}
	must(t, nc.CloseWrite())
	if answer, err := io.ReadAll(nc); err != nil || len(answer) > 0 {
		t.Errorf("%x, %v", answer, err)
	}
	if end := latest(t, b, "t"); end != n {
		t.Errorf("%d of %d records are there", end, n)
	}
	files := openFiles(t, b)
	for range 100 {
		nc := dial(t, b)
		send(t, nc, requestFrame(11, fetchRequest("t", 0, 1, 1<<20, 1<<20, 100)))
		var head [100]byte
		_, _ = io.ReadFull(nc, head[:])
		_ = nc.SetLinger(0)
		nc.Close()
	}
	waitFor(t, "connections to go", func() bool { return openFiles(t, b) < files+10 })
	assertServes(t, b)
}

// Fetches with the smallest limits get on, one batch at a time; those that want more than can ever come end in time.
func TestFetchLimits(t *testing.T) {
	b := start(t, nil)
	createTopic(t, b, "t", 1, nil)
	nc := dial(t, b)
	for i := range 20 {
		produceTo(t, nc, "t", goodBatch([]byte(fmt.Sprint(i))).bytes())
	}
	for offset := range int64(20) {
		answer := call[*kmsg.FetchResponse](t, nc, 11, fetchRequest("t", offset, 1, 1, 1, 100)).Topics[0].Partitions[0]
		if answer.ErrorCode != 0 || len(answer.RecordBatches) == 0 || int64(answer.RecordBatches[7]) != offset {
			t.Fatalf("offset %d: error %d, %d bytes", offset, answer.ErrorCode, len(answer.RecordBatches))
		}
	}
	began := time.Now()
	answer := call[*kmsg.FetchResponse](t, nc, 11, fetchRequest("t", 0, 1<<31-1, 1<<31-1, 1<<31-1, 300)).Topics[0].Partitions[0]
	if took := time.Since(began); took < 290*time.Millisecond || took > 5*time.Second || answer.ErrorCode != 0 {
		t.Errorf("min bytes that never come: error %d after %v", answer.ErrorCode, took)
	}
	call[*kmsg.FetchResponse](t, nc, 11, fetchRequest("t", 0, -1, -1, -1, -1))
	assertServes(t, b)
}

// A topic is deleted and made again under a fetch and a producer: neither hangs, the new one begins at 0.
func TestRecreatedTopic(t *testing.T) {
	b := start(t, nil)
	nc := dial(t, b)
	for round := range 5 {
		createTopic(t, b, "again", 1, nil)
		if p := produceTo(t, nc, "again", goodBatch([]byte("v")).bytes()); p.ErrorCode != 0 || p.BaseOffset != 0 {
			t.Fatalf("round %d: error %d, offset %d", round, p.ErrorCode, p.BaseOffset)
		}
		parked := dial(t, b)
		send(t, parked, requestFrame(11, fetchRequest("again", 1, 1, 1<<20, 1<<20, 20_000)))
		time.Sleep(50 * time.Millisecond)
		began := time.Now()
		if code := deleteTopic(t, b, "again"); code != 0 {
			t.Fatalf("delete: error %d", code)
		}
		if _, err := readAnswer(parked); err != nil || time.Since(began) > 5*time.Second {
			t.Errorf("a fetch of a deleted topic: %v after %v", err, time.Since(began))
		}
		if p := produceTo(t, nc, "again", goodBatch([]byte("v")).bytes()); p.ErrorCode != unknownTopic {
			t.Errorf("produce to a deleted topic: error %d", p.ErrorCode)
		}
	}
	assertServes(t, b)
}
