package batch

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
)

func (c Codec) name() string { return [...]string{"none", "gzip", "snappy", "lz4", "zstd"}[c] }

var allCodecs = []Codec{None, Gzip, Snappy, Lz4, Zstd}

// someRecords covers null and empty keys and values, headers, and sizes over a window.
func someRecords() []Record {
	big := make([]byte, 3*windowBytes)
	rng := rand.NewChaCha8([32]byte{1})
	_, _ = rng.Read(big)
	return []Record{
		{Offset: 0, TimestampMs: 1000, Key: []byte("k"), Value: []byte("v")},
		{Offset: 1, TimestampMs: 900, Key: nil, Value: []byte{}},
		{Offset: 2, TimestampMs: 5000, Key: []byte{}, Value: nil,
			Headers: []Header{{Key: "a", Value: []byte("b")}, {Key: "", Value: nil}, {Key: "c", Value: []byte{}}}},
		{Offset: 3, TimestampMs: 2000, Key: []byte("big"), Value: big},
		{Offset: 4, TimestampMs: 2001, Key: []byte("zeros"), Value: make([]byte, 200_000)},
	}
}

func clientOptions(c Codec) BuildOptions {
	return BuildOptions{Codec: c, ProducerID: NoProducerID, ProducerEpoch: -1, BaseSequence: NoSequence, LeaderEpoch: -1}
}

func build(t testing.TB, o BuildOptions, records ...Record) Batch {
	t.Helper()
	b, err := Build(o, records)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func collect(t testing.TB, b Batch) []Record {
	t.Helper()
	var got []Record
	for r, err := range b.Records() {
		if err != nil {
			t.Fatal(err)
		}
		r.Key, r.Value, r.Headers = slices.Clone(r.Key), slices.Clone(r.Value), slices.Clone(r.Headers)
		for i := range r.Headers {
			r.Headers[i].Value = slices.Clone(r.Headers[i].Value)
		}
		if len(r.Headers) == 0 {
			r.Headers = nil
		}
		got = append(got, r)
	}
	return got
}

func TestBuildAndIterate(t *testing.T) {
	for _, codec := range allCodecs {
		t.Run(codec.name(), func(t *testing.T) {
			o := BuildOptions{BaseOffset: 100, LeaderEpoch: 7, Codec: codec, ProducerID: 9, ProducerEpoch: 3,
				BaseSequence: math.MaxInt32 - 1, Transactional: true}
			want := someRecords()
			for i := range want {
				want[i].Offset += 100
			}
			b := build(t, o, want...)
			if got := collect(t, b); !reflect.DeepEqual(got, want) {
				t.Fatalf("records differ")
			}
			if !b.ChecksumOK() || b.SizeBytes() != len(b) || b.Magic() != 2 || b.Codec() != codec || !b.Transactional() || b.Control() {
				t.Fatalf("header: %v", b[:HeaderSize])
			}
			header := []int64{b.BaseOffset(), int64(b.PartitionLeaderEpoch()), b.LastOffset(), b.BaseTimestamp(), b.MaxTimestamp(),
				b.ProducerID(), int64(b.ProducerEpoch()), int64(b.LastSequence()), int64(b.RecordCount())}
			if want := []int64{100, 7, 104, 1000, 5000, 9, 3, 2, 5}; !slices.Equal(header, want) {
				t.Fatalf("header %v, want %v", header, want)
			}
			b.SetBaseOffset(5)
			b.SetPartitionLeaderEpoch(6)
			if !b.ChecksumOK() || b.LastOffset() != 9 {
				t.Fatal("offset and epoch lie outside the checksum")
			}
			b[len(b)-1] ^= 1
			if b.ChecksumOK() {
				t.Fatal("a flipped bit passes the checksum")
			}
		})
	}
}

func TestBuildRefuses(t *testing.T) {
	if _, err := Build(BuildOptions{}, nil); !errors.Is(err, ErrNoRecords) {
		t.Errorf("no records: %v", err)
	}
	for _, offsets := range [][]int64{{-1}, {1, 1}, {2, 1}, {math.MaxInt32 + 1}} {
		var records []Record
		for _, o := range offsets {
			records = append(records, Record{Offset: o})
		}
		if _, err := Build(BuildOptions{}, records); err == nil {
			t.Errorf("offsets %v were accepted", offsets)
		}
	}
}

func TestNext(t *testing.T) {
	one := build(t, clientOptions(None), Record{Value: []byte("x")})
	two := append(slices.Clone(one), one...)
	b, rest, err := Next(two)
	if err != nil || len(b) != len(one) || len(rest) != len(one) {
		t.Fatalf("%d, %d, %v", len(b), len(rest), err)
	}
	for cut := range len(one) {
		if _, _, err := Next(one[:cut]); !errors.Is(err, ErrShort) {
			t.Fatalf("cut at %d: %v", cut, err)
		}
	}
	for name, damage := range map[string]func(Batch){
		"magic 1":          func(b Batch) { b[magicAt] = 1 },
		"magic 3":          func(b Batch) { b[magicAt] = 3 },
		"magic −1":         func(b Batch) { b[magicAt] = 0xff },
		"negative length":  func(b Batch) { b.put32(lengthAt, -1) },
		"length of legacy": func(b Batch) { b.put32(lengthAt, 14) },
		"length 48":        func(b Batch) { b.put32(lengthAt, 48) },
	} {
		b := Batch(slices.Clone(two))
		damage(b)
		if _, _, err := Next(b); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSequencesWrap(t *testing.T) {
	for _, c := range []struct{ from, by, want int32 }{
		{0, 0, 0}, {5, 3, 8}, {math.MaxInt32, 1, 0}, {math.MaxInt32 - 1, 4, 2}, {math.MaxInt32, math.MaxInt32, math.MaxInt32 - 1},
	} {
		if got := IncrementSequence(c.from, c.by); got != c.want {
			t.Errorf("%d+%d = %d, want %d", c.from, c.by, got, c.want)
		}
		if got := DecrementSequence(c.want, c.by); got != c.from {
			t.Errorf("%d−%d = %d, want %d", c.want, c.by, got, c.from)
		}
	}
}

func TestVarints(t *testing.T) {
	for _, v := range []int64{0, 1, -1, 63, 64, -64, -65, math.MaxInt32, math.MinInt32} {
		b := appendVarint(nil, v)
		if got, next := readVarint(b, 0); int64(got) != v || next != len(b) || next != varintSize(v) {
			t.Errorf("%d: %d, %d", v, got, next)
		}
		for cut := range len(b) {
			if _, next := readVarint(b[:cut], 0); next != varintCut {
				t.Errorf("%d cut at %d: %d", v, cut, next)
			}
		}
	}
	for _, v := range []int64{0, -1, 64, math.MaxInt64, math.MinInt64} {
		b := appendVarint(nil, v)
		if got, next := readVarlong(b, 0); got != v || next != len(b) || next != varintSize(v) {
			t.Errorf("%d: %d, %d", v, got, next)
		}
	}
	ff := []byte(strings.Repeat("\xff", 11))
	if _, next := readVarint(ff, 0); next != varintLong {
		t.Errorf("varint over 5 bytes: %d", next)
	}
	if _, next := readVarlong(ff, 0); next != varintLong {
		t.Errorf("varlong over 10 bytes: %d", next)
	}
}

// encode makes a payload of hand-written record bodies.
func encode(bodies ...[]byte) []byte {
	var payload []byte
	for _, body := range bodies {
		payload = append(appendVarint(payload, int64(len(body))), body...)
	}
	return payload
}

// wrap makes a signed batch of a payload that may be wrong, compressing it with codec.
func wrap(t testing.TB, codec Codec, count int32, payload []byte) Batch {
	t.Helper()
	compressed, err := appendCompressed(make([]byte, HeaderSize), Compression{Codec: codec}, payload)
	if err != nil {
		t.Fatal(err)
	}
	return wrapCompressed(codec, count, compressed[HeaderSize:])
}

func wrapCompressed(codec Codec, count int32, compressed []byte) Batch {
	b := Batch(append(make([]byte, HeaderSize), compressed...))
	copy(b, mustBuild(clientOptions(codec)))
	b.put32(lengthAt, int32(len(b)-Overhead))
	b.put32(lastOffsetDeltaAt, count-1)
	b.put32(recordCountAt, count)
	b.sign()
	return b
}

func mustBuild(o BuildOptions) Batch {
	b, err := Build(o, []Record{{TimestampMs: 1}})
	if err != nil {
		panic(err)
	}
	return b[:HeaderSize]
}

// wrongBodies are records whose lengths and counts lie; good is one that does not.
var (
	goodBody    = []byte{0, 0, 0, 2, 'k', 2, 'v', 0}
	wrongBodies = map[string][]byte{
		"empty body":                     {},
		"attributes only":                {0},
		"no value":                       {0, 0, 0, 2, 'k'},
		"no header count":                {0, 0, 0, 1, 1},
		"key longer than the body":       {0, 0, 0, 100, 'k', 2, 'v', 0},
		"value longer than the body":     {0, 0, 0, 2, 'k', 100, 'v', 0},
		"bytes after the headers":        {0, 0, 0, 1, 1, 0, 0},
		"negative header count":          {0, 0, 0, 1, 1, 1},
		"header count over what is left": {0, 0, 0, 1, 1, 20, 0, 0},
		"header count 2 billion":         {0, 0, 0, 1, 1, 0xfe, 0xff, 0xff, 0xff, 0x0f},
		"null header key":                {0, 0, 0, 1, 1, 2, 1, 1},
		"header key over the body":       {0, 0, 0, 1, 1, 2, 40, 1},
		"header value over the body":     {0, 0, 0, 1, 1, 2, 0, 40},
		"offset delta of 6 bytes":        {0, 0, 0x80, 0x80, 0x80, 0x80, 0x80, 0, 1, 1, 0},
		"timestamp delta of 11 bytes":    {0, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0, 0, 1, 1, 0},
	}
)

func TestLyingRecords(t *testing.T) {
	payloads := map[string][]byte{
		"count above the records":   encode(goodBody),
		"bytes after the records":   append(encode(goodBody, goodBody), 0),
		"size over the batch":       {0xfe, 0x0f, 0, 0},
		"negative size":             {1},
		"size of 6 bytes":           {0x80, 0x80, 0x80, 0x80, 0x80, 0x01},
		"size of 2 GiB":             {0xfe, 0xff, 0xff, 0xff, 0x0f, 0, 0},
		"nothing":                   {},
		"third record, not counted": encode(goodBody, goodBody, goodBody),
	}
	for name, body := range wrongBodies {
		payloads[name] = encode(goodBody, body)
	}
	for name, payload := range payloads {
		for _, codec := range allCodecs {
			t.Run(fmt.Sprintf("%s/%s", name, codec.name()), func(t *testing.T) {
				b := wrap(t, codec, 2, payload)
				var last error
				for _, err := range b.Records() {
					last = err
				}
				if !errors.Is(last, kerr.InvalidRecord) {
					t.Errorf("iterator: %v", last)
				}
				if _, err := Validate(b, clientPolicy()); !errors.Is(err, kerr.InvalidRecord) {
					t.Errorf("Validate: %v", err)
				}
			})
		}
	}
	for _, codec := range allCodecs {
		if _, err := Validate(wrap(t, codec, 2, encode(goodBody, []byte{0, 0, 2, 2, 'k', 2, 'v', 0})), clientPolicy()); err != nil {
			t.Errorf("%s: the good one of this test is refused: %v", codec.name(), err)
		}
	}
}

func clientPolicy() *Policy {
	return &Policy{
		Topic:           "t",
		Partition:       3,
		Target:          Compression{Codec: Producer},
		BeforeMaxMs:     math.MaxInt64,
		AfterMaxMs:      3_600_000,
		MaxMessageBytes: 1_048_588,
		NowMs:           1_000_000,
		ProduceVersion:  9,
	}
}
