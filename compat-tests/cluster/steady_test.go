package cluster

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"grete/compat-tests/kafka"
)

// steady is a stock client with its default settings that writes to a topic, or reads it in a group, all the time. What
// happens to it comes as events of Kafka's verifiable clients.
type steady struct {
	name, topic, group string
	end                func() // asks it to end, and waits

	mu     sync.Mutex
	events []event
}

// event is what a verifiable client says; others say it in the same words.
type event struct {
	Name      string `json:"name"`
	Timestamp int64  `json:"timestamp"` // milliseconds
	Message   string `json:"message"`
	Exception string `json:"exception"`
	Count     int    `json:"count"`
	Success   bool   `json:"success"`
	Error     string `json:"error"`
	Offsets   []struct {
		Topic     string `json:"topic"`
		Partition int32  `json:"partition"`
		Offset    int64  `json:"offset"`
	} `json:"offsets"`
}

func (s *steady) say(e event) {
	if e.Timestamp == 0 {
		e.Timestamp = time.Now().UnixMilli()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, e)
}

func (s *steady) all(names ...string) (out []event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.events {
		if slices.Contains(names, e.Name) {
			out = append(out, e)
		}
	}
	return out
}

// read takes JSON lines until out ends.
func (s *steady) read(out io.Reader) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) == nil && e.Name != "" {
			s.say(e)
		}
	}
}

// run has the events of a program that ends on stop.
func (s *steady) run(t *testing.T, cmd *exec.Cmd, stop func() error) *steady {
	t.Helper()
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	var reading sync.WaitGroup
	reading.Go(func() { s.read(out) })
	var once sync.Once
	s.end = func() {
		once.Do(func() {
			_ = stop()
			hung := time.AfterFunc(30*time.Second, func() { _ = cmd.Process.Kill() })
			defer hung.Stop()
			reading.Wait()
			_ = cmd.Wait()
			if t.Failed() {
				t.Logf("%s said:\n%.4000s", s.name, said.String())
			}
		})
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); s.end() })
	return s
}

const (
	verifiableProducer = "org.apache.kafka.tools.VerifiableProducer"
	verifiableConsumer = "org.apache.kafka.tools.VerifiableConsumer"
)

// javaSteady are Kafka's verifiable producer and consumers of both protocols.
func (r *rig) javaSteady(topic string) []*steady {
	r.t.Helper()
	java, err := kafka.Java()
	kafka.SkipOrFail(r.t, err)
	libs, err := kafka.Libs(r.ctx)
	kafka.SkipOrFail(r.t, err)
	addrs := strings.Join(r.Addrs(), ",")
	run := func(name, class string, args ...string) *steady {
		flags := []string{"-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", filepath.Join(libs, "*"), class,
			"--bootstrap-server", addrs, "--topic", topic}
		cmd := exec.Command(java, append(flags, args...)...)
		s := &steady{name: name, topic: topic, group: name}
		return s.run(r.t, cmd, func() error { return cmd.Process.Signal(syscall.SIGTERM) })
	}
	retries := filepath.Join(r.t.TempDir(), "producer.properties") // the tool has set them to 0, which is not Kafka's default
	if err := os.WriteFile(retries, []byte("retries=2147483647\n"), 0o644); err != nil {
		r.t.Fatal(err)
	}
	return []*steady{
		run("java-producer", verifiableProducer, "--throughput", "100", "--producer.config", retries),
		run("java-classic", verifiableConsumer, "--group-id", "java-classic", "--group-protocol", "classic", "--reset-policy", "earliest"),
		run("java-consumer", verifiableConsumer, "--group-id", "java-consumer", "--group-protocol", "consumer", "--reset-policy", "earliest"),
	}
}

// rdkafkaSteady is a producer and a consumer of librdkafka in one process.
func (r *rig) rdkafkaSteady(topic string) []*steady {
	r.t.Helper()
	python, err := kafka.Python("confluent", "confluent-kafka")
	kafka.SkipOrFail(r.t, err)
	cmd := exec.Command(python, "steady.py", strings.Join(r.Addrs(), ","), topic, "rdkafka")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		r.t.Fatal(err)
	}
	s := &steady{name: "rdkafka", topic: topic, group: "rdkafka"}
	return []*steady{s.run(r.t, cmd, stdin.Close)}
}

// franzSteady is a producer and a consumer of franz-go.
func (r *rig) franzSteady(topic string) []*steady {
	r.t.Helper()
	s := &steady{name: "franz", topic: topic, group: "franz"}
	producer, err := kgo.NewClient(kgo.SeedBrokers(r.Addrs()...), kgo.DefaultProduceTopic(topic))
	if err != nil {
		r.t.Fatal(err)
	}
	consumer, err := kgo.NewClient(kgo.SeedBrokers(r.Addrs()...), kgo.ConsumerGroup(s.group), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, m map[string][]int32) {
			if len(m) > 0 {
				s.say(event{Name: "partitions_assigned"})
			}
		}),
		kgo.OnPartitionsLost(func(context.Context, *kgo.Client, map[string][]int32) { s.say(event{Name: "partitions_revoked"}) }))
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(r.ctx)
	var running sync.WaitGroup
	running.Go(func() { s.produce(ctx, producer) })
	running.Go(func() { s.consume(ctx, consumer) })
	var once sync.Once
	s.end = func() {
		once.Do(func() {
			cancel()
			running.Wait()
			producer.Close()
			consumer.Close()
		})
	}
	r.t.Cleanup(s.end)
	return []*steady{s}
}

func (s *steady) produce(ctx context.Context, cl *kgo.Client) {
	for n := 0; ctx.Err() == nil; n++ {
		cl.Produce(context.WithoutCancel(ctx), kgo.StringRecord(fmt.Sprint(n)), func(_ *kgo.Record, err error) {
			if err != nil {
				s.say(event{Name: "producer_send_error", Message: err.Error()})
				return
			}
			s.say(event{Name: "producer_send_success"})
		})
		time.Sleep(5 * time.Millisecond)
	}
	_ = cl.Flush(context.WithoutCancel(ctx))
}

func (s *steady) consume(ctx context.Context, cl *kgo.Client) {
	for ctx.Err() == nil {
		fetches := cl.PollFetches(ctx)
		fetches.EachError(func(_ string, _ int32, err error) {
			if ctx.Err() == nil {
				s.say(event{Name: "client_error", Message: err.Error()})
			}
		})
		records := fetches.Records()
		if len(records) == 0 {
			continue
		}
		s.say(event{Name: "records_consumed", Count: len(records)})
		done := event{Name: "offsets_committed", Success: true}
		if err := cl.CommitRecords(context.WithoutCancel(ctx), records...); err != nil {
			done.Success, done.Error = false, err.Error()
		}
		last := records[len(records)-1]
		done.Offsets = append(done.Offsets, struct {
			Topic     string `json:"topic"`
			Partition int32  `json:"partition"`
			Offset    int64  `json:"offset"`
		}{last.Topic, last.Partition, last.Offset + 1})
		s.say(done)
	}
}

// settled: it is acknowledged writes, and commits what it reads, as far as it does either.
func (s *steady) settled() bool {
	return len(s.all("producer_send_success")) > 20 || s.commits() > 3
}

func (s *steady) commits() int { return len(s.all("offsets_committed")) }

// gaps are the times without an acknowledgement since from that are worth telling, with when they ended.
func (s *steady) gaps(from time.Time) (longest time.Duration, told []string) {
	acks := s.all("producer_send_success")
	for i := 1; i < len(acks); i++ {
		gap := time.Duration(acks[i].Timestamp-acks[i-1].Timestamp) * time.Millisecond
		if acks[i].Timestamp < from.UnixMilli() || gap < 50*time.Millisecond {
			continue
		}
		longest = max(longest, gap)
		told = append(told, fmt.Sprintf("%v at %v", gap, time.UnixMilli(acks[i].Timestamp).Sub(from).Round(time.Millisecond)))
	}
	return longest, told
}

// undisturbed wants no error, no rebalance since it settled, and no commit lost.
func (s *steady) undisturbed(r *rig, settled time.Time) {
	r.t.Helper()
	for _, e := range s.all("producer_send_error", "client_error") {
		r.t.Errorf("%s: %s %s %s", s.name, e.Name, e.Message, e.Exception)
	}
	for _, e := range s.all("partitions_revoked", "partitions_assigned") {
		if e.Timestamp > settled.UnixMilli() {
			r.t.Errorf("%s: %s", s.name, e.Name)
		}
	}
	var committed int64
	for _, e := range s.all("offsets_committed") {
		if !e.Success {
			r.t.Errorf("%s: commit failed: %s", s.name, e.Error)
		}
		for _, o := range e.Offsets {
			committed = max(committed, o.Offset)
		}
	}
	if s.commits() == 0 {
		return
	}
	r.eventually("committed offsets of "+s.group, func() bool {
		kept, err := r.adm.FetchOffsets(r.ctx, s.group)
		if o, _ := kept.Lookup(s.topic, 0); err == nil && o.At < committed {
			r.t.Errorf("%s: committed %d, and %d is there", s.name, committed, o.At)
		}
		return err == nil
	})
}
