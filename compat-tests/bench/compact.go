package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	compactValueBytes = 500
	compactTimeout    = 10 * time.Minute
)

// compactLoad writes totalBytes of records of which half are overwritten later, and then has the log compacted: the
// time from cleanup.policy=compact to the new cleaner-offset-checkpoint. The first round also makes the cleaner look
// ten times a second.
func compactLoad(totalBytes int64) func(*target, int) (sample, error) {
	return func(t *target, round int) (sample, error) {
		ctx, cancel := context.WithTimeout(context.Background(), compactTimeout)
		defer cancel()
		cl, err := kgo.NewClient(kgo.SeedBrokers(t.addr), kgo.ProducerBatchCompression(kgo.NoCompression()),
			kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchMaxBytes(64<<10), kgo.DisableIdempotentWrite(), kgo.MaxBufferedRecords(1<<16))
		if err != nil {
			return sample{}, err
		}
		defer cl.Close()
		admin, topic := kadm.NewClient(cl), fmt.Sprint("compact-", round)
		if err := prepareCompact(ctx, admin, topic); err != nil {
			return sample{}, err
		}
		end, err := fillKeys(ctx, cl, topic, totalBytes)
		if err != nil {
			return sample{}, err
		}
		m := startMeter(t)
		if err := set(ctx, admin, topic, "cleanup.policy", "compact"); err != nil {
			return sample{}, err
		}
		for cleaned := ""; cleaned != fmt.Sprint(end); cleaned = t.cleaned(topic) {
			if ctx.Err() != nil {
				return sample{}, fmt.Errorf("%s was compacted up to %q of %d", topic, cleaned, end)
			}
			time.Sleep(10 * time.Millisecond)
		}
		s := m.sample(totalBytes)
		_, err = admin.DeleteTopics(ctx, topic)
		return s, err
	}
}

func prepareCompact(ctx context.Context, admin *kadm.Client, topic string) error {
	backoff := "100"
	if _, err := admin.AlterBrokerConfigs(ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "log.cleaner.backoff.ms", Value: &backoff}}); err != nil {
		return err
	}
	never, zero, segment := "-1", "0", fmt.Sprint(128<<20)
	created, err := admin.CreateTopic(ctx, 1, 1, map[string]*string{"retention.ms": &never, "min.cleanable.dirty.ratio": &zero, "segment.bytes": &segment}, topic)
	if err == nil {
		err = created.Err
	}
	return err
}

func set(ctx context.Context, admin *kadm.Client, topic, name, value string) error {
	answers, err := admin.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: name, Value: &value}}, topic)
	if err == nil {
		_, err = answers.On(topic, func(r *kadm.AlterConfigsResponse) error { return r.Err })
	}
	return err
}

// fillKeys writes totalBytes and then one record that begins a new segment, whose offset it returns.
func fillKeys(ctx context.Context, cl *kgo.Client, topic string, totalBytes int64) (int64, error) {
	rng := rand.New(rand.NewPCG(1, 2))
	n := totalBytes / compactValueBytes
	var failed error
	text := make([]byte, 1<<20)
	for i := range text {
		text[i] = "0123456789abcdef"[rng.IntN(16)]
	}
	for range n {
		at := rng.IntN(len(text) - compactValueBytes)
		r := &kgo.Record{Topic: topic, Key: binary.BigEndian.AppendUint64(nil, rng.Uint64N(uint64(n)/2)), Value: text[at:][:compactValueBytes]}
		cl.Produce(ctx, r, func(_ *kgo.Record, err error) {
			if err != nil {
				failed = err
			}
		})
	}
	if err := cl.Flush(ctx); err != nil || failed != nil {
		return 0, fmt.Errorf("filling: %v, %v", err, failed)
	}
	admin := kadm.NewClient(cl)
	if err := set(ctx, admin, topic, "segment.ms", "1"); err != nil {
		return 0, err
	}
	time.Sleep(50 * time.Millisecond)
	last, err := cl.ProduceSync(ctx, &kgo.Record{Topic: topic, Key: []byte("last"), Value: []byte("active")}).First()
	if err != nil {
		return 0, err
	}
	return last.Offset, set(ctx, admin, topic, "segment.ms", "86400000")
}

// cleaned is what the target's cleaner-offset-checkpoint says of topic, "" if nothing.
func (t *target) cleaned(topic string) string {
	data, _ := os.ReadFile(filepath.Join(t.dataDir, "cleaner-offset-checkpoint"))
	for line := range strings.Lines(string(data)) {
		if offset, ok := strings.CutPrefix(line, topic+" 0 "); ok {
			return strings.TrimSpace(offset)
		}
	}
	return ""
}
