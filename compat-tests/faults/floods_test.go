package faults

import (
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/compat-tests/kafka"
)

// scaled is n, or a tenth of it in a short run.
func scaled(n int) int {
	if long {
		return n
	}
	return n / 10
}

// assertGrewBy fails when b's memory has grown by more than limit since before.
func assertGrewBy(t *testing.T, b *kafka.Broker, before, limit int64) {
	t.Helper()
	if grown := rssBytes(t, b) - before; grown > limit {
		t.Errorf("grew by %d MiB, want at most %d", grown>>20, limit>>20)
	}
}

// Every batch is of a producer never seen before: old ones are forgotten, the partition's memory is bounded.
func TestFloodOfProducerIDs(t *testing.T) {
	b := start(t, nil)
	createTopic(t, b, "flood", 1, nil)
	before := rssBytes(t, b)
	n := scaled(200_000)
	nc := dial(t, b)
	_ = nc.SetDeadline(time.Now().Add(5 * time.Minute))
	go func() {
		for i := range n {
			records := goodBatch([]byte("v")).with(func(b *rawBatch) { b.producerID, b.epoch, b.sequence = int64(1e6+i), 0, 0 })
			if _, err := nc.Write(requestFrame(9, produceRequest("flood", records.bytes()))); err != nil {
				return // the reader sees it, too
			}
		}
	}()
	for i := range n {
		if _, err := readAnswer(nc); err != nil {
			t.Fatalf("answer %d: %v", i, err)
		}
	}
	if end := latest(t, b, "flood"); end != int64(n) {
		t.Errorf("the log ends at %d", end)
	}
	assertGrewBy(t, b, before, int64(n)*1200+roomForGarbage)
	for range scaled(20_000) {
		req := kmsg.NewPtrInitProducerIDRequest()
		if answer := call[*kmsg.InitProducerIDResponse](t, nc, 4, req); answer.ErrorCode != 0 {
			t.Fatalf("InitProducerId: %d", answer.ErrorCode)
		}
	}
	assertServes(t, b)
}

// More fetch sessions than there is room for: the later ones get none, and work without.
func TestFloodOfFetchSessions(t *testing.T) {
	b := start(t, properties{"max.incremental.fetch.session.cache.slots": "100"})
	createTopic(t, b, "flood", 1, nil)
	before := rssBytes(t, b)
	nc := dial(t, b)
	_ = nc.SetDeadline(time.Now().Add(time.Minute))
	with := 0
	for range scaled(20_000) {
		req := kmsg.NewPtrFetchRequest()
		req.MaxWaitMillis, req.MaxBytes = 0, 1<<20
		topic := kmsg.NewFetchRequestTopic()
		topic.Topic = "flood"
		for p := range int32(20) {
			part := kmsg.NewFetchRequestTopicPartition()
			part.Partition, part.PartitionMaxBytes = p, 1<<20
			topic.Partitions = append(topic.Partitions, part)
		}
		req.SessionEpoch, req.Topics = 0, []kmsg.FetchRequestTopic{topic}
		answer := call[*kmsg.FetchResponse](t, nc, 11, req)
		if answer.ErrorCode != 0 || answer.Topics[0].Partitions[0].ErrorCode != 0 {
			t.Fatalf("%+v", answer)
		}
		if answer.SessionID != 0 {
			with++
		}
	}
	if with != 100 {
		t.Errorf("%d sessions with room for 100", with)
	}
	assertGrewBy(t, b, before, roomForGarbage)
	assertServes(t, b)
}

// Asking for topics that are not there, with and without creation.
func TestFloodOfUnknownTopics(t *testing.T) {
	b := start(t, nil)
	assertServes(t, b)
	before := rssBytes(t, b)
	nc := dial(t, b)
	_ = nc.SetDeadline(time.Now().Add(2 * time.Minute))
	req := kmsg.NewPtrMetadataRequest()
	for i := range scaled(20_000) {
		name := fmt.Sprintf("unknown-%d", i)
		req.Topics = append(req.Topics, kmsg.MetadataRequestTopic{Topic: &name})
	}
	for range 20 {
		answer := call[*kmsg.MetadataResponse](t, nc, 9, req)
		if len(answer.Topics) != len(req.Topics) || answer.Topics[0].ErrorCode != unknownTopic {
			t.Fatalf("%d topics, the first with error %d", len(answer.Topics), answer.Topics[0].ErrorCode)
		}
	}
	assertGrewBy(t, b, before, 2*roomForGarbage)
	req.Topics, req.AllowAutoTopicCreation = req.Topics[:scaled(5000)], true
	began := time.Now()
	call[*kmsg.MetadataResponse](t, nc, 9, req)
	t.Logf("%d topics created at once in %v", len(req.Topics), time.Since(began).Round(time.Millisecond))
	answer := call[*kmsg.MetadataResponse](t, nc, 9, req)
	for _, topic := range answer.Topics {
		if topic.ErrorCode != 0 {
			t.Fatalf("%s: error %d", *topic.Topic, topic.ErrorCode)
		}
	}
	assertServes(t, b)
	assertGrewBy(t, b, before, 2*roomForGarbage+int64(len(req.Topics))*(16<<10))
}

// Groups without end: each has a member that never comes back.
func TestFloodOfGroups(t *testing.T) {
	b := start(t, nil)
	nc := dial(t, b)
	_ = nc.SetDeadline(time.Now().Add(2 * time.Minute))
	waitForCoordinator(t, nc)
	before := rssBytes(t, b)
	n := scaled(50_000)
	for i := range n {
		req := kmsg.NewPtrJoinGroupRequest()
		req.Group, req.SessionTimeoutMillis, req.RebalanceTimeoutMillis, req.ProtocolType = fmt.Sprintf("group-%d", i), 6000, 6000, "consumer"
		req.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: make([]byte, 100)}}
		if answer := call[*kmsg.JoinGroupResponse](t, nc, 2, req); answer.ErrorCode != 0 {
			t.Fatalf("group %d: error %d", i, answer.ErrorCode)
		}
	}
	assertGrewBy(t, b, before, int64(n)*8<<10+roomForGarbage)
	list := call[*kmsg.ListGroupsResponse](t, nc, 4, kmsg.NewPtrListGroupsRequest())
	if len(list.Groups) != n {
		t.Errorf("%d of %d groups are listed", len(list.Groups), n)
	}
	assertServes(t, b)
}

// waitForCoordinator asks for a group's coordinator until its topic is there.
func waitForCoordinator(t *testing.T, nc net.Conn) {
	t.Helper()
	waitFor(t, "coordinator", func() bool {
		find := kmsg.NewPtrFindCoordinatorRequest()
		find.CoordinatorKey = "g"
		if call[*kmsg.FindCoordinatorResponse](t, nc, 2, find).ErrorCode != 0 {
			return false
		}
		fetch := kmsg.NewPtrOffsetFetchRequest()
		fetch.Group = "g"
		return call[*kmsg.OffsetFetchResponse](t, nc, 5, fetch).ErrorCode == 0
	})
}

// Members without end in one group, all joining at once: all are let in, or refused at group.max.size.
func TestFloodOfMembers(t *testing.T) {
	size := scaled(5000)
	b := start(t, properties{"group.max.size": fmt.Sprint(size), "group.initial.rebalance.delay.ms": "500"})
	first := dial(t, b)
	waitForCoordinator(t, first)
	const extra = 50
	answers := make(chan int16, size+extra)
	for i := range size + extra {
		nc, err := net.Dial("tcp", b.Addr)
		if err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		defer nc.Close()
		_ = nc.SetDeadline(time.Now().Add(time.Minute))
		go func() {
			req := kmsg.NewPtrJoinGroupRequest()
			req.Group, req.SessionTimeoutMillis, req.RebalanceTimeoutMillis, req.ProtocolType = "crowd", 30_000, 30_000, "consumer"
			req.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: []byte("m")}}
			answer, err := try[*kmsg.JoinGroupResponse](nc, 2, req)
			if err != nil {
				answers <- -2
				return
			}
			answers <- answer.ErrorCode
		}()
	}
	counts := map[int16]int{}
	for range size + extra {
		counts[<-answers]++
	}
	const groupMaxSizeReached = 81
	if counts[0] != size || counts[groupMaxSizeReached] != extra {
		t.Errorf("answers by code: %v, want %d let in and %d refused", counts, size, extra)
	}
	assertServes(t, b)
}

// A topic of more partitions than there may be is refused; creating and deleting large ones gives all back.
func TestPartitionsComeAndGo(t *testing.T) {
	b := start(t, nil)
	const policyViolation = 44
	if code := tryCreateTopic(t, b, "huge", 100_001, nil); code != policyViolation {
		t.Errorf("100,001 partitions: error %d", code)
	}
	if code := tryCreateTopic(t, b, "huger", 1<<31-1, nil); code != policyViolation {
		t.Errorf("2^31 partitions: error %d", code)
	}
	assertServes(t, b)
	rounds, partitions := 3, int32(scaled(10_000))
	var after []int64
	files := openFiles(t, b)
	for i := range rounds {
		name := fmt.Sprintf("many-%d", i)
		createTopic(t, b, name, partitions, map[string]string{"file.delete.delay.ms": "100"})
		if code := deleteTopic(t, b, name); code != 0 {
			t.Fatalf("delete: error %d", code)
		}
		assertServes(t, b)
		after = append(after, rssBytes(t, b))
	}
	if grown := after[rounds-1] - after[0]; grown > roomForGarbage {
		t.Errorf("resident after each round: %v", after)
	}
	waitFor(t, "descriptors to come back", func() bool { return openFiles(t, b) < files+20 })
	waitFor(t, "directories to go", func() bool { return len(entries(t, b.DataDir)) < 40 })
}
