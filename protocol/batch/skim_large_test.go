package batch

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/iotest"
)

// assertSkimmedAlike fails unless a record that is only passed over gets the answer of one that is parsed.
func assertSkimmedAlike(t *testing.T, stream []byte, reader func(io.Reader) io.Reader) {
	t.Helper()
	parse := func(sizesOnly bool) (v recordView, pos int64, err error) {
		const limit = 1 << 20
		r := streamReader(reader(bytes.NewReader(stream)), func() {}, limit)
		defer r.Close()
		size, err := r.nextSize()
		if err != nil {
			return v, 0, err
		}
		if sizesOnly {
			err = r.skimLarge(size, &v)
		} else {
			var body []byte
			if body, err = r.body(size); err == nil {
				err = v.parse(body)
			}
		}
		v.key, v.value, v.headers, v.tail = nil, nil, nil, nil
		return v, limit - r.leftBytes - int64(len(r.buf)-r.pos), err
	}
	want, wantPos, wantErr := parse(false)
	got, gotPos, gotErr := parse(true)
	if (wantErr == nil) != (gotErr == nil) {
		t.Fatalf("parsed: %v; skimmed: %v", wantErr, gotErr)
	}
	if wantErr == nil {
		if gotPos != wantPos || got.keySize != want.keySize || got.valueSize != want.valueSize ||
			got.timestampDelta != want.timestampDelta || got.offsetDelta != want.offsetDelta || got.headerCount != want.headerCount {
			t.Fatalf("parsed %+v up to %d, skimmed %+v up to %d", want, wantPos, got, gotPos)
		}
		return
	}
	var a, b *Error
	if !errors.As(wantErr, &a) || !errors.As(gotErr, &b) || a.Code != b.Code {
		t.Fatalf("parsed: %v; skimmed: %v", wantErr, gotErr)
	}
}

// A record as the encoder writes it, of sizes around the window's, whole, cut and with bytes changed.
func TestSkimLarge(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	sizes := []int{0, 1, 63, 64, 8191, 8192, windowBytes - 20, windowBytes, windowBytes + 1, 100_000}
	bytesOf := func() []byte {
		if rnd.IntN(5) == 0 {
			return nil
		}
		return make([]byte, sizes[rnd.IntN(len(sizes))])
	}
	for range 400 {
		r := Record{Key: bytesOf(), Value: bytesOf()}
		for range rnd.IntN(3) {
			r.Headers = append(r.Headers, Header{Key: string(bytesOf()), Value: bytesOf()})
		}
		e := newEncoder(BuildOptions{})
		e.add(rnd.Int64N(1<<40), 0, Record{})
		e.records = e.records[:0]
		e.add(rnd.Int64N(1<<40), rnd.Int32N(1<<20), r)
		stream := append(bytes.Clone(e.records), make([]byte, rnd.IntN(3))...)
		e.free()
		if rnd.IntN(3) == 0 {
			stream = stream[:rnd.IntN(len(stream))]
		}
		if rnd.IntN(3) == 0 && len(stream) > 0 {
			stream[rnd.IntN(min(len(stream), 30))] ^= 1 << rnd.IntN(8)
		}
		assertSkimmedAlike(t, stream, func(r io.Reader) io.Reader { return r })
		if len(stream) < 1<<12 {
			assertSkimmedAlike(t, stream, iotest.OneByteReader)
		}
	}
}

func FuzzSkimLarge(f *testing.F) {
	e := newEncoder(BuildOptions{})
	e.add(5, 0, Record{Key: []byte("k"), Value: []byte("value"), Headers: []Header{{Key: "h", Value: []byte("v")}, {Key: "n"}}})
	f.Add(bytes.Clone(e.records))
	e.free()
	f.Fuzz(func(t *testing.T, stream []byte) {
		assertSkimmedAlike(t, stream, func(r io.Reader) io.Reader { return r })
	})
}

// What a bomb costs is a window, however large its one record is.
func TestLargeRecordIsNotHeld(t *testing.T) {
	const size = 24 << 20
	for _, c := range []Codec{Gzip, Lz4, Zstd, Snappy} {
		b, err := Build(BuildOptions{Codec: c, ProducerID: NoProducerID, BaseSequence: -1}, []Record{{Value: make([]byte, size)}})
		if err != nil {
			t.Fatal(err)
		}
		p := &Policy{Target: Compression{Codec: Producer}, MaxMessageBytes: 8 << 20, BeforeMaxMs: 1 << 60, AfterMaxMs: 1 << 60, ProduceVersion: 9}
		allocated := bytesPerRun(func() {
			if _, err := Validate(b, p); err != nil {
				t.Fatal(err)
			}
		})
		if allocated > size/2 {
			t.Errorf("codec %d: %d MiB for one record of %d", c, allocated>>20, size>>20)
		}
	}
}

func TestTimes(t *testing.T) {
	for _, c := range allCodecs {
		records := []Record{{Offset: 4, TimestampMs: caseNow, Value: make([]byte, 3*windowBytes)}, {Offset: 5, TimestampMs: caseNow + 7, Key: []byte("k")}}
		o := clientOptions(c)
		o.BaseOffset = 4
		b := build(t, o, records...)
		var got []RecordTime
		for r, err := range b.Times(0) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, r)
		}
		if want := []RecordTime{{4, caseNow}, {5, caseNow + 7}}; !slices.Equal(got, want) {
			t.Errorf("%s: %v", c.name(), got)
		}
		var last error
		for _, last = range b[:len(b)-1].Times(0) {
		}
		if last == nil {
			t.Errorf("%s: a cut batch has no error", c.name())
		}
	}
}
