package node

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/internal/vfs"
)

var scrubbing = []string{"log.scrub.interval.ms=100", "log.scrub.io.max.bytes.per.second=1e9", "log.segment.bytes=1048576"}

// fill writes some segments of values that are numbered from 0.
func fill(t *testing.T, cl *kgo.Client, topic string, records int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for i := range records {
		r := &kgo.Record{Topic: topic, Value: fmt.Appendf(nil, "%d %s", i, strings.Repeat("x", 50_000))}
		if err := cl.ProduceSync(ctx, r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
}

// flipBit damages the middle of a topic's first segment.
func flipBit(t *testing.T, fs vfs.FS, topic string) {
	t.Helper()
	f, err := fs.OpenFile(path.Join("/data", topic+"-0", "00000000000000000000.log"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var b [1]byte
	if _, err := f.ReadAt(b[:], 500_000); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 1
	if _, err := f.WriteAt(b[:], 500_000); err != nil {
		t.Fatal(err)
	}
}

// logFiles are a topic's segments on a node's disk.
func (c *nodes) logFiles(i int, topic string) map[string][]byte {
	c.t.Helper()
	entries, err := c.disks[i].ReadDir("/data/" + topic + "-0")
	if err != nil {
		c.t.Fatal(err)
	}
	out := map[string][]byte{}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".log") {
			continue
		}
		f, err := c.disks[i].OpenFile("/data/"+topic+"-0/"+e.Name(), os.O_RDWR, 0)
		if err != nil {
			c.t.Fatal(err)
		}
		size, _ := f.Size()
		data := make([]byte, size)
		if _, err := f.ReadAt(data, 0); err != nil && size > 0 {
			c.t.Fatal(err)
		}
		f.Close()
		out[e.Name()] = data
	}
	return out
}

// A bit flips in a closed segment of a follower, then of the leader: the replica leaves the ISR, where it led another
// leads, and it comes back with what the others have. Writes go on.
func TestDamagedReplicasAreMended(t *testing.T) {
	c := newNodes(t, 3, append(scrubbing, "min.insync.replicas=2", "auto.leader.rebalance.enable=false")...)
	c.start(0, 1, 2)
	if err := c.create(0, "kept", 3); err != nil {
		t.Fatal(err)
	}
	cl := c.client(kgo.ProducerLinger(0), kgo.ProducerBatchCompression(kgo.NoCompression()))
	fill(t, cl, "kept", 50)
	whole := func() bool { return len(c.partition(c.leader(), "kept").ISR) == 3 }
	for _, victim := range []string{"follower", "leader"} {
		c.eventually("whole ISR", whole)
		before := c.partition(c.leader(), "kept")
		at := int(before.Leader) - 1
		if victim == "follower" {
			at = (at + 1) % 3
		}
		flipBit(t, c.disks[at], "kept")
		left := false
		c.eventually("mended "+victim, func() bool {
			p := c.partition(c.leader(), "kept")
			left = left || p.PartitionEpoch > before.PartitionEpoch
			told := !slices.Contains(p.Directories, [16]byte{15: 2}) // that the replica is lost no more, which may come last
			return left && told && len(p.ISR) == 3 && c.running[at].store.ScrubStats().DamagedSegments == 0
		})
		after := c.partition(c.leader(), "kept")
		if victim == "leader" && after.Leader == before.Leader || victim == "follower" && after.Leader != before.Leader {
			t.Errorf("the %s was damaged: led by %d before, by %d after", victim, before.Leader, after.Leader)
		}
		fill(t, cl, "kept", 1)
		c.eventually("equal logs", func() bool {
			for name, data := range c.logFiles((at+1)%3, "kept") {
				if !bytes.Equal(data, c.logFiles(at, "kept")[name]) {
					return false
				}
			}
			return true
		})
	}
}

// A lone replica that is damaged says so to whoever reads there, serves all the rest, and cuts nothing.
func TestDamagedLoneReplica(t *testing.T) {
	disk := vfs.NewMem()
	n, err := Start(context.Background(), options(t, disk, scrubbing...))
	if err != nil {
		t.Fatal(err)
	}
	defer stopNode(t, n)
	cl := client(t, n, kgo.RecordRetries(0), kgo.ProducerLinger(0), kgo.ProducerBatchCompression(kgo.NoCompression()))
	createTopic(t, cl, "alone", 1)
	fill(t, cl, "alone", 50)
	flipBit(t, disk, "alone")
	p, err := n.replicas.Partition("alone", 0)
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); n.store.ScrubStats().DamagedSegments == 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the damage is not found")
		}
	}
	read := func(offset int64) (seen int, code int16) {
		resp, err := fetchOf(p.TopicID, offset).RequestWith(context.Background(), cl.Broker(1))
		if err != nil {
			t.Fatal(err)
		}
		a := resp.Topics[0].Partitions[0]
		return len(a.RecordBatches), a.ErrorCode
	}
	refused := 0
	for offset := range int64(50) {
		switch size, code := read(offset); {
		case code == kerr.CorruptMessage.Code && size == 0:
			refused++
		case code != 0 || size == 0:
			t.Errorf("offset %d: %d bytes, error %d", offset, size, code)
		}
	}
	if refused != 1 || p.Log().EndOffset() != 50 || p.Log().StartOffset() != 0 {
		t.Errorf("%d refused, %d–%d", refused, p.Log().StartOffset(), p.Log().EndOffset())
	}
	fill(t, cl, "alone", 1)
}

func fetchOf(topic [16]byte, offset int64) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.MaxBytes = 1 << 20
	t := kmsg.NewFetchRequestTopic()
	t.TopicID = topic
	p := kmsg.NewFetchRequestTopicPartition()
	p.FetchOffset, p.PartitionMaxBytes = offset, 1<<20
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}
