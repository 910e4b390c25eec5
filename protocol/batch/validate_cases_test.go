package batch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/twmb/franz-go/pkg/kerr"
)

// policies are the topics that the cases produce to; oracleConfigs are the same as Kafka's topic configuration.
var policies = map[string]func(*Policy){
	"plain":        func(*Policy) {},
	"compacted":    func(p *Policy) { p.Compacted = true },
	"appendtime":   func(p *Policy) { p.Timestamp = LogAppendTime },
	"fresh":        func(p *Policy) { p.BeforeMaxMs = 10_000 },
	"small":        func(p *Policy) { p.MaxMessageBytes = 1000 },
	"uncompressed": func(p *Policy) { p.Target = Compression{Codec: None} },
	"gzip":         func(p *Policy) { p.Target = Compression{Codec: Gzip, Level: 9} },
	"snappy":       func(p *Policy) { p.Target = Compression{Codec: Snappy} },
	"lz4":          func(p *Policy) { p.Target = Compression{Codec: Lz4, Level: 3} },
	"zstd":         func(p *Policy) { p.Target = Compression{Codec: Zstd, Level: 5} },
	"zstdcompact":  func(p *Policy) { p.Target = Compression{Codec: Zstd}; p.Compacted = true },
}

func policyOf(topic string, nowMs int64, version int16) *Policy {
	p := clientPolicy()
	p.Topic, p.Partition, p.NowMs, p.ProduceVersion = topic, 0, nowMs, version
	policies[topic](p)
	return p
}

// validationCase is bytes sent to a topic and the answer. The oracle test holds Kafka to the same.
type validationCase struct {
	name    string
	topic   string // "plain" when empty
	version int16  // 9 when 0
	raw     []byte
	code    *kerr.Error // nil: accepted
	refused []int32     // indexes of ErrorRecords
	request *kerr.Error // of RequestCheck, which precedes
	// ours says that Kafka answers otherwise, and why we differ.
	ours string
}

// caseNow is the time that the cases' timestamps are near to.
var caseNow = time.Now().UnixMilli()

func signed(b Batch, change func(Batch)) Batch {
	b = slices.Clone(b)
	change(b)
	b.sign()
	return b
}

func recordsAt(timestamps ...int64) []Record {
	var records []Record
	for i, ms := range timestamps {
		records = append(records, Record{Offset: int64(i), TimestampMs: ms, Key: []byte("k"), Value: []byte("value")})
	}
	return records
}

func validationCases(t testing.TB) []validationCase {
	cases := headerCases(t)
	cases = append(cases, recordCases(t)...)
	cases = append(cases, timestampCases(t)...)
	cases = append(cases, payloadCases(t)...)
	cases = append(cases, framingCases(t)...)
	return append(cases, recompressionCases(t)...)
}

func headerCases(t testing.TB) []validationCase {
	good := build(t, clientOptions(None), recordsAt(caseNow, caseNow+1)...)
	sequenced := clientOptions(None)
	sequenced.ProducerID, sequenced.ProducerEpoch, sequenced.BaseSequence = 7_000_000, 0, 0
	legacy := func(magic byte) Batch { // a message set entry that is whole
		b := slices.Clone(good)
		b[magicAt] = magic
		return b
	}
	short := func(size int) Batch {
		return damaged(good[:size], func(b Batch) { b.put32(lengthAt, int32(size-Overhead)) })
	}
	return []validationCase{
		{name: "good", raw: good},
		{name: "empty", raw: []byte{}, code: kerr.InvalidRecord},
		{name: "cut", raw: good[:len(good)-1], code: kerr.InvalidRecord},
		{name: "cut in the header", raw: good[:30], code: kerr.InvalidRecord},
		{name: "two batches", raw: append(slices.Clone(good), good...), code: kerr.InvalidRecord},
		{name: "a cut one after it", raw: append(slices.Clone(good), good[:len(good)-1]...)},
		{name: "few bytes after it", raw: append(slices.Clone(good), 1, 2, 3)},
		{name: "corrupt bytes after it", raw: append(slices.Clone(good), make([]byte, 20)...), code: kerr.CorruptMessage},
		{name: "magic 0", raw: legacy(0), code: kerr.InvalidRecord},
		{name: "magic 1", raw: legacy(1), code: kerr.InvalidRecord},
		{name: "magic 3", raw: legacy(3), code: kerr.CorruptMessage, request: kerr.CorruptMessage},
		{name: "magic −1", raw: legacy(0xff), code: kerr.CorruptMessage, request: kerr.CorruptMessage},
		{name: "negative length", raw: damaged(good, func(b Batch) { b.put32(lengthAt, -5) }), code: kerr.CorruptMessage, request: kerr.CorruptMessage},
		{name: "length 13", raw: damaged(good, func(b Batch) { b.put32(lengthAt, 13) }), code: kerr.CorruptMessage, request: kerr.CorruptMessage},
		{name: "26 bytes in all", raw: short(26), code: kerr.CorruptMessage, request: kerr.UnknownServerError},
		{name: "producer id cut", raw: short(50), code: kerr.CorruptMessage, request: kerr.UnknownServerError},
		{name: "producer id whole", raw: short(51), code: kerr.CorruptMessage},
		{name: "header cut", raw: short(60), code: kerr.CorruptMessage},
		{name: "bad checksum", raw: damaged(good, func(b Batch) { b[len(b)-1] ^= 1 }), code: kerr.CorruptMessage},
		{name: "base offset", raw: damaged(good, func(b Batch) { b.SetBaseOffset(1) }), code: kerr.InvalidRecord},
		{name: "leader epoch 0", raw: damaged(good, func(b Batch) { b.SetPartitionLeaderEpoch(0) })},
		{name: "count 1 of 2", raw: signed(good, func(b Batch) { b.put32(recordCountAt, 1) }), code: kerr.InvalidRecord},
		{name: "count 0", raw: signed(good, func(b Batch) { b.put32(recordCountAt, 0) }), code: kerr.InvalidRecord},
		{name: "count −1", raw: signed(good, func(b Batch) { b.put32(recordCountAt, -1) }), code: kerr.InvalidRecord},
		{name: "no records", raw: emptyBatch(good, 0), code: kerr.InvalidRecord},
		{name: "last offset delta −1", raw: emptyBatch(good, -1), code: kerr.InvalidRecord},
		{name: "last offset delta 5", raw: signed(good, func(b Batch) { b.put32(lastOffsetDeltaAt, 5) }), code: kerr.InvalidRecord},
		{name: "control batch", raw: signed(good, func(b Batch) { b[attributesAt+1] |= controlBit }), code: kerr.InvalidRecord},
		{name: "unused attributes", raw: signed(good, func(b Batch) { b[attributesAt] = 0xf0 })},
		{name: "unused attributes, wrong time", raw: signed(good, func(b Batch) { b[attributesAt] = 0xf0; b.put64(maxTimestampAt, 5) })},
		{name: "delete horizon", raw: signed(good, func(b Batch) { b[attributesAt+1] |= deleteHorizonBit; b.put64(maxTimestampAt, 5) })},
		{name: "codec 5", raw: signed(good, func(b Batch) { b[attributesAt+1] |= 5 }), code: kerr.UnknownServerError},
		{name: "codec 7", raw: signed(good, func(b Batch) { b[attributesAt+1] |= 7 }), code: kerr.UnknownServerError},
		{name: "producer without a sequence", raw: signed(build(t, sequenced, recordsAt(caseNow)...), func(b Batch) { b.put32(baseSequenceAt, -1) }), code: kerr.InvalidRecord},
		{name: "negative sequence", raw: signed(build(t, sequenced, recordsAt(caseNow)...), func(b Batch) { b.put32(baseSequenceAt, -9) }), code: kerr.InvalidRecord},
		{name: "too large", topic: "small", raw: build(t, clientOptions(None), Record{TimestampMs: caseNow, Value: make([]byte, 1000)}), code: kerr.MessageTooLarge},
		{name: "too large and corrupt", topic: "small", raw: damaged(build(t, clientOptions(None), Record{TimestampMs: caseNow, Value: make([]byte, 1000)}), func(b Batch) { b[70] ^= 1 }), code: kerr.MessageTooLarge},
		{name: "too large and offset", topic: "small", raw: damaged(build(t, clientOptions(None), Record{TimestampMs: caseNow, Value: make([]byte, 1000)}), func(b Batch) { b.SetBaseOffset(1) }), code: kerr.InvalidRecord},
		{name: "exactly the limit", topic: "small", raw: build(t, clientOptions(None), Record{TimestampMs: caseNow, Value: make([]byte, 1000-70)})},
		{name: "zstd in Produce 6", version: 6, raw: build(t, clientOptions(Zstd), recordsAt(caseNow)...), code: kerr.UnsupportedCompressionType},
		{name: "zstd in Produce 7", version: 7, raw: build(t, clientOptions(Zstd), recordsAt(caseNow)...)},
		{name: "zstd in Produce 3, twice", version: 3, raw: slices.Concat(build(t, clientOptions(Zstd), recordsAt(caseNow)...), good), code: kerr.UnsupportedCompressionType},
	}
}

// damaged changes b without signing it again.
func damaged(b Batch, change func(Batch)) Batch {
	b = slices.Clone(b)
	change(b)
	return b
}

func emptyBatch(b Batch, lastOffsetDelta int32) Batch {
	return signed(b[:HeaderSize], func(b Batch) {
		b.put32(lengthAt, HeaderSize-Overhead)
		b.put32(recordCountAt, 0)
		b.put32(lastOffsetDeltaAt, lastOffsetDelta)
	})
}

func recordCases(t testing.TB) []validationCase {
	var cases []validationCase
	for _, codec := range allCodecs {
		name := codec.name() + ": "
		o := clientOptions(codec)
		steps := encode([]byte{0, 0, 10, 1, 1, 0}, []byte{0, 0, 14, 1, 1, 0})
		cases = append(cases,
			validationCase{name: name + "good", raw: build(t, o, recordsAt(caseNow, caseNow-5, caseNow+5)...)},
			validationCase{name: name + "offset deltas out of step", raw: wrap(t, codec, 2, steps), code: outOfStep(codec)},
			validationCase{name: name + "null key, compacted", topic: "compacted", raw: build(t, o,
				Record{TimestampMs: caseNow, Key: []byte("k")}, Record{Offset: 1, TimestampMs: caseNow}, Record{Offset: 2, TimestampMs: caseNow}),
				code: kerr.InvalidRecord, refused: []int32{1, 2}},
			validationCase{name: name + "empty key, compacted", topic: "compacted", raw: build(t, o, Record{TimestampMs: caseNow, Key: []byte{}})},
			validationCase{name: name + "five null keys", topic: "compacted", raw: build(t, o, Record{TimestampMs: caseNow}, Record{Offset: 1, TimestampMs: caseNow},
				Record{Offset: 2, TimestampMs: caseNow}, Record{Offset: 3, TimestampMs: caseNow}, Record{Offset: 4, TimestampMs: caseNow}),
				code: kerr.InvalidRecord, refused: []int32{0, 1, 2, 3, 4}},
			validationCase{name: name + "null key and bad time", topic: "compacted", raw: build(t, o,
				Record{TimestampMs: caseNow + 4_000_000, Key: []byte("k")}, Record{Offset: 1, TimestampMs: caseNow}),
				code: kerr.InvalidTimestamp, refused: []int32{0, 1}},
			validationCase{name: name + "count above the records", raw: wrap(t, codec, 2, encode(goodBody)), code: kerr.InvalidRecord},
			validationCase{name: name + "records above the count", raw: wrap(t, codec, 1, encode(goodBody, goodBody)), code: kerr.InvalidRecord},
			validationCase{name: name + "record attributes", raw: wrap(t, codec, 1, encode([]byte{0x7f, 0, 0, 1, 1, 0}))},
		)
		for wrong, body := range wrongBodies {
			cases = append(cases, validationCase{name: name + wrong, raw: wrap(t, codec, 2, encode(goodBody, body)), code: kerr.InvalidRecord})
		}
	}
	return cases
}

// outOfStep: Kafka means to rebuild such a compressed batch, but it has skipped the keys by then.
func outOfStep(codec Codec) *kerr.Error {
	if codec == None {
		return nil
	}
	return kerr.UnknownServerError
}

func timestampCases(t testing.TB) []validationCase {
	var cases []validationCase
	const hour = 3_600_000
	for _, codec := range []Codec{None, Lz4} {
		name := codec.name() + ": "
		o := clientOptions(codec)
		mixed := recordsAt(caseNow, caseNow+2*hour, caseNow, caseNow+3*hour)
		setType := func(b Batch, max int64) Batch {
			return signed(b, func(b Batch) { b[attributesAt+1] |= logAppendTimeBit; b.put64(maxTimestampAt, max) })
		}
		plain := build(t, o, recordsAt(caseNow, caseNow+7)...)
		cases = append(cases,
			validationCase{name: name + "hours ahead", raw: build(t, o, mixed...), code: kerr.InvalidTimestamp, refused: []int32{1, 3}},
			validationCase{name: name + "half an hour ahead", raw: build(t, o, recordsAt(caseNow+hour/2)...)},
			validationCase{name: name + "long ago", raw: build(t, o, recordsAt(1)...)},
			validationCase{name: name + "long ago, fresh only", topic: "fresh", raw: build(t, o, recordsAt(caseNow, 1)...), code: kerr.InvalidTimestamp, refused: []int32{1}},
			validationCase{name: name + "no timestamp, fresh only", topic: "fresh", raw: build(t, o, recordsAt(-1)...)},
			validationCase{name: name + "timestamp −2", raw: build(t, o, recordsAt(-2)...)},
			validationCase{name: name + "timestamp minimum", raw: build(t, o, recordsAt(math.MinInt64)...), code: kerr.InvalidTimestamp, refused: []int32{0}},
			validationCase{name: name + "max timestamp too small", raw: signed(plain, func(b Batch) { b.put64(maxTimestampAt, 3) })},
			validationCase{name: name + "max timestamp too large", raw: signed(plain, func(b Batch) { b.put64(maxTimestampAt, caseNow*2) })},
			validationCase{name: name + "max timestamp −1", raw: signed(plain, func(b Batch) { b.put64(maxTimestampAt, -1) })},
			validationCase{name: name + "client says LogAppendTime", raw: setType(plain, caseNow+3)},
			validationCase{name: name + "client says LogAppendTime, hours ahead", raw: setType(plain, caseNow+2*hour), code: kerr.InvalidTimestamp, refused: []int32{0, 1}},
			validationCase{name: name + "client says LogAppendTime without a time", raw: setType(plain, -1), code: kerr.InvalidTimestamp, refused: []int32{0, 1}},
			validationCase{name: name + "append time", topic: "appendtime", raw: plain},
			validationCase{name: name + "append time, hours ahead", topic: "appendtime", raw: build(t, o, mixed...)},
			validationCase{name: name + "append time, said by the client", topic: "appendtime", raw: setType(plain, caseNow), code: kerr.InvalidTimestamp, refused: []int32{0, 1}},
		)
	}
	return cases
}

// payloadCases are compressed bytes that are not what they should be.
func payloadCases(t testing.TB) []validationCase {
	whole := consecutive(1000)
	var cases []validationCase
	for _, codec := range allCodecs[1:] {
		b := wrap(t, codec, 1000, whole)
		garbage := wrapCompressed(codec, 1, []byte("this is not compressed at all"))
		half := wrapCompressed(codec, 1000, b[HeaderSize:HeaderSize+(len(b)-HeaderSize)/2])
		flipped := signed(b, func(b Batch) { b[HeaderSize+1] ^= 0xff })
		cases = append(cases,
			validationCase{name: codec.name() + ": garbage", raw: garbage, code: kerr.UnknownServerError},
			validationCase{name: codec.name() + ": half", raw: half, code: kerr.UnknownServerError},
			validationCase{name: codec.name() + ": flipped magic", raw: flipped, code: kerr.UnknownServerError},
		)
		if codec != Zstd {
			cases = append(cases, validationCase{name: codec.name() + ": nothing", raw: wrapCompressed(codec, 1, nil), code: kerr.UnknownServerError})
		}
	}
	rawSnappy := wrapCompressed(Snappy, 1000, snappyEncode(whole))
	emptyXerial := wrapCompressed(Snappy, 1, appendXerial(nil, nil))
	return append(cases,
		validationCase{name: "snappy: raw block", raw: rawSnappy},
		validationCase{name: "zstd: nothing", raw: wrapCompressed(Zstd, 1, nil), code: kerr.InvalidRecord},
		validationCase{name: "snappy: xerial header alone", raw: emptyXerial, code: kerr.InvalidRecord},
		validationCase{name: "zstd: window of 512 MiB", raw: wrapCompressed(Zstd, 1, zstdWindow(29)), code: kerr.MessageTooLarge,
			ours: "told apart from garbage"},
		validationCase{name: "zstd: best", raw: wrapCompressed(Zstd, 1000, zstdEncode(t, whole))},
	)
}

// consecutive is a payload of n small records.
func consecutive(n int64) []byte {
	var payload []byte
	for i := range n {
		payload = append(payload, encode(slices.Concat([]byte{0, 0}, appendVarint(nil, i), []byte{1, 1, 0}))...)
	}
	return payload
}

// framingCases are streams that other encoders than Java's may write, whole or in parts.
func framingCases(t testing.TB) []validationCase {
	const n = 20_000
	whole := consecutive(n)
	var cases []validationCase
	for _, codec := range allCodecs[1:] {
		compress := func(records []byte) []byte {
			b, err := appendCompressed(nil, Compression{Codec: codec}, records)
			if err != nil {
				t.Fatal(err)
			}
			return b
		}
		var second, after, garbage *kerr.Error // Java reads one lz4 frame, and any number of gzip members, xerial streams and zstd frames
		if codec == Lz4 {
			second = kerr.InvalidRecord
		} else {
			after = kerr.InvalidRecord
		}
		if codec == Snappy || codec == Zstd {
			garbage = kerr.UnknownServerError
		}
		parts := slices.Concat(compress(whole[:1000]), compress(whole[1000:]))
		cases = append(cases,
			validationCase{name: codec.name() + ": two streams", raw: wrapCompressed(codec, n, parts), code: second},
			validationCase{name: codec.name() + ": second stream after the last record", raw: wrapCompressed(codec, n, slices.Concat(compress(whole), compress(whole))), code: after},
			validationCase{name: codec.name() + ": garbage after the stream", raw: wrapCompressed(codec, n, append(compress(whole), "garbage!"...)), code: garbage},
			validationCase{name: codec.name() + ": zeros after the stream", raw: wrapCompressed(codec, n, append(compress(whole), make([]byte, 16)...)), code: garbage},
		)
	}
	for name, options := range map[string][]lz4.Option{
		"block checksums":  {lz4.BlockChecksumOption(true), lz4.ChecksumOption(false)},
		"content checksum": {lz4.ChecksumOption(true)},
		"content size":     {lz4.SizeOption(uint64(len(whole))), lz4.ChecksumOption(false)},
		"4 MiB blocks":     {lz4.BlockSizeOption(lz4.Block4Mb), lz4.ChecksumOption(false)},
	} {
		var out bytes.Buffer
		w := lz4.NewWriter(&out)
		if err := errors.Join(w.Apply(options...), discardCount(w.Write(whole)), w.Close()); err != nil {
			t.Fatal(err)
		}
		cases = append(cases, validationCase{name: "lz4: " + name, raw: wrapCompressed(Lz4, n, out.Bytes())})
		cases = append(cases, validationCase{name: "lz4: no end mark, " + name, raw: wrapCompressed(Lz4, n, out.Bytes()[:out.Len()-8]), code: kerr.UnknownServerError})
	}
	return cases
}

func discardCount(_ int, err error) error { return err }

func snappyEncode(payload []byte) []byte {
	framed := appendXerial(nil, payload)
	if len(payload) > xerialBlockBytes {
		panic("one block only")
	}
	return framed[xerialHeaderBytes+4:]
}

// zstdWindow is a frame with one raw byte that claims a window of 2^log bytes.
func zstdWindow(log byte) []byte {
	frame := binary.LittleEndian.AppendUint32(nil, 0xfd2fb528)
	frame = append(frame, 0, (log-10)<<3)
	return append(frame, 9, 0, 0, 'x')
}

func zstdEncode(t testing.TB, payload []byte) []byte {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBestCompression))
	if err != nil {
		t.Fatal(err)
	}
	return e.EncodeAll(payload, nil)
}

func recompressionCases(t testing.TB) []validationCase {
	var cases []validationCase
	idempotent := BuildOptions{ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1}
	for _, target := range []string{"uncompressed", "gzip", "snappy", "lz4", "zstd"} {
		for _, codec := range allCodecs {
			o := idempotent
			o.Codec = codec
			records := recordsAt(caseNow+9, caseNow, caseNow+4)
			records[1].Headers = []Header{{Key: "h", Value: []byte("x")}, {Key: "n"}}
			records[2].Key, records[2].Value = nil, nil
			steps := wrap(t, codec, 2, encode([]byte{0, 0, 10, 1, 1, 0}, []byte{0, 0, 14, 1, 1, 0}))
			var code *kerr.Error
			if codec.name() == target {
				code = kerr.UnknownServerError
			}
			cases = append(cases,
				validationCase{name: codec.name() + " to " + target, topic: target, raw: build(t, o, records...)},
				validationCase{name: codec.name() + " to " + target + ": out of step", topic: target, raw: steps, code: code})
		}
		cases = append(cases,
			validationCase{name: "none to " + target + ": wrong body", topic: target, raw: wrap(t, None, 1, encode(wrongBodies["no value"])), code: kerr.InvalidRecord},
			validationCase{name: "none to " + target + ": hours ahead", topic: target, raw: build(t, idempotent, recordsAt(caseNow+4_000_000)...),
				code: kerr.InvalidTimestamp, refused: []int32{0}},
		)
	}
	negative := validationCase{name: "none to gzip: timestamp −2", topic: "gzip", raw: build(t, idempotent, recordsAt(-2)...), code: kerr.UnknownServerError}
	nullKey := validationCase{name: "none to zstd: null key", topic: "zstdcompact", raw: build(t, idempotent, Record{TimestampMs: caseNow}), code: kerr.InvalidRecord, refused: []int32{0}}
	return append(cases, negative, nullKey)
}
