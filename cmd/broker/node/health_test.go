package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/internal/vfs"
)

// produceOnce sends one batch to t-0 and returns the partition's answer.
func produceOnce(t *testing.T, cl *kgo.Client) kmsg.ProduceResponseTopicPartition {
	t.Helper()
	var answer kmsg.ProduceResponseTopicPartition
	hooked := cl.ProduceSync(context.Background(), &kgo.Record{Topic: "t", Value: []byte("v")}).FirstErr()
	if code, ok := errors.AsType[*kerr.Error](hooked); ok {
		answer.ErrorCode = code.Code
	}
	return answer
}

// A full disk and a lack of descriptors are told: by the answer, one line, a gauge and readiness, which goes back by
// itself.
func TestWhatTheMachineLacksIsTold(t *testing.T) {
	for _, tt := range []struct {
		lack        error
		line, ready string
		gauge       string
	}{
		{syscall.ENOSPC, "refused: no space is left on the volume", "no space left", "kafka_log_logmanager_refused_nospace"},
		{syscall.EMFILE, "refused: the process is out of file descriptors", "out of file descriptors", "kafka_log_logmanager_refused_nodescriptors"},
	} {
		t.Run(tt.lack.Error(), func(t *testing.T) {
			disk := vfs.NewFaulty(vfs.NewMem())
			o := options(t, disk, "admin.listen=127.0.0.1:0")
			log := &logged{}
			o.Log = zerolog.New(log)
			n := start(t, o)
			cl := client(t, n, kgo.RecordRetries(0), kgo.DisableIdempotentWrite())
			createTopic(t, cl, "t", 1)
			produce(t, cl, "t", 0, 1)
			disk.Inject(vfs.FailMatching(func(o vfs.Op) bool { return o.Kind == vfs.OpWrite && strings.Contains(o.Name, "/t-0/") }, tt.lack))
			for range 5 {
				if a := produceOnce(t, cl); a.ErrorCode != kerr.KafkaStorageError.Code {
					t.Fatalf("error %d", a.ErrorCode)
				}
			}
			if got := log.count(tt.line); got != 1 {
				t.Errorf("%d lines of %q", got, tt.line)
			}
			if code, body := get(t, "http://"+n.AdminAddr()+"/readyz"); code != 503 || !strings.Contains(body, tt.ready) {
				t.Errorf("readiness: %d %q", code, body)
			}
			if code, _ := get(t, "http://"+n.AdminAddr()+"/healthz"); code != 200 {
				t.Errorf("health: %d", code)
			}
			if _, body := get(t, "http://"+n.AdminAddr()+"/metrics"); !strings.Contains(body, tt.gauge+" 5\n") {
				t.Errorf("no %s 5", tt.gauge)
			}
			disk.Inject(nil)
			produce(t, cl, "t", 0, 1)
		})
	}
}

// A directory that fails is in readiness' body, while the others serve.
func TestReadinessTellsOfAFailedDirectory(t *testing.T) {
	disk := vfs.NewFaulty(vfs.NewMem())
	n, err := Start(context.Background(), options(t, disk, "log.dirs=/a,/b", "admin.listen=127.0.0.1:0", "metadata.log.dir=/a"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = n.Stop(ctx) // its checkpoints cannot be written
	}()
	cl := client(t, n, kgo.RecordRetries(0), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	createTopic(t, cl, "t", 4)
	failUnder(disk, "/b")
	for partition := range int32(4) {
		_ = cl.ProduceSync(context.Background(), &kgo.Record{Topic: "t", Partition: partition, Value: []byte("v")})
	}
	if code, body := get(t, "http://"+n.AdminAddr()+"/readyz"); code != 200 || !strings.HasPrefix(body, "ok\n") || !strings.Contains(body, "offline: /b") {
		t.Errorf("%d %q", code, body)
	}
}

// A connection too many waits, and one line, a gauge and readiness say so.
func TestFullOfConnections(t *testing.T) {
	log := &logged{}
	o := options(t, vfs.NewMem(), "admin.listen=127.0.0.1:0", "max.connections=2")
	o.Log = zerolog.New(log)
	n := start(t, o)
	var held []net.Conn
	for range 5 {
		nc, err := net.Dial("tcp", n.Addr("PLAINTEXT"))
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		held = append(held, nc)
	}
	deadline := time.Now().Add(10 * time.Second)
	for code, body := 0, ""; code != 503; code, body = get(t, "http://"+n.AdminAddr()+"/readyz") {
		if time.Now().After(deadline) {
			t.Fatalf("%d %q", code, body)
		}
	}
	if got := log.count("a connection waits to be served"); got != 1 {
		t.Errorf("%d lines", got)
	}
	if _, body := get(t, "http://"+n.AdminAddr()+"/metrics"); !strings.Contains(body, "kafka_network_acceptor_waiting 1\n") {
		t.Error("no kafka_network_acceptor_waiting 1")
	}
	for _, nc := range held {
		nc.Close()
	}
	for code := 0; code != 200; code, _ = get(t, "http://"+n.AdminAddr()+"/readyz") {
		if time.Now().After(deadline) {
			t.Fatal("not ready after the connections have gone")
		}
	}
}

// Two of three killed: the third is not ready, its gauges say what nobody leads and what cannot be written, and writes
// with acks=all fail. It does not wait for anybody when it stops.
func TestReadinessNeedsAController(t *testing.T) {
	c := newNodes(t, 3)
	properties := []string{"offsets.topic.replication.factor=1", "transaction.state.log.replication.factor=1", "min.insync.replicas=2", "replica.lag.time.max.ms=1000"}
	adminAt, clientsAt := c.watched(0, properties...)
	log := c.logs(0)
	c.start(0, 1, 2)
	c.requireServing(adminAt, clientsAt)
	for i := range 6 {
		if err := c.create(0, fmt.Sprint("t", i), 3); err != nil {
			t.Fatal(err)
		}
	}
	cl := c.client(kgo.ProduceRequestTimeout(time.Second), kgo.RecordRetries(0), kgo.DisableIdempotentWrite())
	for _, i := range []int{1, 2} {
		c.running[i].leaving.Do(func() {})
		c.wires[i].set(true)
	}
	c.stop(1)
	c.stop(2)
	c.eventually("a node without a controller that says so", func() bool {
		code, body := probe(adminAt, "/readyz")
		return code == 503 && strings.Contains(body, "no controller answers")
	})
	led, records := 0, []*kgo.Record{}
	for i := range 6 {
		topic := fmt.Sprint("t", i)
		if c.partition(0, topic).Leader == 1 {
			led++
		}
		records = append(records, &kgo.Record{Topic: topic, Value: []byte("v")})
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	for _, r := range cl.ProduceSync(ctx, records...) {
		if r.Err == nil {
			t.Errorf("%s: a write is acknowledged", r.Record.Topic)
		}
	}
	for name, want := range map[string]int{
		"controller_kafkacontroller_activebrokercount": 0, "controller_kafkacontroller_offlinepartitionscount": 6 - led,
		"server_replicamanager_underminisrpartitioncount": led, "server_replicamanager_leadercount": led,
	} {
		c.eventually(name, func() bool {
			_, body := probe(adminAt, "/metrics")
			return strings.Contains(body, fmt.Sprintf("\nkafka_%s %d\n", name, want))
		})
	}
	c.eventually("the end of the others", c.running[0].controller.Raft().MajorityGone)
	c.stop(0)
	log.require(t, "a majority of the metadata quorum has ended")
}
