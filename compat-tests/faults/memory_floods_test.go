package faults

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// pipelined sends n requests without waiting for answers, and counts those by their error code.
func pipelined(t *testing.T, nc net.Conn, n int, version int16, make func(i int) kmsg.Request, code func(kmsg.Response) int16) map[int16]int {
	t.Helper()
	_ = nc.SetDeadline(time.Now().Add(10 * time.Minute))
	go func() {
		for i := range n {
			if _, err := nc.Write(requestFrame(version, make(i))); err != nil {
				return // the reader sees it, too
			}
		}
	}()
	counts, kind := map[int16]int{}, make(0)
	kind.SetVersion(version)
	for i := range n {
		body, err := readAnswer(nc)
		if err != nil {
			t.Fatalf("answer %d: %v", i, err)
		}
		resp := kind.ResponseKind()
		if body = body[4:]; resp.IsFlexible() {
			body = body[1:]
		}
		if err := resp.ReadFrom(body); err != nil {
			t.Fatal(err)
		}
		counts[code(resp)]++
	}
	return counts
}

const (
	coordinatorLoading = 14
	memberIDRequired   = 79
)

// A million producer ids of one client: each is taken, and the log forgets those that were silent for longest.
func TestMillionProducerIDsInLittleMemory(t *testing.T) {
	b := startSmall(t, nil)
	createTopic(t, b, "flood", 1, nil)
	began, n := time.Now(), scaled(1_000_000)
	counts := pipelined(t, dial(t, b), n, 9, func(i int) kmsg.Request {
		records := goodBatch([]byte("v")).with(func(b *rawBatch) { b.producerID, b.epoch, b.sequence = int64(1e6+i), 0, 0 })
		return produceRequest("flood", records.bytes())
	}, func(r kmsg.Response) int16 { return r.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode })
	used, share := metricSum(t, b, `kafka_server_memory_used_bytes{borrower="producers"}`), metricSum(t, b, `kafka_server_memory_share_bytes{borrower="producers"}`)
	t.Logf("%v in %v; producers hold %.1f of %.1f MiB; at most %d MiB were resident", counts, time.Since(began).Round(time.Millisecond), used/(1<<20), share/(1<<20), peakBytes(t, b)>>20)
	if counts[0] != n || used == 0 || used > 2*share {
		t.Error("not what is to be")
	}
	assertLives(t, b)
}

// A hundred thousand groups of one client, which it makes by joining, and as many that it makes by committing: as many
// as their share of the memory has room for, then a code with which clients try again. Groups that are there are
// served.
func TestManyGroupsInLittleMemory(t *testing.T) {
	b := startSmall(t, nil)
	createTopic(t, b, "there", 1, nil)
	nc := dial(t, b)
	waitForCoordinator(t, nc)
	began, n := time.Now(), scaled(100_000)
	counts := pipelined(t, nc, n/20, 8, func(i int) kmsg.Request { return commitOf(fmt.Sprint("committed-", i)) }, commitCode)
	joins := pipelined(t, nc, n, 4, func(i int) kmsg.Request { return joinOf(fmt.Sprint("joined-", i)) }, joinCode)
	for code, more := range pipelined(t, nc, n, 8, func(i int) kmsg.Request { return commitOf(fmt.Sprint("late-", i)) }, commitCode) {
		counts[code] += more
	}
	used, share := metricSum(t, b, `kafka_server_memory_used_bytes{borrower="groups"}`), metricSum(t, b, `kafka_server_memory_share_bytes{borrower="groups"}`)
	t.Logf("commits %v, joins %v in %v; groups hold %.1f of %.1f MiB; at most %d MiB were resident", counts, joins, time.Since(began).Round(time.Millisecond), used/(1<<20), share/(1<<20), peakBytes(t, b)>>20)
	if counts[0] == 0 || counts[0]+counts[coordinatorLoading] != n+n/20 || joins[memberIDRequired] == 0 || joins[memberIDRequired]+joins[coordinatorLoading] != n || used > 1.1*share {
		t.Error("not what is to be")
	}
	if long && (counts[coordinatorLoading] == 0 || joins[coordinatorLoading] == 0) {
		t.Error("none was refused")
	}
	if again := pipelined(t, nc, 1, 8, func(int) kmsg.Request { return commitOf("committed-0") }, commitCode); again[0] != 1 {
		t.Errorf("a group that is there: %v", again)
	}
	assertLives(t, b)
}

// commitOf commits one offset of the topic "there", with 4 KB of metadata.
func commitOf(group string) kmsg.Request {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.Generation = group, -1
	metadata := strings.Repeat("m", 4000)
	req.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: "there", Partitions: []kmsg.OffsetCommitRequestTopicPartition{{Metadata: &metadata}}}}
	return req
}

func commitCode(r kmsg.Response) int16 {
	return r.(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode
}

func joinOf(group string) kmsg.Request {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Group, req.SessionTimeoutMillis, req.RebalanceTimeoutMillis, req.ProtocolType = group, 30*60*1000, 6000, "consumer"
	req.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: make([]byte, 100)}}
	return req
}

func joinCode(r kmsg.Response) int16 { return r.(*kmsg.JoinGroupResponse).ErrorCode }

// A hundred thousand members of one group that get an id and never join with it: the coordinator remembers the last of
// them.
func TestManyPendingJoinsInLittleMemory(t *testing.T) {
	b := startSmall(t, nil)
	nc := dial(t, b)
	waitForCoordinator(t, nc)
	began, n := time.Now(), scaled(100_000)
	joins := pipelined(t, nc, n, 4, func(int) kmsg.Request { return joinOf("crowd") }, joinCode)
	t.Logf("%v in %v; at most %d MiB were resident", joins, time.Since(began).Round(time.Millisecond), peakBytes(t, b)>>20)
	if joins[memberIDRequired] != n {
		t.Error("not all got an id")
	}
	assertLives(t, b)
}

// What is resident with 300,000 groups that have committed 4 KB of metadata each is near what is live. (It was 3.4 GiB
// for 1.2.)
func TestManyGroupsLeaveLittleGarbage(t *testing.T) {
	if !long {
		t.Skip("takes a minute and 2 GiB; GRETE_LONG=1 runs it")
	}
	b := start(t, nil)
	createTopic(t, b, "there", 1, nil)
	nc := dial(t, b)
	waitForCoordinator(t, nc)
	n := 300_000
	counts := pipelined(t, nc, n, 8, func(i int) kmsg.Request { return commitOf(fmt.Sprint("g-", i)) }, commitCode)
	if counts[0] != n {
		t.Errorf("commits: %v", counts)
	}
	at := rssBytes(t, b)
	time.Sleep(30 * time.Second)
	live, lent, rss := int64(metricSum(t, b, "go_memstats_heap_alloc_bytes")), metricSum(t, b, `kafka_server_memory_used_bytes{borrower="groups"}`), rssBytes(t, b)
	t.Logf("%d MiB live, %.0f MiB lent to groups; %d MiB resident at the end of the flood, %d at most, %d half a minute later", live>>20, lent/(1<<20), at>>20, peakBytes(t, b)>>20, rss>>20)
	if rss > live*5/4+100<<20 {
		t.Error("too much")
	}
}
