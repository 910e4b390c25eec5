package node

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"grete/internal/clock"
	"grete/internal/vfs"
	"grete/logstore"
	"grete/protocol/batch"
)

// TestOffsetsLoad times the start of a coordinator on a log of commits that was never compacted, one commit a batch: 10
// million must take at most 5 s (GRETE_LONG=1); here some less.
func TestOffsetsLoad(t *testing.T) {
	commits, limit := 200_000, 5*time.Second
	if os.Getenv("GRETE_LONG") != "" {
		commits = 10_000_000
	}
	dir := t.TempDir()
	o := func() Options {
		return options(t, vfs.OS, "log.dirs="+dir, "offsets.topic.num.partitions=1", "log.cleaner.enable=false")
	}
	n := start(t, o())
	cl := client(t, n, byName)
	createTopic(t, cl, "t", 1)
	commit(t, cl)
	cl.Close()
	stopNode(t, n)
	last := writeCommits(t, dir, commits)

	n = start(t, o())
	cl = client(t, n, byName)
	started := time.Now()
	for {
		offset, err := fetchOffset(t, cl)
		if err == nil {
			if offset != last {
				t.Fatalf("the last commit is %d, %d was loaded", last, offset)
			}
			break
		}
		if err != kerr.CoordinatorLoadInProgress && err != kerr.NotCoordinator {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
	took := time.Since(started)
	t.Logf("%d commits loaded in %v", commits, took)
	if took > limit {
		t.Errorf("it took more than %v", limit)
	}
}

func commit(t *testing.T, cl *kgo.Client) {
	t.Helper()
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.Generation = "group-0", -1
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	req.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: "t", Partitions: []kmsg.OffsetCommitRequestTopicPartition{p}}}
	resp, err := req.RequestWith(context.Background(), cl)
	if err == nil {
		err = kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// fetchOffset asks for what commit committed.
func fetchOffset(t *testing.T, cl *kgo.Client) (int64, error) {
	t.Helper()
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Groups = []kmsg.OffsetFetchRequestGroup{{Group: "group-0", MemberEpoch: -1,
		Topics: []kmsg.OffsetFetchRequestGroupTopic{{Topic: "t", Partitions: []int32{0}}}}}
	answer, err := cl.SeedBrokers()[0].Request(context.Background(), req)
	if err != nil {
		t.Fatal(err)
	}
	g := answer.(*kmsg.OffsetFetchResponse).Groups[0]
	if g.ErrorCode != 0 {
		return 0, kerr.ErrorForCode(g.ErrorCode)
	}
	return g.Topics[0].Partitions[0].Offset, nil
}

// writeCommits appends n commits of a thousand groups to the only partition of __consumer_offsets, and returns the last
// offset of group-0.
func writeCommits(t *testing.T, dir string, n int) (last int64) {
	t.Helper()
	s, err := logstore.Open(context.Background(), logstore.Options{FS: vfs.OS, Clock: clock.System, Log: zerolog.Nop(),
		Dirs: []string{dir}, Defaults: logstore.DefaultConfig()})
	if err != nil {
		t.Fatal(err)
	}
	l := s.Log(logstore.ID{Topic: offsetsTopic})
	build := batch.BuildOptions{ProducerID: batch.NoProducerID, ProducerEpoch: -1, BaseSequence: batch.NoSequence}
	for i := range n {
		key := kmsg.OffsetCommitKey{Version: 1, Group: fmt.Sprint("group-", i%1000), Topic: "t"}
		value := kmsg.OffsetCommitValue{Version: 3, Offset: int64(i), LeaderEpoch: -1, CommitTimestamp: time.Now().UnixMilli()}
		b, err := batch.Build(build, []batch.Record{{TimestampMs: value.CommitTimestamp, Key: key.AppendTo(nil), Value: value.AppendTo(nil)}})
		if err == nil {
			_, err = l.Append(b, 0)
		}
		if err != nil {
			t.Fatal(err)
		}
		if i%1000 == 0 {
			last = int64(i)
		}
	}
	l.SetHighWatermark(l.EndOffset())
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return last
}

// byName keeps to versions that name topics rather than their ids.
var byName = kgo.MaxVersions(kversion.V3_6_0())
