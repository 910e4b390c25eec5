package faults

import (
	"net"
	"os/exec"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// With few descriptors: files of many partitions share them, connections beyond are waited for, and nothing is lost.
func TestFewDescriptors(t *testing.T) {
	if _, err := exec.LookPath("prlimit"); err != nil {
		t.Skip("prlimit is missing")
	}
	b := startUnder(t, t.TempDir(), nil, "prlimit", "--nofile=200:200")
	const partitions = 300
	createTopic(t, b, "many", partitions, nil)
	cl := client(t, b, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	produceAll := func(value string) {
		t.Helper()
		var records []*kgo.Record
		for p := range int32(partitions) {
			records = append(records, &kgo.Record{Topic: "many", Partition: p, Value: []byte(value)})
		}
		if err := cl.ProduceSync(within(t, patience), records...).FirstErr(); err != nil {
			t.Fatalf("%s: %v", value, err)
		}
	}
	produceAll("before")
	var conns []net.Conn
	for range 300 {
		nc, err := net.Dial("tcp", b.Addr)
		if err != nil {
			break
		}
		conns = append(conns, nc)
	}
	produceAll("during")
	for _, nc := range conns {
		nc.Close()
	}
	assertServes(t, b)
	produceAll("after")
	reader := client(t, b, kgo.ConsumeTopics("many"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	got := 0
	for ctx := within(t, patience); got < 3*partitions; {
		fetches := reader.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("after %d records: %v", got, err)
		}
		got += fetches.NumRecords()
	}
}

// A span in a response pins its file; connections that read nothing must not use all descriptors up.
func TestUnreadResponsesPinFewFiles(t *testing.T) {
	b := start(t, nil)
	const partitions = 50
	createTopic(t, b, "pinned", partitions, nil)
	cl := client(t, b, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	for p := range int32(partitions) {
		if err := cl.ProduceSync(within(t, patience), &kgo.Record{Topic: "pinned", Partition: p, Value: make([]byte, 500_000)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	before, files := rssBytes(t, b), openFiles(t, b)
	for range 50 {
		nc := dial(t, b)
		_ = nc.SetReadBuffer(4096)
		for range 20 {
			req := kmsg.NewPtrFetchRequest()
			req.MaxWaitMillis, req.MinBytes, req.MaxBytes = 100, 1, 100<<20
			topic := kmsg.NewFetchRequestTopic()
			topic.Topic = "pinned"
			for p := range int32(partitions) {
				part := kmsg.NewFetchRequestTopicPartition()
				part.Partition, part.PartitionMaxBytes = p, 1<<20
				topic.Partitions = append(topic.Partitions, part)
			}
			req.SessionEpoch, req.Topics = -1, []kmsg.FetchRequestTopic{topic}
			_ = nc.SetWriteDeadline(time.Now().Add(200 * time.Millisecond))
			if _, err := nc.Write(requestFrame(11, req)); err != nil {
				break // the broker has stopped reading: that is right
			}
		}
	}
	time.Sleep(200 * time.Millisecond)
	if now := openFiles(t, b); now > files+50+partitions+20 {
		t.Errorf("%d descriptors, %d before", now, files)
	}
	assertGrewBy(t, b, before, 50*(1<<20)+roomForGarbage)
	assertServes(t, b)
}
