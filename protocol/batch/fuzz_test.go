package batch

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
)

// goldenBatches are batches that Kafka 4.4's own Java code compressed.
func goldenBatches(t testing.TB) map[string]Batch {
	t.Helper()
	names, err := filepath.Glob("testdata/java/*.batch")
	if err != nil || len(names) == 0 {
		t.Fatalf("no golden batches: %v", err)
	}
	golden := map[string]Batch{}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		golden[filepath.Base(name)] = data
	}
	return golden
}

func TestGoldenBatches(t *testing.T) {
	for name, b := range goldenBatches(t) {
		if !b.ChecksumOK() || b.Codec().name()+".batch" != name {
			t.Errorf("%s: checksum or codec %s", name, b.Codec().name())
		}
		got := collect(t, b)
		if len(got) != 3 || string(got[0].Key) != "k" || string(got[0].Value) != "value" || got[2].Key != nil ||
			!reflect.DeepEqual(got[1].Headers, []Header{{Key: "h", Value: []byte("x")}, {Key: "n"}}) {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func addSeeds(f *testing.F, add func(raw []byte)) {
	for _, b := range goldenBatches(f) {
		add(b)
	}
	for _, c := range validationCases(f) {
		add(c.raw)
	}
}

// resign makes the checksum right, so that damage reaches what lies behind it.
func resign(raw []byte) []byte {
	b := Batch(slices.Clone(raw))
	if len(b) >= HeaderSize {
		b.put32(lengthAt, int32(len(b)-Overhead))
		b[magicAt] = currentMagic
		b.sign()
	}
	return b
}

func FuzzRecords(f *testing.F) {
	addSeeds(f, func(raw []byte) { f.Add(raw) })
	f.Fuzz(func(t *testing.T, raw []byte) {
		b, rest, err := Next(resign(raw))
		if err != nil {
			if !errors.Is(err, ErrShort) && !errors.Is(err, ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		if len(rest) != 0 || b.SizeBytes() != len(b) {
			t.Fatalf("%d of %d bytes, %d left", b.SizeBytes(), len(b), len(rest))
		}
		var records []Record
		for r, err := range b.Records() {
			if err != nil {
				var e *Error
				if !errors.As(err, &e) {
					t.Fatalf("not an *Error: %v", err)
				}
				return
			}
			if len(records) < 100 {
				r.Key, r.Value = bytes.Clone(r.Key), bytes.Clone(r.Value)
				records = append(records, r)
			}
		}
		if b.RecordCount() > 0 && len(records) == 0 {
			t.Fatal("records vanished without an error")
		}
	})
}

func FuzzValidate(f *testing.F) {
	topics := make([]string, 0, len(policies))
	for topic := range policies {
		topics = append(topics, topic)
	}
	slices.Sort(topics)
	addSeeds(f, func(raw []byte) { f.Add(raw, uint8(0)) })
	f.Fuzz(func(t *testing.T, raw []byte, topic uint8) {
		p := policyOf(topics[int(topic)%len(topics)], caseNow, 9)
		p.MaxMessageBytes = min(p.MaxMessageBytes, 1<<16) // keeps what a bomb may cost small
		raw = resign(raw)
		_, _ = checkRequest(&RequestCheck{Version: int16(topic) % 14}, raw)
		checkSkim(t, raw, p)
		r, err := Validate(slices.Clone(raw), p)
		if err != nil {
			var e *Error
			if !errors.As(err, &e) || e.Code == nil {
				t.Fatalf("not an *Error: %v", err)
			}
			return
		}
		if len(raw) >= HeaderSize && (Batch(raw).TimestampType() == LogAppendTime || p.Timestamp == LogAppendTime) {
			return // one time stood for all records; what they say themselves was not looked at
		}
		again := *p
		again.Target = Compression{Codec: Producer}
		if _, err := Validate(slices.Clone(r.Batch), &again); err != nil {
			t.Fatalf("what was accepted is refused: %v", err)
		}
	})
}

// checkSkim holds the fast path to the slow one's answer.
func checkSkim(t *testing.T, raw []byte, p *Policy) {
	b, _, err := Next(raw)
	if err != nil || b.Codec() != None || b.TimestampType() == LogAppendTime || b.RecordCount() <= 0 {
		return
	}
	fast, fastErr := checkRecords(p, b)
	slow := recordCheck{policy: p, batch: b, maxMs: NoTimestamp, sequential: true}
	slow, slowErr := slow.rest(0, 0)
	if !reflect.DeepEqual(fastErr, slowErr) || (fastErr == nil && fast.maxMs != slow.maxMs) {
		t.Fatalf("fast: %v, %d; slow: %v, %d", fastErr, fast.maxMs, slowErr, slow.maxMs)
	}
}

func FuzzCodecs(f *testing.F) {
	for _, b := range goldenBatches(f) {
		f.Add(uint8(b.Codec()), []byte(b[HeaderSize:]))
	}
	f.Add(uint8(Snappy), snappyEncode([]byte("a raw block")))
	f.Fuzz(func(t *testing.T, codec uint8, data []byte) {
		c := Codec(codec % uint8(codecs))
		const limit = 1 << 20
		if b := wrapCompressed(c, 1<<20, data); c != None {
			if r, err := b.openRecords(&recordWalk{limitBytes: limit}); err == nil {
				for read := 0; err == nil; {
					var size int
					if size, err = r.nextSize(); err == nil {
						_, err = r.body(size)
					}
					if read += size; err == nil && read > limit {
						t.Fatalf("%d bytes", read)
					}
				}
				r.Close()
			}
		}
		compressed, err := appendCompressed(nil, Compression{Codec: c, Level: int(codec) % 10}, data)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := decompress(c, compressed); err != nil || !bytes.Equal(got, data) {
			t.Fatalf("%d bytes came back of %d: %v", len(got), len(data), err)
		}
	})
}

// decompress reads a payload whole, whatever it holds.
func decompress(c Codec, compressed []byte) ([]byte, error) {
	if c == None {
		return compressed, nil
	}
	r, err := openCompressed(c, compressed, 1<<30)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	var all []byte
	for err == nil {
		all = append(all, r.buf[r.pos:]...)
		r.pos = len(r.buf)
		err = r.fill()
	}
	if err == errCut {
		err = nil
	}
	return all, err
}
