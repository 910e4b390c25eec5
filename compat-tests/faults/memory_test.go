package faults

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/compat-tests/kafka"
)

// smallMachine is what brokers of these tests may use.
const smallMachine = 512 << 20

// limited is a command that runs another in a control group of so many bytes; the test is skipped where none can be
// made.
func limited(t *testing.T, bytes int64) []string {
	t.Helper()
	own, file := ownGroup()
	if own == "" {
		t.Skip("no control group with a memory controller")
	}
	dir := filepath.Join(own, fmt.Sprintf("faults-%d-%d", os.Getpid(), goodTopics.Add(1)))
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Skip("no control group can be made: ", err)
	}
	t.Cleanup(func() {
		waitFor(t, "the control group to be empty", func() bool { return os.Remove(dir) == nil })
	})
	if err := os.WriteFile(filepath.Join(dir, file), strconv.AppendInt(nil, bytes, 10), 0o644); err != nil {
		t.Skip("the control group takes no limit: ", err)
	}
	return []string{"sh", "-c", `echo $$ > "$0/cgroup.procs" && exec "$@"`, dir}
}

// ownGroup is this process's control group for memory, of version 1 or 2, and its file with the limit.
func ownGroup() (dir, file string) {
	text, _ := os.ReadFile("/proc/self/cgroup")
	for line := range strings.Lines(string(text)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		for _, c := range []struct{ controllers, point, file string }{
			{"memory", "/sys/fs/cgroup/memory", "memory.limit_in_bytes"}, {"", "/sys/fs/cgroup", "memory.max"},
		} {
			dir := filepath.Join(c.point, parts[2])
			if _, err := os.Stat(filepath.Join(dir, c.file)); err == nil && parts[1] == c.controllers {
				return dir, c.file
			}
		}
	}
	return "", ""
}

// startSmall runs a broker with default settings where there is little memory.
func startSmall(t *testing.T, p properties) *kafka.Broker {
	t.Helper()
	return startWith(t, t.TempDir(), p, smallMachine)
}

// startWith runs a broker in dir, where there is so much memory.
func startWith(t *testing.T, dir string, p properties, memoryBytes int64) *kafka.Broker {
	t.Helper()
	b := startUnder(t, dir, p, limited(t, memoryBytes)...)
	waitFor(t, "the limit to be known", func() bool {
		return strings.Contains(logOf(b), fmt.Sprintf(`"memory":%d,`, memoryBytes))
	})
	return b
}

// metricSum is the sum of what a broker shows of a metric, over its labels.
func metricSum(t *testing.T, b *kafka.Broker, name string) (sum float64) {
	t.Helper()
	found := adminAddress.FindAllStringSubmatch(logOf(b), -1)
	if len(found) == 0 {
		t.Fatal("the broker tells no address of its metrics")
	}
	resp, err := http.Get("http://" + found[len(found)-1][1] + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		line := lines.Text()
		if rest, ok := strings.CutPrefix(line, name); ok && (rest[0] == ' ' || rest[0] == '{') {
			v, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64)
			if err != nil {
				t.Fatal(err)
			}
			sum += v
		}
	}
	return sum
}

var adminAddress = regexp.MustCompile(`"address":"([^"]*)"[^\n]*"message":"metrics and health"`)

// assertLives fails when the broker has ended.
func assertLives(t *testing.T, b *kafka.Broker) {
	t.Helper()
	select {
	case <-b.Done():
		t.Fatalf("the broker has ended with %d", b.ExitCode())
	default:
	}
	assertServes(t, b)
}

// steadyFor produces one record after the other for length, each acknowledged before the next, and tells how long they
// took, in order.
func steadyFor(t *testing.T, b *kafka.Broker, topic string, length time.Duration) (took []time.Duration) {
	t.Helper()
	cl := client(t, b, kgo.DefaultProduceTopic(topic), kgo.ProducerLinger(0))
	defer cl.Close()
	for end := time.Now().Add(length); time.Now().Before(end); {
		began := time.Now()
		if err := cl.ProduceSync(context.Background(), kgo.StringRecord("a good record")).FirstErr(); err != nil {
			t.Fatalf("a good client: %v", err)
		}
		took = append(took, time.Since(began))
		time.Sleep(time.Millisecond)
	}
	slices.Sort(took)
	return took
}

// stallFrames opens connections that each claim a frame, send a part of it and stall.
func stallFrames(t *testing.T, b *kafka.Broker, connections, claimed, sent int) (end func()) {
	t.Helper()
	piece := make([]byte, 1<<20)
	var open []net.Conn
	for range connections {
		nc, err := net.Dial("tcp", b.Addr)
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, nc)
		go func() {
			_, err := nc.Write(binary.BigEndian.AppendUint32(nil, uint32(claimed)))
			for at := 0; at < sent && err == nil; at += len(piece) {
				_, err = nc.Write(piece)
			}
		}()
	}
	return func() {
		for _, nc := range open {
			nc.Close()
		}
	}
}

// Connections that claim the largest frames and stall neither end the broker nor hold up a good client.
func TestStalledLargeFramesInLittleMemory(t *testing.T) {
	b := startSmall(t, nil)
	createTopic(t, b, "good", 1, nil)
	before := steadyFor(t, b, "good", 2*time.Second)
	usual := before[len(before)*99/100] // of this machine, however busy it is
	end := stallFrames(t, b, 60, 100_000_000, 90_000_000)
	defer end()
	length := 8 * time.Second
	if long {
		length = time.Minute
	}
	took := steadyFor(t, b, "good", length)
	p99 := took[len(took)*99/100]
	t.Logf("%d records, p50 %v, p99 %v, longest %v; at most %d MiB were resident", len(took), took[len(took)/2], p99, took[len(took)-1], peakBytes(t, b)>>20)
	if p99 > 50*time.Millisecond+10*usual {
		t.Errorf("a good client's p99 is %v, usually %v", p99, usual)
	}
	assertLives(t, b)
}

// With much memory the same connections get little of it, and a minute later all of that is back.
func TestStalledLargeFramesGiveMemoryBack(t *testing.T) {
	if !long {
		t.Skip("takes two minutes; GRETE_LONG=1 runs it")
	}
	b := start(t, nil)
	end := stallFrames(t, b, 60, 100_000_000, 90_000_000)
	time.Sleep(30 * time.Second)
	peak := peakBytes(t, b)
	end()
	time.Sleep(time.Minute)
	left := rssBytes(t, b)
	t.Logf("at most %d MiB resident, %d MiB a minute after", peak>>20, left>>20)
	if peak > 1536<<20 || left > 200<<20 {
		t.Error("too much")
	}
	assertLives(t, b)
}

// Many topics, described to peers that ask again and again and never read.
func TestUnreadMetadataInLittleMemory(t *testing.T) {
	b := startSmall(t, properties{"num.partitions": "1"})
	nc := dial(t, b)
	_ = nc.SetDeadline(time.Now().Add(3 * time.Minute))
	for first := 0; first < 20_000; first += 2000 {
		req := kmsg.NewPtrCreateTopicsRequest()
		req.TimeoutMillis = 60_000
		for i := range 2000 {
			topic := kmsg.NewCreateTopicsRequestTopic()
			topic.Topic, topic.NumPartitions, topic.ReplicationFactor = fmt.Sprintf("a-topic-with-a-name-of-some-length-%06d", first+i), 1, 1
			req.Topics = append(req.Topics, topic)
		}
		call[*kmsg.CreateTopicsResponse](t, nc, 5, req)
	}
	ask := requestFrame(9, kmsg.NewPtrMetadataRequest())
	var all []byte
	for range 100 {
		all = append(all, ask...)
	}
	var open []net.Conn
	for range 250 {
		peer, err := net.Dial("tcp", b.Addr)
		if err != nil {
			t.Fatal(err)
		}
		send(t, peer, all)
		open = append(open, peer)
	}
	time.Sleep(5 * time.Second)
	t.Logf("at most %d MiB were resident", peakBytes(t, b)>>20)
	assertLives(t, b)
	for _, peer := range open {
		peer.Close()
	}
	assertLives(t, b)
}

// A Fetch names a million partitions that are not there, four times: each is answered, and the broker lives.
func TestFetchOfAbsentPartitionsInLittleMemory(t *testing.T) {
	b := startSmall(t, nil)
	createTopic(t, b, "there", 1, nil)
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis, req.MaxBytes = 0, 1<<20
	topic := kmsg.NewFetchRequestTopic()
	topic.Topic = "absent"
	for p := range int32(1_000_000) {
		part := kmsg.NewFetchRequestTopicPartition()
		part.Partition, part.PartitionMaxBytes = p, 1<<20
		topic.Partitions = append(topic.Partitions, part)
	}
	req.Topics = append(req.Topics, topic)
	for range 4 {
		nc := dial(t, b)
		_ = nc.SetDeadline(time.Now().Add(time.Minute))
		began := time.Now()
		answer := call[*kmsg.FetchResponse](t, nc, 11, req)
		t.Logf("answered in %v, session %d, %d MiB resident", time.Since(began).Round(time.Millisecond), answer.SessionID, rssBytes(t, b)>>20)
		if len(answer.Topics) != 1 || len(answer.Topics[0].Partitions) != 1_000_000 || answer.Topics[0].Partitions[77].ErrorCode != 3 {
			t.Fatalf("%d topics in the answer", len(answer.Topics))
		}
	}
	assertLives(t, b)
}
