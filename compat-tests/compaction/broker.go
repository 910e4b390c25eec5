// Package compaction has one stream of keys compacted by Apache Kafka and by us, and compares what is left on disk.
package compaction

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"grete/compat-tests/kafka"
)

const topic = "compacted"

// properties make the cleaner look often, and groups of segments small.
var properties = map[string]string{
	"log.cleaner.backoff.ms": "100", "log.segment.bytes": "1048576", "log.retention.ms": "-1",
	"log.segment.delete.delay.ms": "0", "log.initial.task.delay.ms": "500",
}

// subject is one of the two brokers.
type subject struct {
	broker *kafka.Broker
	client *kgo.Client
	end    int64 // offsets that were written
}

func start(ctx context.Context, run func(context.Context, kafka.Options) (*kafka.Broker, error), dir string) (*subject, error) {
	b, err := run(ctx, kafka.Options{Dir: dir, Properties: properties})
	if err != nil {
		return nil, err
	}
	s := &subject{broker: b}
	if s.client, err = s.newClient(); err != nil {
		return s, err
	}
	admin := kadm.NewClient(s.client)
	never, zero := "-1", "0"
	_, err = admin.CreateTopic(ctx, 1, 1, map[string]*string{"retention.ms": &never, "min.cleanable.dirty.ratio": &zero}, topic)
	return s, err
}

func (s *subject) stop() {
	if s.client != nil {
		s.client.Close()
	}
	_ = s.broker.Stop()
}

// newClient sends what is buffered as one batch, whole.
func (s *subject) newClient(opts ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(s.broker.Addr), kgo.DefaultProduceTopic(topic), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ManualFlushing(), kgo.ProducerBatchCompression(kgo.NoCompression()),
	}, opts...)...)
}

// configure sets topic properties.
func (s *subject) configure(ctx context.Context, values map[string]string) error {
	var changes []kadm.AlterConfig
	for name, value := range values {
		changes = append(changes, kadm.AlterConfig{Op: kadm.SetConfig, Name: name, Value: &value})
	}
	answers, err := kadm.NewClient(s.client).AlterTopicConfigs(ctx, changes, topic)
	if err == nil {
		_, err = answers.On(topic, func(r *kadm.AlterConfigsResponse) error { return r.Err })
	}
	return err
}

// awaitEnd waits until the log has n offsets more than before: markers are written behind a transaction's back.
func (s *subject) awaitEnd(ctx context.Context, n int) error {
	s.end += int64(n)
	return s.await(ctx, fmt.Sprintf("end offset %d", s.end), func() (bool, error) {
		ends, err := kadm.NewClient(s.client).ListEndOffsets(ctx, topic)
		if err != nil {
			return false, err
		}
		end, _ := ends.Lookup(topic, 0)
		if end.Offset > s.end {
			return false, fmt.Errorf("the log ends at %d, expected %d", end.Offset, s.end)
		}
		return end.Offset == s.end, end.Err
	})
}

func (s *subject) await(ctx context.Context, what string, done func() (bool, error)) error {
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if ok, err := done(); ok || err != nil {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return fmt.Errorf("%s: not within a minute; see %s", what, s.broker.LogPath)
}

// compact switches the topic to cleanup.policy=compact for one pass over everything below the active segment.
func (s *subject) compact(ctx context.Context) error {
	bases, err := s.segments()
	if err != nil {
		return err
	}
	active := bases[len(bases)-1]
	if err := s.configure(ctx, map[string]string{"cleanup.policy": "compact"}); err != nil {
		return err
	}
	err = s.await(ctx, fmt.Sprintf("compaction up to %d", active), func() (bool, error) {
		cleaned, err := s.cleaned()
		return cleaned == active, err
	})
	if err != nil {
		return err
	}
	return s.configure(ctx, map[string]string{"cleanup.policy": "delete"})
}

func (s *subject) dir() string { return filepath.Join(s.broker.DataDir, topic+"-0") }

// cleaned reads cleaner-offset-checkpoint; -1 when it says nothing.
func (s *subject) cleaned() (int64, error) {
	data, err := os.ReadFile(filepath.Join(s.broker.DataDir, "cleaner-offset-checkpoint"))
	if os.IsNotExist(err) {
		return -1, nil
	}
	for line := range strings.Lines(string(data)) {
		if offset, ok := strings.CutPrefix(strings.TrimSpace(line), topic+" 0 "); ok {
			return strconv.ParseInt(offset, 10, 64)
		}
	}
	return -1, err
}

func (s *subject) segments() ([]int64, error) {
	names, err := filepath.Glob(filepath.Join(s.dir(), "*.log"))
	var bases []int64
	for _, name := range names {
		base, err := strconv.ParseInt(strings.TrimSuffix(filepath.Base(name), ".log"), 10, 64)
		if err != nil {
			return nil, err
		}
		bases = append(bases, base)
	}
	slices.Sort(bases)
	return bases, err
}

// header is what of a batch on disk does not depend on the broker: producer ids are numbered by appearance, checksums
// and sizes left out.
type header struct {
	base, last           int64
	epoch                int32
	attributes           int16
	baseMs, maxMs        int64 // baseMs is 0 where it is a delete horizon
	producer             int
	producerEpoch        int16
	baseSequence, record int32
}

const deleteHorizonBit = 0x40

// headers reads the batches of all segments from disk.
func (s *subject) headers() ([]header, error) {
	bases, err := s.segments()
	if err != nil {
		return nil, err
	}
	producers := map[int64]int{-1: -1}
	var all []header
	for _, base := range bases {
		data, err := os.ReadFile(filepath.Join(s.dir(), fmt.Sprintf("%020d.log", base)))
		if err != nil {
			return nil, err
		}
		for len(data) >= 61 {
			size := 12 + int(binary.BigEndian.Uint32(data[8:]))
			if size > len(data) || size < 61 {
				return nil, fmt.Errorf("segment %d ends in the middle of a batch", base)
			}
			all = append(all, parseHeader(data, producers))
			data = data[size:]
		}
		if len(data) > 0 {
			return nil, fmt.Errorf("segment %d ends in %d bytes that are no batch", base, len(data))
		}
	}
	return all, nil
}

func parseHeader(b []byte, producers map[int64]int) header {
	be := binary.BigEndian
	pid := int64(be.Uint64(b[43:]))
	if _, known := producers[pid]; !known {
		producers[pid] = len(producers)
	}
	h := header{
		base: int64(be.Uint64(b)), epoch: int32(be.Uint32(b[12:])), attributes: int16(be.Uint16(b[21:])),
		baseMs: int64(be.Uint64(b[27:])), maxMs: int64(be.Uint64(b[35:])), producer: producers[pid],
		producerEpoch: int16(be.Uint16(b[51:])), baseSequence: int32(be.Uint32(b[53:])), record: int32(be.Uint32(b[57:])),
	}
	h.last = h.base + int64(be.Uint32(b[23:]))
	if h.attributes&deleteHorizonBit != 0 {
		h.baseMs = 0
	}
	if h.attributes&0x20 != 0 { // markers have the coordinator's time
		h.baseMs, h.maxMs = math.MaxInt64, math.MaxInt64
	}
	return h
}

// records consumes the log from its start, markers left out: what a read_committed consumer sees, as text.
func (s *subject) records(ctx context.Context) ([]string, error) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(s.broker.Addr), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}))
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	var all []string
	for {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, err
		}
		last := int64(-1)
		fetches.EachRecord(func(r *kgo.Record) {
			value := fmt.Sprintf("%.12q of %d bytes", r.Value, len(r.Value))
			if r.Value == nil {
				value = "null"
			}
			all = append(all, fmt.Sprintf("%d %q=%s at %d, headers %v", r.Offset, r.Key, value, r.Timestamp.UnixMilli(), r.Headers))
			last = r.Offset
		})
		if last == s.end-1 { // the stream ends in a record of the active segment
			return all, nil
		}
	}
}
