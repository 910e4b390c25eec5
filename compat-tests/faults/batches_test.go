package faults

import (
	"bytes"
	"encoding/binary"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/compat-tests/kafka"
)

const (
	corruptMessage      = 2
	messageTooLarge     = 10
	invalidTopic        = 17
	recordListTooLarge  = 18
	invalidTimestamp    = 32
	invalidRecord       = 87
	unknownServerError  = -1
	storageError        = 56
	topicAlreadyExists  = 36
	invalidRequest      = 42
	unknownTopic        = 3
	fetchSessionUnknown = 70
)

// Names that are no topic's are refused, and no path outside the data directory is touched.
func TestTopicNames(t *testing.T) {
	b := start(t, nil)
	outside := entries(t, dirOf(b))
	inside := entries(t, b.DataDir)
	for _, name := range []string{"", ".", "..", "../x", "../../etc/x", "a/b", "/etc/x", "x\x00", "\x00", "ä", "a b", "a\n", string(bytes.Repeat([]byte("x"), 250)), "__cluster_metadata"} {
		if code := tryCreateTopic(t, b, name, 1, nil); code != invalidTopic && (name != "__cluster_metadata" || code != invalidRequest) {
			t.Errorf("create %q: %d", name, code)
		}
		nc := dial(t, b)
		if p := produceTo(t, nc, name, goodBatch([]byte("v")).bytes()); p.ErrorCode == 0 {
			t.Errorf("produce to %q is accepted", name)
		}
		metadata := kmsg.NewPtrMetadataRequest()
		metadata.AllowAutoTopicCreation, metadata.Topics = true, []kmsg.MetadataRequestTopic{{Topic: &name}}
		for range 2 {
			if answer := call[*kmsg.MetadataResponse](t, nc, 9, metadata).Topics[0]; answer.ErrorCode == 0 {
				t.Errorf("%q was created by asking for it", name)
			}
		}
	}
	if now := entries(t, dirOf(b)); !slices.Equal(now, outside) {
		t.Errorf("beside the data directory: %q, then %q", outside, now)
	}
	if now := entries(t, b.DataDir); !slices.Equal(now, inside) {
		t.Errorf("in the data directory: %q, then %q", inside, now)
	}
	createTopic(t, b, string(bytes.Repeat([]byte("x"), 249)), 1, nil)
	createTopic(t, b, "a_b", 1, nil)
	if code := tryCreateTopic(t, b, "a.b", 1, nil); code != invalidTopic {
		t.Errorf("a.b beside a_b: %d", code)
	}
	assertServes(t, b)
}

func entries(t *testing.T, dir string) []string {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

// Batches whose fields lie are refused with Kafka's code, and nothing of them is stored.
func TestLyingBatches(t *testing.T) {
	b := start(t, nil)
	createTopic(t, b, "lies", 1, map[string]string{"max.message.bytes": "100000", "segment.bytes": "1048576"})
	v := []byte("value")
	hugeRecord := func(length int64) []byte { return append(binary.AppendVarint(nil, length), recordBytes(0, v)...) }
	cases := map[string]struct {
		records []byte
		codes   []int16
	}{
		"count above":            {goodBatch(v).with(func(b *rawBatch) { b.count = 1000 }).bytes(), []int16{invalidRecord}},
		"count of 2^31":          {goodBatch(v).with(func(b *rawBatch) { b.count, b.lastDelta = 0x7fffffff, 0x7ffffffe }).bytes(), []int16{invalidRecord}},
		"count below":            {goodBatch(v, v).with(func(b *rawBatch) { b.count = 1 }).bytes(), []int16{invalidRecord}},
		"count negative":         {goodBatch(v).with(func(b *rawBatch) { b.count = -1 }).bytes(), []int16{invalidRecord}},
		"no records":             {goodBatch().bytes(), []int16{invalidRecord}},
		"last offset delta":      {goodBatch(v).with(func(b *rawBatch) { b.lastDelta = 7 }).bytes(), []int16{invalidRecord}},
		"delta negative":         {goodBatch(v).with(func(b *rawBatch) { b.lastDelta = -1 }).bytes(), []int16{invalidRecord}},
		"base offset":            {goodBatch(v).with(func(b *rawBatch) { b.baseOffset = 5 }).bytes(), []int16{invalidRecord}},
		"length above":           {goodBatch(v).with(func(b *rawBatch) { b.lengthError = 50 }).bytes(), []int16{invalidRecord, corruptMessage}},
		"length of 2^31":         {goodBatch(v).with(func(b *rawBatch) { b.lengthError = 0x7ffffff0 - 100 }).bytes(), []int16{invalidRecord, corruptMessage}},
		"length below":           {goodBatch(v).with(func(b *rawBatch) { b.lengthError = -20 }).bytes(), []int16{invalidRecord, corruptMessage}},
		"length negative":        {goodBatch(v).with(func(b *rawBatch) { b.lengthError = -1000 }).bytes(), []int16{corruptMessage}},
		"record length of 2^31":  {goodBatch(v).with(func(b *rawBatch) { b.payload = hugeRecord(1<<31 - 1) }).bytes(), []int16{invalidRecord}},
		"record length of 2^62":  {goodBatch(v).with(func(b *rawBatch) { b.payload = hugeRecord(1 << 62) }).bytes(), []int16{invalidRecord}},
		"record length negative": {goodBatch(v).with(func(b *rawBatch) { b.payload = hugeRecord(-1) }).bytes(), []int16{invalidRecord}},
		"endless varint":         {goodBatch(v).with(func(b *rawBatch) { b.payload = bytes.Repeat([]byte{0xff}, 100) }).bytes(), []int16{invalidRecord}},
		"headers of 2^30":        {goodBatch(v).with(func(b *rawBatch) { b.payload = withHeaderCount(v, 1<<30) }).bytes(), []int16{invalidRecord}},
		"headers negative":       {goodBatch(v).with(func(b *rawBatch) { b.payload = withHeaderCount(v, -5) }).bytes(), []int16{invalidRecord}},
		"control batch":          {goodBatch(v).with(func(b *rawBatch) { b.attributes = 1 << 5 }).bytes(), []int16{invalidRecord}},
		"negative sequence":      {goodBatch(v).with(func(b *rawBatch) { b.producerID, b.epoch, b.sequence = 9, 0, -1 }).bytes(), []int16{invalidRecord}},
		"unknown codec":          {goodBatch(v).with(func(b *rawBatch) { b.codec = 7 }).bytes(), []int16{invalidRecord, corruptMessage, unknownServerError}},
		"batch over the limit":   {goodBatch(make([]byte, 150_000)).bytes(), []int16{messageTooLarge}},
		"an hour and more ahead": {goodBatch(v).with(func(b *rawBatch) { b.timestampMs += 2 * time.Hour.Milliseconds() }).bytes(), []int16{invalidTimestamp}},
		"garbage for gzip":       {goodBatch(v).with(func(b *rawBatch) { b.codec = codecGzip }).bytes(), []int16{unknownServerError, invalidRecord}},
		"garbage for snappy":     {goodBatch(v).with(func(b *rawBatch) { b.codec = codecSnappy }).bytes(), []int16{unknownServerError, invalidRecord}},
		"garbage for lz4":        {goodBatch(v).with(func(b *rawBatch) { b.codec = codecLz4 }).bytes(), []int16{unknownServerError, invalidRecord}},
		"garbage for zstd":       {goodBatch(v).with(func(b *rawBatch) { b.codec = codecZstd }).bytes(), []int16{unknownServerError, invalidRecord}},
		"two batches":            {append(goodBatch(v).bytes(), goodBatch(v).bytes()...), []int16{invalidRecord}},
	}
	nc := dial(t, b)
	for name, c := range cases {
		p, err := try[*kmsg.ProduceResponse](nc, 9, produceRequest("lies", c.records))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			nc = dial(t, b)
		} else if code := p.Topics[0].Partitions[0].ErrorCode; !slices.Contains(c.codes, code) {
			t.Errorf("%s: error %d, want %d", name, code, c.codes)
		}
	}
	if end := latest(t, b, "lies"); end != 0 {
		t.Errorf("the log ends at %d", end)
	}
	createTopic(t, b, "large", 1, map[string]string{"max.message.bytes": "3000000", "segment.bytes": "1048576"})
	if p := produceTo(t, nc, "large", goodBatch(make([]byte, 2_000_000)).bytes()); p.ErrorCode != recordListTooLarge {
		t.Errorf("over a segment: error %d", p.ErrorCode)
	}
	assertServes(t, b)
}

func withHeaderCount(value []byte, n int64) []byte {
	b := []byte{0, 0, 0, 1} // attributes, timestamp, offset, null key
	b = binary.AppendVarint(b, int64(len(value)))
	b = append(b, value...)
	b = binary.AppendVarint(b, n)
	return append(binary.AppendVarint(nil, int64(len(b))), b...)
}

// A batch that inflates a thousandfold, in each codec: whether the broker accepts or refuses it, its memory is bounded,
// also where it has to recompress, and where many come at once.
func TestDecompressionBombs(t *testing.T) {
	b := start(t, nil)
	createTopic(t, b, "plain", 1, nil)
	createTopic(t, b, "recompressed", 1, map[string]string{"compression.type": "gzip"})
	createTopic(t, b, "stamped", 1, map[string]string{"compression.type": "lz4", "message.timestamp.type": "LogAppendTime"})
	inflated := 256 << 20
	plain := recordBytes(0, make([]byte, inflated))
	before := rssBytes(t, b)
	for codec, name := range map[int]string{codecGzip: "gzip", codecLz4: "lz4", codecZstd: "zstd", codecSnappy: "snappy"} {
		bomb := goodBatch(nil).with(func(b *rawBatch) { b.codec, b.payload = codec, compress(codec, plain) })
		if codec == codecSnappy { // does not shrink so far: a block that claims it
			bomb.payload = append(binary.AppendUvarint(nil, 1<<32-1), make([]byte, 1000)...)
		}
		for _, topic := range []string{"plain", "recompressed", "stamped"} {
			began := time.Now()
			code := bombard(t, b, topic, bomb.bytes())
			t.Logf("%s to %s: error %d after %v, peak %d MiB", name, topic, code, time.Since(began).Round(time.Millisecond), peakBytes(t, b)>>20)
		}
	}
	window := goodBatch(nil).with(func(b *rawBatch) {
		b.codec = codecZstd
		b.payload = append([]byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x98 /* a window of 512 MiB */}, 0x01, 0, 0)
	})
	for _, topic := range []string{"plain", "recompressed"} {
		if code := bombard(t, b, topic, window.bytes()); code == 0 {
			t.Errorf("a zstd window of 512 MiB is accepted in %s", topic)
		}
	}
	if grown := peakBytes(t, b) - before; grown > 128<<20 {
		t.Errorf("grew by %d MiB", grown>>20)
	}
	assertServes(t, b)
}

// bombard sends the same batch over four connections at once and returns one of the answers.
func bombard(t *testing.T, b *kafka.Broker, topic string, records []byte) (code int16) {
	t.Helper()
	answers := make(chan int16)
	for range 4 {
		nc := dial(t, b)
		_ = nc.SetDeadline(time.Now().Add(time.Minute))
		go func() {
			p, err := try[*kmsg.ProduceResponse](nc, 9, produceRequest(topic, records))
			if err != nil {
				answers <- -2
				return
			}
			answers <- p.Topics[0].Partitions[0].ErrorCode
		}()
	}
	for range 4 {
		code = <-answers
		if code == -2 {
			t.Errorf("%s: not answered", topic)
		}
	}
	return code
}
