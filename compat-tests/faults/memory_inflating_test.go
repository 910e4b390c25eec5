package faults

import (
	"encoding/binary"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/compat-tests/kafka"
)

// keyedRecord is a record with a key and a value of n zeros.
func keyedRecord(key string, n int) []byte {
	b := []byte{0, 0, 0} // attributes, timestamp, offset
	b = append(binary.AppendVarint(b, int64(len(key))), key...)
	b = append(binary.AppendVarint(b, int64(n)), make([]byte, n)...)
	b = append(b, 0)
	return append(binary.AppendVarint(nil, int64(len(b))), b...)
}

// inflating is a batch of one record of n zeros, compressed.
func inflating(n int) []byte {
	return goodBatch(nil).with(func(b *rawBatch) { b.codec, b.payload = codecZstd, compress(codecZstd, keyedRecord("a", n)) }).bytes()
}

func produceOnce(t *testing.T, b *kafka.Broker, topic string, records []byte) int16 {
	t.Helper()
	nc := dial(t, b)
	defer nc.Close()
	_ = nc.SetDeadline(time.Now().Add(2 * time.Minute))
	return call[*kmsg.ProduceResponse](t, nc, 9, produceRequest(topic, records)).Topics[0].Partitions[0].ErrorCode
}

// Records that inflate thirty-thousandfold to more than compaction may hold make their log uncleanable: one line says
// so, the gauge counts it, the rest is served, after a restart too. (Without the bound the broker was killed by its
// control group, again after each start.)
func TestCompactionOfInflatingRecordsInLittleMemory(t *testing.T) {
	for _, c := range []struct {
		name            string
		memory          int64
		inflated        int
		maxMessageBytes string
		long            bool
	}{
		{"120 MiB in 512", 512 << 20, 120 << 20, "1048588", false},
		{"900 MiB in 2048", 2 << 30, 900 << 20, "10000000", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.long && !long {
				t.Skip("GRETE_LONG=1 runs it")
			}
			p := properties{"log.cleaner.backoff.ms": "200", "log.segment.bytes": "1048576"}
			b := startWith(t, t.TempDir(), p, c.memory)
			createTopic(t, b, "compacted", 1, properties{
				"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "segment.ms": "500", "max.message.bytes": c.maxMessageBytes,
			})
			bomb := inflating(c.inflated)
			for range 6 {
				if code := produceOnce(t, b, "compacted", bomb); code != 0 {
					t.Fatalf("error %d", code)
				}
			}
			waitFor(t, "the segment to roll", func() bool {
				small := goodBatch(nil).with(func(b *rawBatch) { b.payload = keyedRecord("b", 10) }).bytes() // of now
				return produceOnce(t, b, "compacted", small) == 0 && strings.Contains(logOf(b), "compaction failed")
			})
			assertUncleanable(t, b, 1)
			_ = b.Kill()
			b = startWith(t, dirOf(b), p, c.memory)
			waitFor(t, "compaction after the restart", func() bool { return strings.Count(logOf(b), "inflate to more than may be held in memory") >= 2 })
			assertUncleanable(t, b, 2)
		})
	}
}

// assertUncleanable fails unless the broker counts one log that cannot be compacted, has said so in that many lines
// over all its starts, and lives.
func assertUncleanable(t *testing.T, b *kafka.Broker, lines int) {
	t.Helper()
	waitFor(t, "the gauge", func() bool { return metricSum(t, b, "kafka_log_logcleanermanager_uncleanable_partitions_count") == 1 })
	time.Sleep(time.Second) // in which nothing may be said again
	if n := strings.Count(logOf(b), "inflate to more than may be held in memory"); n != lines {
		t.Errorf("%d lines say that the log cannot be compacted, want %d", n, lines)
	}
	assertLives(t, b)
	t.Logf("at most %d MiB were resident", peakBytes(t, b)>>20)
}

// Many records that inflate a thousandfold are compressed anew in turn.
func TestConversionOfInflatingRecordsInLittleMemory(t *testing.T) {
	b := startSmall(t, nil)
	createTopic(t, b, "converted", 1, properties{"compression.type": "gzip"})
	large := inflating(30 << 20)
	answers := make(chan int16, 40)
	for range cap(answers) {
		go func() {
			nc, err := net.Dial("tcp", b.Addr)
			if err != nil {
				answers <- -100
				return
			}
			defer nc.Close()
			resp, err := try[*kmsg.ProduceResponse](nc, 9, produceRequest("converted", large))
			if err != nil {
				answers <- -101
				return
			}
			answers <- resp.Topics[0].Partitions[0].ErrorCode
		}()
	}
	for range cap(answers) {
		if code := <-answers; code != 0 {
			t.Errorf("converted: error %d", code)
		}
	}
	t.Logf("at most %d MiB were resident", peakBytes(t, b)>>20)
	assertLives(t, b)
}
