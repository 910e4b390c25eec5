package protocol

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"os"
	"reflect"
	"runtime"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/internal/memory"
)

// eachVersion calls f for every key and version that has a schema and that kmsg knows.
func eachVersion(f func(s *requestSchema, version int16)) {
	all := requestSchemas()
	for key := range FormKey + 1 {
		s := all[key]
		req := newRequest(key)
		if s == nil || req == nil {
			continue
		}
		for v := s.versions.min; v <= min(s.versions.max, req.MaxVersion()); v++ {
			f(s, v)
		}
	}
}

// fillRandom sets v to random values, arrays to up to width elements.
func fillRandom(rnd *rand.Rand, v reflect.Value, width int) {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(rnd.IntN(2) == 1)
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(rnd.Int64() >> (64 - v.Type().Bits()))
	case reflect.Uint8, reflect.Uint16, reflect.Uint32:
		v.SetUint(rnd.Uint64() >> (64 - v.Type().Bits()))
	case reflect.Float64:
		v.SetFloat(rnd.Float64())
	case reflect.String:
		v.SetString(string(make([]byte, rnd.IntN(200))))
	case reflect.Pointer:
		if rnd.IntN(2) == 1 {
			v.Set(reflect.New(v.Type().Elem()))
			fillRandom(rnd, v.Elem(), width)
		}
	case reflect.Slice:
		n := rnd.IntN(width + 1)
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			fillRandom(rnd, v.Index(i), width)
		}
	case reflect.Array:
		for i := range v.Len() {
			fillRandom(rnd, v.Index(i), width)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.Name == "UnknownTags" {
				tags := v.Field(i).Addr().Interface().(*kmsg.Tags)
				for range rnd.IntN(3) {
					tags.Set(90+rnd.Uint32N(1000), make([]byte, rnd.IntN(3)))
				}
			} else if f.IsExported() && f.Name != "Version" {
				fillRandom(rnd, v.Field(i), width)
			}
		}
	}
}

func randomRequest(rnd *rand.Rand, key, version int16, width int) kmsg.Request {
	req := newRequest(key)
	fillRandom(rnd, reflect.ValueOf(req).Elem(), width)
	req.SetVersion(version)
	return req
}

func TestScanKnowsEveryKeyOfKafka44(t *testing.T) {
	var keys []int16
	for key := range requestSchemas() {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	var want []int16
	for key := range int16(95) {
		if key < 4 || key > 7 {
			want = append(want, key)
		}
	}
	want = append(want, RaftKey, ForwardKey, FormKey, JoinKey, HelloKey, VouchKey, WitnessKey)
	if !slices.Equal(keys, want) {
		t.Errorf("keys %v", keys)
	}
	for _, key := range keys {
		req := newRequest(key)
		if req == nil {
			t.Logf("kmsg does not know key %d", key)
		} else if max := requestSchemas()[key].versions.max; req.MaxVersion() < max {
			t.Logf("kmsg knows key %d to version %d, Kafka to %d", key, req.MaxVersion(), max)
		}
	}
}

// What kmsg encodes, the scan walks to its last byte; a cut body is refused, and so is one whose decoding fails.
func TestScanAgreesWithKmsg(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	eachVersion(func(s *requestSchema, version int16) {
		for range 20 {
			body := randomRequest(rnd, s.key, version, 3).AppendTo(nil)
			c := scanner{src: body, limit: 1 << 30}
			c.structure(s.shape(version))
			if c.err != nil || len(c.src) > 0 {
				t.Fatalf("%s v%d: %v at field %q, %d of %d bytes left", s.name, version, c.err, c.field, len(c.src), len(body))
			}
			cut := rnd.IntN(len(body) + 1)
			_, err := scanRequest(s, version, body[:cut])
			if cut < len(body) && !errors.Is(err, ErrMalformed) && !errors.Is(err, ErrTooLarge) {
				t.Fatalf("%s v%d: %d of %d bytes were accepted", s.name, version, cut, len(body))
			}
		}
	})
}

// The estimate is no less than the decoded structs really take.
func TestScanEstimateCoversTheDecodedForm(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	eachVersion(func(s *requestSchema, version int16) {
		body := randomRequest(rnd, s.key, version, 8).AppendTo(nil)
		c := scanner{src: body, limit: 1 << 30}
		c.structure(s.shape(version))
		estimate := c.decoded + s.shape(version).decodedBytes
		if got := allocated(func() { _ = decodeOnce(s, version, body) }); float64(got) > allocTolerance*float64(estimate)+4096 {
			t.Errorf("%s v%d: %d bytes decode to %d, estimated %d", s.name, version, len(body), got, estimate)
		}
	})
}

func decodeOnce(s *requestSchema, version int16, body []byte) error {
	_, _, err := decodeBody(s, version, body)
	return err
}

// allocated is how many bytes f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// Whatever a body holds, decoding it costs a few times its size, for every key, in its first and last version, and
// every array in it; with GRETE_LONG bodies have 20 MiB.
func TestLargeBodiesDecodeInProportion(t *testing.T) {
	size := 256 << 10
	if os.Getenv("GRETE_LONG") != "" {
		size = 20 << 20
	}
	refused := 0
	eachVersion(func(s *requestSchema, version int16) {
		if version != s.versions.min && version != min(s.versions.max, kmsg.RequestForKey(s.key).MaxVersion()) {
			return
		}
		sh := s.shape(version)
		for _, hostile := range hostileBodies(sh, size) {
			var err error
			got := allocated(func() { err = decodeOnce(s, version, hostile) })
			if float64(got) > allocTolerance*float64(decodeFactor*size+decodeSlackBytes) {
				t.Errorf("%s v%d: %d KiB for a body of %d", s.name, version, got>>10, size>>10)
			}
			if errors.Is(err, ErrTooLarge) {
				refused++
			} else if err != nil {
				t.Errorf("%s v%d: the test's body is wrong: %v", s.name, version, err)
			}
		}
	})
	if refused == 0 {
		t.Error("no body was out of proportion: the test shows nothing")
	}
}

// hostileBodies are valid bodies of about size bytes, each with one array, or one section of unknown tags, full of the
// smallest elements, and all else empty.
func hostileBodies(sh *shape, size int) (out [][]byte) {
	for i := range sh.fields {
		f := &sh.fields[i]
		before, after := smallest(sh.fields[:i], sh.flexible), smallest(sh.fields[i+1:], sh.flexible)
		if sh.flexible {
			after = append(after, 0)
		}
		wrap := func(value []byte) { out = append(out, slices.Concat(before, value, after)) }
		if f.array {
			one := *f
			one.array, one.nullable = false, false
			elem := smallestField(&one, sh.flexible)
			n := size / len(elem)
			wrap(slices.Concat(arrayLength(n, sh.flexible), bytes.Repeat(elem, n)))
		}
		if f.kind != kindStruct {
			continue
		}
		for _, inner := range hostileBodies(f.elem, size) {
			if f.array {
				inner = append(arrayLength(1, sh.flexible), inner...)
			} else if f.nullable {
				inner = append([]byte{1}, inner...)
			}
			wrap(inner)
		}
	}
	if sh.flexible {
		n := min(size/4, maxTags)
		tags := smallest(sh.fields, true)
		tags = binary.AppendUvarint(tags, uint64(n))
		for i := range n {
			tags = binary.AppendUvarint(tags, uint64(1<<14+i%(1<<20)))
			tags = append(tags, 0)
		}
		out = append(out, tags)
	}
	return out
}

func arrayLength(n int, flexible bool) []byte {
	if flexible {
		return binary.AppendUvarint(nil, uint64(n+1))
	}
	return binary.BigEndian.AppendUint32(nil, uint32(n))
}

// smallest encodes fields empty, and present.
func smallest(fields []shapeField, flexible bool) (b []byte) {
	for i := range fields {
		b = append(b, smallestField(&fields[i], flexible)...)
	}
	return b
}

func smallestField(f *shapeField, flexible bool) []byte {
	switch {
	case f.array:
		return arrayLength(0, flexible)
	case f.kind == kindFixed:
		return make([]byte, f.wire)
	case f.kind == kindStruct:
		var b []byte
		if f.nullable {
			b = append(b, 1)
		}
		b = append(b, smallest(f.elem.fields, f.elem.flexible)...)
		if f.elem.flexible {
			b = append(b, 0)
		}
		return b
	case flexible:
		return []byte{1}
	case f.kind == kindString:
		return []byte{0, 0}
	}
	return []byte{0, 0, 0, 0}
}

func TestScanRefusesNullWhereKafkaDoes(t *testing.T) {
	s := requestSchemas()[19] // CreateTopics
	body := []byte{0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0}
	if _, err := scanRequest(s, 2, body); !errors.Is(err, ErrMalformed) {
		t.Errorf("a null array of topics: %v", err)
	}
	var typed *RequestError
	if _, err := scanRequest(s, 2, body); !errors.As(err, &typed) || typed.Field != "Topics" || typed.Key != 19 {
		t.Errorf("error without coordinates: %#v", err)
	}
}

func TestScanAcceptsTrailingBytesAndStrangeTags(t *testing.T) {
	s := requestSchemas()[heartbeatKey]
	body := heartbeat("g").AppendTo(nil)
	body = append(body[:len(body)-1],
		3,           // tags, unsorted and repeated
		90, 2, 1, 2, // tag 90, two bytes
		80, 0,
		90, 1, 7)
	if _, err := scanRequest(s, 4, body); err != nil {
		t.Error(err)
	}
	if _, err := scanRequest(s, 4, append(body, 1, 2, 3)); err != nil {
		t.Error(err)
	}
	if _, err := scanRequest(s, 4, append(body[:len(body)-3], 90, 9, 7)); !errors.Is(err, ErrMalformed) {
		t.Errorf("a tag longer than the body: %v", err)
	}
}

func FuzzDecode(f *testing.F) {
	rnd := rand.New(rand.NewPCG(5, 6))
	eachVersion(func(s *requestSchema, version int16) {
		f.Add(s.key, version, randomRequest(rnd, s.key, version, 2).AppendTo(nil))
	})
	f.Fuzz(func(t *testing.T, key, version int16, body []byte) {
		s := requestSchemas()[key]
		if s == nil || kmsg.RequestForKey(key) == nil || !s.versions.has(version) || version > kmsg.RequestForKey(key).MaxVersion() {
			return
		}
		found, err := scanRequest(s, version, body)
		if err != nil {
			return
		}
		if found.rewrite {
			body = rewriteRequest(s, version, body)
		}
		req := newRequest(key)
		req.SetVersion(version)
		if err := req.ReadFrom(body); err != nil {
			t.Errorf("%s v%d: the scan accepts what kmsg refuses (%v): %x", s.name, version, err, body)
		}
	})
}

func FuzzHeader(f *testing.F) {
	f.Add(encodeRequest(heartbeat("g"), 7)[lengthBytes:])
	f.Add(encodeRequest(produce(1, []byte("x")), 7)[lengthBytes:])
	srv := &Server{handler: &testHandler{}}
	for _, v := range srv.handler.Versions() {
		if kmsg.RequestForKey(v.Key) != nil {
			srv.addSchema(v)
		}
	}
	ledger := memory.New(1 << 40)
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < minHeaderBytes {
			return
		}
		c := &Conn{server: srv}
		buf := getBuffer(len(b))
		whole := frame{buf: buf, bytes: buf.b[:copy(buf.b, b)]}
		whole.loan.From(ledger.Requests)
		r, err := c.decode(whole)
		if err != nil {
			return
		}
		if r.Body == nil && r.Key != apiVersionsKey {
			t.Errorf("key %d v%d reached the handler without a body", r.Key, r.Version)
		}
		if got := int32(binary.BigEndian.Uint32(b[4:])); r.CorrelationID != got {
			t.Errorf("correlation id %d, sent %d", r.CorrelationID, got)
		}
	})
}
