package protocol

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// ownKeys are of the requests that only nodes send each other.
func ownKeys() (keys []int16) {
	for key := range requestSchemas() {
		if isOwn(key) {
			keys = append(keys, key)
		}
	}
	return keys
}

// FuzzOwnRequests: what the scan lets pass is decoded, and says the same once it was encoded again.
func FuzzOwnRequests(f *testing.F) {
	seed(f, func(req kmsg.Request) []byte { return req.AppendTo(nil) })
	f.Fuzz(func(t *testing.T, key int16, body []byte) {
		s := requestSchemas()[key]
		if s == nil || !isOwn(key) {
			return
		}
		if _, err := scanRequest(s, 0, body); err != nil {
			return
		}
		req := newRequest(key)
		if err := req.ReadFrom(body); err != nil {
			t.Fatalf("%s: the scan accepts what is not decoded (%v): %x", s.name, err, body)
		}
		again := newRequest(key)
		encoded := req.AppendTo(nil)
		if err := again.ReadFrom(encoded); err != nil || !bytes.Equal(again.AppendTo(nil), encoded) {
			t.Fatalf("%s: %+v became %+v, %v", s.name, req, again, err)
		}
	})
}

// FuzzOwnResponses: a node that answers anything at all harms nobody.
func FuzzOwnResponses(f *testing.F) {
	seed(f, func(req kmsg.Request) []byte { return req.ResponseKind().AppendTo(nil) })
	f.Fuzz(func(t *testing.T, key int16, body []byte) {
		if !isOwn(key) || newRequest(key) == nil {
			return
		}
		resp := newRequest(key).ResponseKind()
		if resp.ReadFrom(body) != nil {
			return
		}
		again := newRequest(key).ResponseKind()
		encoded := resp.AppendTo(nil)
		if err := again.ReadFrom(encoded); err != nil || !bytes.Equal(again.AppendTo(nil), encoded) || len(encoded) > len(body) {
			t.Fatalf("%T: %+v became %+v, %v", resp, resp, again, err)
		}
	})
}

func seed(f *testing.F, encode func(kmsg.Request) []byte) {
	for _, key := range ownKeys() {
		req := newRequest(key)
		f.Add(key, encode(req))
		v := reflect.ValueOf(req).Elem()
		for i := range v.NumField() {
			switch field := v.Field(i); field.Kind() {
			case reflect.String:
				field.SetString("text")
			case reflect.Int16, reflect.Int32, reflect.Int64:
				field.SetInt(7)
			case reflect.Slice:
				field.Set(reflect.MakeSlice(field.Type(), 3, 3))
			}
		}
		f.Add(key, encode(req))
	}
}

// Lengths that lie are refused before anything is allocated for them.
func TestOwnRequestsBoundTheirArrays(t *testing.T) {
	huge := []byte{0, 1, 'c', 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff}
	for _, key := range ownKeys() {
		for n := range huge {
			body := append(bytes.Clone(huge[n:]), make([]byte, 64)...)
			allocated := testing.AllocsPerRun(1, func() {
				if _, err := DecodeRequest(key, 0, body); err == nil {
					return
				}
				_ = newRequest(key).ResponseKind().ReadFrom(body)
			})
			if allocated > 100 {
				t.Errorf("key %d: %v allocations for %x", key, allocated, body)
			}
		}
	}
}
