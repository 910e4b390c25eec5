// Package faults is hostile to a running broker: bad input, floods, damaged files, full disks, killed processes. After
// each the next good client must be served.
package faults

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/compat-tests/kafka"
)

// patience is how long anything that should happen at once may take on a busy machine.
const patience = 20 * time.Second

// long is whether the tests at their full size are wanted.
var long = os.Getenv("GRETE_LONG") != ""

type properties = map[string]string

// start runs a broker in a directory of its own.
func start(t *testing.T, p properties) *kafka.Broker {
	t.Helper()
	return startIn(t, t.TempDir(), p)
}

// startIn runs a broker in dir, again on the same data when there is some.
func startIn(t *testing.T, dir string, p properties) *kafka.Broker {
	t.Helper()
	return startUnder(t, dir, p)
}

// startUnder is startIn by way of another command.
func startUnder(t *testing.T, dir string, p properties, under ...string) *kafka.Broker {
	t.Helper()
	all := properties{
		"offsets.topic.num.partitions": "4", "transaction.state.log.num.partitions": "4", "group.initial.rebalance.delay.ms": "0",
	}
	for k, v := range p {
		all[k] = v
	}
	b, err := kafka.StartGrete(context.Background(), kafka.Options{Dir: dir, Properties: all, Under: under})
	kafka.SkipOrFail(t, err)
	t.Cleanup(func() {
		_ = b.Kill()
		if t.Failed() {
			t.Logf("the broker's log:\n%s", lastLines(logOf(b), 40))
		}
	})
	return b
}

// dirOf is what startIn was given.
func dirOf(b *kafka.Broker) string { return strings.TrimSuffix(b.LogPath, "/broker.log") }

func logOf(b *kafka.Broker) string {
	text, _ := os.ReadFile(b.LogPath)
	return string(text)
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// rssBytes is the resident memory of a broker.
func rssBytes(t *testing.T, b *kafka.Broker) int64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", b.Pid()))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return kib << 10
}

// peakBytes is the most that was ever resident.
func peakBytes(t *testing.T, b *kafka.Broker) int64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", b.Pid()))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return kib << 10
}

// openFiles is how many descriptors a broker has.
func openFiles(t *testing.T, b *kafka.Broker) int {
	t.Helper()
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", b.Pid()))
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

func dial(t *testing.T, b *kafka.Broker) *net.TCPConn {
	t.Helper()
	nc, err := net.DialTimeout("tcp", b.Addr, patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	_ = nc.SetDeadline(time.Now().Add(patience))
	return nc.(*net.TCPConn)
}

// requestFrame is a whole request of a version.
func requestFrame(version int16, req kmsg.Request) []byte {
	req.SetVersion(version)
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID("faults")).AppendRequest(nil, req, 7)
}

// bodyFrame is the right header for a key and version before any body.
func bodyFrame(key, version int16, body []byte) []byte {
	b := binary.BigEndian.AppendUint16(make([]byte, 4), uint16(key))
	b = binary.BigEndian.AppendUint16(b, uint16(version))
	b = append(b, 0, 0, 0, 7, 0xff, 0xff)
	if req := kmsg.RequestForKey(key); req != nil {
		if req.SetVersion(version); req.IsFlexible() {
			b = append(b, 0)
		}
	}
	b = append(b, body...)
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

func send(t *testing.T, nc net.Conn, frame []byte) {
	t.Helper()
	if _, err := nc.Write(frame); err != nil {
		t.Fatal(err)
	}
}

// readAnswer reads a response frame without its length; an error when the broker closed.
func readAnswer(nc net.Conn) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(nc, size[:]); err != nil {
		return nil, err
	}
	body := make([]byte, binary.BigEndian.Uint32(size[:]))
	_, err := io.ReadFull(nc, body)
	return body, err
}

// call sends a request and decodes its answer.
func call[R kmsg.Response](t *testing.T, nc net.Conn, version int16, req kmsg.Request) R {
	t.Helper()
	resp, err := try[R](nc, version, req)
	if err != nil {
		t.Fatalf("%s v%d: %v", kmsg.NameForKey(req.Key()), version, err)
	}
	return resp
}

func try[R kmsg.Response](nc net.Conn, version int16, req kmsg.Request) (resp R, err error) {
	if _, err = nc.Write(requestFrame(version, req)); err != nil {
		return resp, err
	}
	body, err := readAnswer(nc)
	if err != nil {
		return resp, err
	}
	resp = req.ResponseKind().(R)
	body = body[4:]
	if resp.IsFlexible() && resp.Key() != 18 {
		body = body[1:]
	}
	return resp, resp.ReadFrom(body)
}

// assertClosed fails unless the broker ends the connection within d, with nothing answered before.
func assertClosed(t *testing.T, nc net.Conn, d time.Duration) {
	t.Helper()
	_ = nc.SetReadDeadline(time.Now().Add(d))
	got, err := io.ReadAll(nc)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("still open after %v", d)
	} else if len(got) > 0 {
		t.Errorf("answered %x", got)
	}
}

func client(t *testing.T, b *kafka.Broker, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(b.Addr)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

var goodTopics atomic.Int64

// assertServes fails unless a good client can create a topic, produce, and read what it wrote.
func assertServes(t *testing.T, b *kafka.Broker) {
	t.Helper()
	topic := fmt.Sprintf("good-%d", goodTopics.Add(1))
	createTopic(t, b, topic, 1, nil)
	cl := client(t, b, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer cl.Close()
	ctx := within(t, patience)
	if err := cl.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte(topic)}).FirstErr(); err != nil {
		t.Fatalf("a good client cannot produce: %v", err)
	}
	fetches := cl.PollFetches(ctx)
	if err := fetches.Err(); err != nil {
		t.Fatalf("a good client cannot fetch: %v", err)
	}
	if r := fetches.Records(); len(r) != 1 || !bytes.Equal(r[0].Value, []byte(topic)) {
		t.Fatalf("a good client read %v", r)
	}
}

func createTopic(t *testing.T, b *kafka.Broker, name string, partitions int32, configs map[string]string) {
	t.Helper()
	if code := tryCreateTopic(t, b, name, partitions, configs); code != 0 {
		t.Fatalf("create %q: error %d", name, code)
	}
}

func tryCreateTopic(t *testing.T, b *kafka.Broker, name string, partitions int32, configs map[string]string) int16 {
	t.Helper()
	nc := dial(t, b)
	defer nc.Close()
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = 15_000
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, partitions, 1
	for k, v := range configs {
		topic.Configs = append(topic.Configs, kmsg.CreateTopicsRequestTopicConfig{Name: k, Value: &v})
	}
	req.Topics = append(req.Topics, topic)
	return call[*kmsg.CreateTopicsResponse](t, nc, 5, req).Topics[0].ErrorCode
}

func deleteTopic(t *testing.T, b *kafka.Broker, name string) int16 {
	t.Helper()
	nc := dial(t, b)
	defer nc.Close()
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.TimeoutMillis, req.TopicNames = 10_000, []string{name}
	return call[*kmsg.DeleteTopicsResponse](t, nc, 5, req).Topics[0].ErrorCode
}

// produceTo sends one batch's bytes and returns the partition's answer.
func produceTo(t *testing.T, nc net.Conn, topic string, records []byte) kmsg.ProduceResponseTopicPartition {
	t.Helper()
	return call[*kmsg.ProduceResponse](t, nc, 9, produceRequest(topic, records)).Topics[0].Partitions[0]
}

func produceRequest(topic string, records []byte) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = -1, 5000
	part := kmsg.NewProduceRequestTopicPartition()
	part.Records = records
	pt := kmsg.NewProduceRequestTopic()
	pt.Topic, pt.Partitions = topic, []kmsg.ProduceRequestTopicPartition{part}
	req.Topics = []kmsg.ProduceRequestTopic{pt}
	return req
}

// latest is the log end of partition 0.
func latest(t *testing.T, b *kafka.Broker, topic string) int64 {
	t.Helper()
	nc := dial(t, b)
	defer nc.Close()
	req := kmsg.NewPtrListOffsetsRequest()
	part := kmsg.NewListOffsetsRequestTopicPartition()
	part.Timestamp = -1
	lt := kmsg.NewListOffsetsRequestTopic()
	lt.Topic, lt.Partitions = topic, []kmsg.ListOffsetsRequestTopicPartition{part}
	req.ReplicaID, req.Topics = -1, []kmsg.ListOffsetsRequestTopic{lt}
	p := call[*kmsg.ListOffsetsResponse](t, nc, 5, req).Topics[0].Partitions[0]
	if p.ErrorCode != 0 {
		t.Fatalf("ListOffsets of %s: error %d", topic, p.ErrorCode)
	}
	return p.Offset
}

// waitFor polls until ok, for what happens beside the requests.
func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("%s: not within %v", what, patience)
}

// signal sends a signal to the broker alone.
func signal(t *testing.T, b *kafka.Broker, s syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(b.Pid(), s); err != nil {
		t.Fatal(err)
	}
}
