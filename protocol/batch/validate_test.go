package batch

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/twmb/franz-go/pkg/kerr"
)

func caseTopic(c validationCase) (topic string, version int16) {
	topic, version = c.topic, c.version
	if topic == "" {
		topic = "plain"
	}
	if version == 0 {
		version = 9
	}
	return topic, version
}

func refusedIndexes(e *Error) []int32 {
	var indexes []int32
	for _, r := range e.Records {
		indexes = append(indexes, r.Index)
	}
	return indexes
}

func TestValidateAnswers(t *testing.T) {
	for _, c := range validationCases(t) {
		t.Run(c.name, func(t *testing.T) {
			topic, version := caseTopic(c)
			_, err := checkRequest(&RequestCheck{Version: version}, c.raw)
			if (c.request == nil) != (err == nil) || (err != nil && !errors.Is(err, c.request)) {
				t.Fatalf("RequestCheck: %v", err)
			}
			r, err := Validate(slices.Clone(c.raw), policyOf(topic, caseNow, version))
			if c.code == nil {
				if err != nil {
					t.Fatal(err)
				}
				checkAccepted(t, c, r, policyOf(topic, caseNow, version))
				return
			}
			var e *Error
			if !errors.As(err, &e) || e.Code != c.code || !errors.Is(err, c.code) {
				t.Fatalf("%v, want %s", err, c.code.Message)
			}
			if got := refusedIndexes(e); !slices.Equal(got, c.refused) {
				t.Fatalf("refused records %v, want %v", got, c.refused)
			}
		})
	}
}

// checkAccepted holds what every accepted batch must be: consistent, with the records that were sent.
func checkAccepted(t *testing.T, c validationCase, r Result, p *Policy) {
	t.Helper()
	sent, _, err := Next(c.raw)
	if err != nil {
		t.Fatal(err)
	}
	if !r.Batch.ChecksumOK() || len(r.Batch) != r.Batch.SizeBytes() || r.RecordCount != sent.RecordCount() {
		t.Fatalf("result is not a sound batch: %v", r.Batch[:HeaderSize])
	}
	if p.Timestamp != r.Batch.TimestampType() || r.MaxTimestampMs != r.Batch.MaxTimestamp() {
		t.Fatalf("timestamps: type %v, max %d, result %d", r.Batch.TimestampType(), r.Batch.MaxTimestamp(), r.MaxTimestampMs)
	}
	wantAppendMs := int64(-1)
	if p.Timestamp == LogAppendTime {
		wantAppendMs = p.NowMs
	}
	if r.LogAppendTimeMs != wantAppendMs {
		t.Fatalf("log append time %d, want %d", r.LogAppendTimeMs, wantAppendMs)
	}
	if p.Target.Codec != Producer && r.Batch.Codec() != p.Target.Codec {
		t.Fatalf("codec %d, want %d", r.Batch.Codec(), p.Target.Codec)
	}
	want, got := collect(t, sent), collect(t, r.Batch)
	for i := range want {
		want[i].Offset, got[i].Offset = 0, 0
		if p.Timestamp == LogAppendTime || sent.TimestampType() == LogAppendTime {
			want[i].TimestampMs, got[i].TimestampMs = 0, 0
		}
	}
	if !reflect.DeepEqual(want, got) {
		t.Fatalf("records %v, want %v", got, want)
	}
}

// checkRequest adds all partitions, and tells which are transactional.
func checkRequest(c *RequestCheck, partitions ...[]byte) (transactional []bool, err error) {
	for _, raw := range partitions {
		is, err := c.Add(raw)
		if err != nil {
			return nil, err
		}
		transactional = append(transactional, is)
	}
	return transactional, c.Err()
}

func TestRequestCheck(t *testing.T) {
	good := build(t, clientOptions(None), recordsAt(caseNow)...)
	o := clientOptions(None)
	o.ProducerID, o.BaseSequence, o.Transactional = 1, 0, true
	txn := build(t, o, recordsAt(caseNow)...)
	wrongMagic := damaged(good, func(b Batch) { b[magicAt] = 3 })
	wrongCodec := damaged(good, func(b Batch) { b[attributesAt+1] = 7 })
	short := damaged(good[:50], func(b Batch) { b.put32(lengthAt, 50-Overhead) })
	shortTxn := damaged(short, func(b Batch) { b[attributesAt+1] = transactionalBit })
	named, old := RequestCheck{Version: 9, HasTransactionID: true}, RequestCheck{Version: 6}
	for name, c := range map[string]struct {
		check         RequestCheck
		partitions    [][]byte
		transactional []bool
		want          error
	}{
		"good":                     {named, [][]byte{good, good}, []bool{false, false}, nil},
		"one transactional":        {named, [][]byte{good, txn, good}, []bool{false, true, false}, nil},
		"without transactional id": {RequestCheck{Version: 9}, [][]byte{good, txn, wrongMagic}, nil, kerr.TransactionalIDAuthorizationFailed},
		"nothing":                  {named, [][]byte{nil}, []bool{false}, nil},
		"cut":                      {named, [][]byte{good[:70]}, []bool{false}, nil},
		"second batch corrupt":     {named, [][]byte{append(slices.Clone(good), make([]byte, 20)...)}, []bool{false}, nil},
		"second partition corrupt": {named, [][]byte{good, wrongMagic}, nil, kerr.CorruptMessage},
		"corrupt, transactional":   {old, [][]byte{wrongMagic, txn}, nil, kerr.CorruptMessage},
		"short":                    {named, [][]byte{short, good}, []bool{false, false}, kerr.UnknownServerError},
		"corrupt after short":      {named, [][]byte{short, wrongMagic}, nil, kerr.CorruptMessage},
		"short, transactional":     {old, [][]byte{short, shortTxn}, nil, kerr.TransactionalIDAuthorizationFailed},
		"codec before zstd":        {old, [][]byte{wrongCodec, good}, []bool{false, false}, kerr.UnknownServerError},
		"codec since zstd":         {named, [][]byte{wrongCodec}, []bool{false}, nil}, // the partition's own error
	} {
		transactional, err := checkRequest(&c.check, c.partitions...)
		if !errors.Is(err, c.want) || !slices.Equal(transactional, c.transactional) {
			t.Errorf("%s: %v, %v", name, transactional, err)
		}
	}
}

func TestValidateKeepsBytesInPlace(t *testing.T) {
	for _, codec := range allCodecs {
		raw := build(t, clientOptions(codec), recordsAt(caseNow, caseNow+1)...)
		before := slices.Clone(raw)
		r, err := Validate(raw, policyOf("plain", caseNow, 9))
		if err != nil {
			t.Fatal(err)
		}
		if &r.Batch[0] != &raw[0] || !slices.Equal(raw, before) {
			t.Errorf("%s: a batch that needed no change was changed or copied", codec.name())
		}
		r, err = Validate(raw, policyOf("appendtime", caseNow+50, 9))
		if err != nil || &r.Batch[0] != &raw[0] {
			t.Errorf("%s: LogAppendTime copied the batch: %v", codec.name(), err)
		}
	}
}

func TestValidateFromCoordinator(t *testing.T) {
	p := policyOf("uncompressed", caseNow, 0)
	p.Origin = FromCoordinator
	o := clientOptions(None)
	o.Control, o.Transactional, o.ProducerID, o.BaseOffset = true, true, 5, 40
	control := build(t, o, Record{Offset: 40, TimestampMs: caseNow, Key: []byte{0, 0, 0, 1}, Value: make([]byte, 6)})
	if _, err := Validate(control, p); err != nil {
		t.Errorf("a coordinator's marker: %v", err)
	}
	p.Target = Compression{Codec: Zstd}
	if r, err := Validate(control, p); err != nil || r.Batch.Codec() != None || !r.Batch.Control() {
		t.Errorf("a marker is not compressed: %v", err)
	}
}

func TestBombsAreBounded(t *testing.T) {
	p := policyOf("small", caseNow, 9)
	p.MaxMessageBytes = 200_000
	body := append([]byte{0, 0, 0, 1}, appendVarint(nil, 40_000_000)...)
	body = append(append(body, make([]byte, 40_000_000)...), 0)
	for _, codec := range []Codec{Gzip, Lz4, Zstd} {
		b := wrap(t, codec, 1, encode(body))
		if len(b) > int(p.MaxMessageBytes) {
			t.Fatalf("%s: the bomb has %d bytes", codec.name(), len(b))
		}
		if _, err := Validate(b, p); !errors.Is(err, kerr.MessageTooLarge) {
			t.Errorf("%s: %v", codec.name(), err)
		}
		rebuilt := *p // what would do for a check is too much to be compressed anew
		rebuilt.MaxMessageBytes, rebuilt.Target = 2_000_000, Compression{Codec: 1 + codec%4}
		if _, err := Validate(b, &rebuilt); !errors.Is(err, kerr.MessageTooLarge) {
			t.Errorf("%s to another codec: %v", codec.name(), err)
		}
	}
	for name, payload := range map[string][]byte{
		"snappy block that claims 2 GiB":  {0xff, 0xff, 0xff, 0xff, 0x07, 0},
		"xerial block that claims 31 MiB": append(append([]byte(xerialMagic), 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 6), 0x80, 0x80, 0xc0, 0x0f, 0, 0),
	} {
		allocated := bytesPerRun(func() {
			if _, err := Validate(wrapCompressed(Snappy, 1, payload), p); err == nil {
				t.Fatal("accepted")
			}
		})
		if allocated > 1<<20 {
			t.Errorf("%s: %d bytes were allocated", name, allocated)
		}
	}
}

// TestZstdOfAnySize: what streaming clients (Java) write has no content size, whatever it compresses to.
func TestZstdOfAnySize(t *testing.T) {
	for _, size := range []int{100, 40_000, 140_000, 200_000, 300_000, 1_000_000, 5_000_000} {
		for name, value := range map[string][]byte{"zeros": make([]byte, size), "text": bytes.Repeat([]byte("a text that repeats "), size/20)} {
			plain := build(t, clientOptions(None), Record{TimestampMs: caseNow, Value: value}, Record{Offset: 1, TimestampMs: caseNow, Value: []byte("end")})
			var out bytes.Buffer
			e, err := zstd.NewWriter(&out)
			if err != nil {
				t.Fatal(err)
			}
			e.Write(plain[HeaderSize:])
			e.Close()
			if _, err := Validate(wrapCompressed(Zstd, 2, out.Bytes()), policyOf("plain", caseNow, 9)); err != nil {
				t.Errorf("%d bytes of %s: %v", size, name, err)
			}
		}
	}
}

// TestLargeZstd: what does not fit zstdWholeBytes is decoded as a stream, whose window is bounded.
func TestLargeZstd(t *testing.T) {
	var records []Record
	for i := range int64(20) {
		records = append(records, Record{Offset: i, TimestampMs: caseNow, Value: bytes.Repeat([]byte{byte(i)}, 1<<20)})
	}
	b := build(t, clientOptions(Zstd), records...)
	if _, err := Validate(slices.Clone(b), policyOf("plain", caseNow, 9)); err != nil {
		t.Errorf("20 MiB with the default window: %v", err)
	}
	plain := build(t, clientOptions(None), records...)
	e, err := zstd.NewWriter(nil, zstd.WithWindowSize(4*zstdStreamWindowBytes))
	if err != nil {
		t.Fatal(err)
	}
	wide := wrapCompressed(Zstd, 20, e.EncodeAll(plain[HeaderSize:], nil))
	if _, err := Validate(wide, policyOf("plain", caseNow, 9)); !errors.Is(err, kerr.MessageTooLarge) {
		t.Errorf("20 MiB with a window over the bound: %v", err)
	}
	small := wrapCompressed(Zstd, 1, zstdWindow(27)) // zstdMaxWindowBytes, for one byte
	allocated := bytesPerRun(func() {
		if _, err := Validate(small, policyOf("plain", caseNow, 9)); !errors.Is(err, kerr.InvalidRecord) {
			t.Fatal(err)
		}
	})
	if allocated > 1<<16 {
		t.Errorf("%d bytes were allocated for a claimed window", allocated)
	}
}

func TestLargeBuffersAreNotPooled(t *testing.T) {
	p := new([]byte)
	if putBuffer(p, make([]byte, 0, pooledBytes)); cap(*p) != pooledBytes {
		t.Error("a buffer of the bound was dropped")
	}
	p = new([]byte)
	if putBuffer(p, make([]byte, 0, pooledBytes+1)); cap(*p) != 0 {
		t.Error("a buffer over the bound was kept")
	}
}

// bytesPerRun is what f allocates, on average over some runs.
func bytesPerRun(f func()) uint64 {
	const runs = 20
	var before, after runtime.MemStats
	f()
	runtime.ReadMemStats(&before)
	for range runs {
		f()
	}
	runtime.ReadMemStats(&after)
	return (after.TotalAlloc - before.TotalAlloc) / runs
}

func TestRecordErrorsAreBounded(t *testing.T) {
	n := maxRecordErrors + 100
	payload := make([]byte, 0, 8*n)
	for range n {
		payload = append(payload, encode([]byte{0, 0, 0, 1, 1, 0})...)
	}
	_, err := Validate(wrap(t, None, int32(n), payload), policyOf("compacted", caseNow, 9))
	var e *Error
	if !errors.As(err, &e) || len(e.Records) != maxRecordErrors {
		t.Fatalf("%d record errors, want %d", len(e.Records), maxRecordErrors)
	}
}

func TestValidateDoesNotAllocatePerRecord(t *testing.T) {
	for _, c := range []struct {
		records, headers int
		want             float64
	}{{1, 0, 0}, {1000, 0, 0}, {1, 1, 2}, {1000, 1, 2}} {
		var records []Record
		for i := range c.records {
			records = append(records, Record{Offset: int64(i), TimestampMs: caseNow, Key: []byte("key"), Value: []byte("value"), Headers: make([]Header, c.headers)})
		}
		raw, p := build(t, clientOptions(None), records...), policyOf("plain", caseNow, 9)
		if got := testing.AllocsPerRun(20, func() { _, _ = Validate(raw, p) }); got > c.want {
			t.Errorf("%v allocations for %+v", got, c)
		}
	}
}

func benchmarkBatch(b *testing.B, sizeBytes, valueBytes int) Batch {
	var records []Record
	for size := HeaderSize; size+valueBytes < sizeBytes; size += valueBytes + 8 {
		records = append(records, Record{Offset: int64(len(records)), TimestampMs: caseNow, Value: make([]byte, valueBytes)})
	}
	return build(b, clientOptions(None), records...)
}

func BenchmarkValidate(b *testing.B) {
	for _, c := range []struct {
		name             string
		size, valueBytes int
	}{{"64KiB of 1KiB", 64 << 10, 1 << 10}, {"64KiB of 100B", 64 << 10, 100}, {"1KiB of 100B", 1 << 10, 100}} {
		raw := benchmarkBatch(b, c.size, c.valueBytes)
		p := policyOf("plain", caseNow, 9)
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Validate(raw, p); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(c.name+" checksum alone", func(b *testing.B) {
			b.SetBytes(int64(len(raw)))
			for b.Loop() {
				if !raw.ChecksumOK() {
					b.Fatal("checksum")
				}
			}
		})
	}
}

func BenchmarkValidateCompressed(b *testing.B) {
	var records []Record
	for i := range int64(500) {
		records = append(records, Record{Offset: i, TimestampMs: caseNow, Key: fmt.Appendf(nil, "key-%d", i*7919), Value: fmt.Appendf(nil, "value %d of some text that repeats itself, as text does: %x", i, i*i*i)})
	}
	for _, codec := range allCodecs[1:] {
		raw, p := build(b, clientOptions(codec), records...), policyOf("plain", caseNow, 9)
		b.Run(codec.name(), func(b *testing.B) {
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Validate(raw, p); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// max.decompressed.message.bytes bounds each record of a compressed batch by its declared length; Kafka answers
// INVALID_RECORD without a message.
func TestRecordLargerThanMaxDecompressed(t *testing.T) {
	p := policyOf("plain", 1000, 9)
	p.MaxRecordBytes = 50_000
	for _, codec := range []Codec{None, Gzip, Snappy, Lz4, Zstd} {
		for sizes, fits := range map[[2]int]bool{{40_000, 40_000}: true, {40_000, 100_000}: false, {50_001, 10}: false, {49_990, 10}: true} {
			var records []Record
			for i, size := range sizes {
				records = append(records, Record{Offset: int64(i), TimestampMs: 1000, Key: []byte("k"), Value: make([]byte, size)})
			}
			b, err := Build(BuildOptions{Codec: codec, ProducerID: NoProducerID, BaseSequence: -1}, records)
			if err != nil {
				t.Fatal(err)
			}
			_, err = Validate(b, p)
			var refused *Error
			switch {
			case fits || codec == None:
				if err != nil {
					t.Errorf("%v %v: %v", codec, sizes, err)
				}
			case !errors.As(err, &refused) || refused.Code != kerr.InvalidRecord || refused.Answer() != nil:
				t.Errorf("%v %v: %v", codec, sizes, err)
			}
		}
	}
}
