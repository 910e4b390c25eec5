package oracle

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"reflect"
	"strings"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Falsifier is a proxy before a broker that changes one field in one response: what it changes, a comparison has
// to find. Without a field to falsify it only takes down which fields responses had.
type Falsifier struct {
	key     int16
	version int16
	path    string // such as Topics[].Partitions[].ErrorCode; empty: survey
	broker  string
	l       net.Listener

	mu    sync.Mutex
	done  bool            // the field was falsified
	paths map[string]bool // seen, and changing them changes the bytes
	conns []net.Conn
	wg    sync.WaitGroup
}

// Falsify starts a proxy to broker that falsifies path in the first response of key and version that has it.
func Falsify(broker string, key, version int16, path string) (*Falsifier, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	f := &Falsifier{key: key, version: version, path: path, broker: broker, l: l, paths: map[string]bool{}}
	f.wg.Go(f.accept)
	return f, nil
}

// Addr is where clients connect to.
func (f *Falsifier) Addr() string { return f.l.Addr().String() }

// Falsified reports whether the field was there to be changed.
func (f *Falsifier) Falsified() bool { f.mu.Lock(); defer f.mu.Unlock(); return f.done }

// Paths are the fields that responses of the key had.
func (f *Falsifier) Paths() map[string]bool { f.mu.Lock(); defer f.mu.Unlock(); return f.paths }

// Close ends the proxy and its connections.
func (f *Falsifier) Close() {
	f.l.Close()
	f.mu.Lock()
	for _, c := range f.conns {
		c.Close()
	}
	f.mu.Unlock()
	f.wg.Wait()
}

func (f *Falsifier) accept() {
	for {
		client, err := f.l.Accept()
		if err != nil {
			return
		}
		from, _, _ := net.SplitHostPort(client.RemoteAddr().String()) // rights may depend on it
		broker, err := dialFrom(from, f.broker)
		if err != nil {
			client.Close()
			continue
		}
		f.mu.Lock()
		f.conns = append(f.conns, client, broker)
		f.mu.Unlock()
		var asked sync.Map // correlation id → kmsg.Response to decode into
		f.wg.Go(func() { f.requests(client, broker, &asked) })
		f.wg.Go(func() { f.responses(broker, client, &asked) })
	}
}

// requests passes frames on and remembers which of them ask for the key. What is no frame is passed on as it is.
func (f *Falsifier) requests(client, broker net.Conn, asked *sync.Map) {
	defer broker.Close()
	defer client.Close()
	for {
		b, err := readFrame(client)
		if err != nil {
			return
		}
		if f.concerns(b) {
			resp := kmsg.ResponseForKey(f.key)
			resp.SetVersion(f.version)
			asked.Store(binary.BigEndian.Uint32(b[4:]), resp)
		}
		if _, err := broker.Write(frameOf(b)); err != nil {
			return
		}
	}
}

// concerns tells requests of the key and version, but those that only set a scenario up.
func (f *Falsifier) concerns(b []byte) bool {
	return len(b) >= 10 && int16(binary.BigEndian.Uint16(b)) == f.key && int16(binary.BigEndian.Uint16(b[2:])) == f.version &&
		!bytes.HasPrefix(b[10:], []byte(setupClient))
}

func (f *Falsifier) responses(broker, client net.Conn, asked *sync.Map) {
	defer client.Close()
	defer broker.Close()
	for {
		b, err := readFrame(broker)
		if err != nil {
			return
		}
		if len(b) >= 4 {
			if kind, ok := asked.Load(binary.BigEndian.Uint32(b)); ok {
				b = f.treat(kind.(kmsg.Response), b)
			}
		}
		if _, err := client.Write(frameOf(b)); err != nil {
			return
		}
	}
}

// treat takes down a response's fields, or falsifies the one that was asked for, in all elements that have it.
func (f *Falsifier) treat(kind kmsg.Response, b []byte) []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	resp, err := decodeResponse(kind, f.key, b[4:])
	if err != nil || f.done {
		return b
	}
	before := encodeResponse(resp, f.key)
	if f.path == "" {
		f.survey(resp, before)
		return b
	}
	for _, leaf := range leavesOf(reflect.ValueOf(resp).Elem(), "") {
		if leaf.path == f.path {
			falsify(leaf.field)
		}
	}
	after := encodeResponse(resp, f.key)
	f.done = !bytes.Equal(before, after)
	return append(b[:4:4], after...)
}

// survey tries which fields are on the wire in this version.
func (f *Falsifier) survey(resp kmsg.Response, before []byte) {
	for _, leaf := range leavesOf(reflect.ValueOf(resp).Elem(), "") {
		old := reflect.New(leaf.field.Type()).Elem()
		old.Set(leaf.field)
		if falsify(leaf.field) && !bytes.Equal(before, encodeResponse(resp, f.key)) {
			f.paths[leaf.path] = true
		}
		leaf.field.Set(old)
	}
}

type leaf struct {
	path  string
	field reflect.Value
}

// leavesOf lists a response's fields down to scalars; lists are fields too, which lose their last element.
func leavesOf(v reflect.Value, path string) []leaf {
	switch v.Kind() {
	case reflect.Struct:
		var out []leaf
		for i := range v.NumField() {
			name := v.Type().Field(i).Name
			if name != "Version" && name != "UnknownTags" {
				out = append(out, leavesOf(v.Field(i), strings.TrimPrefix(path+"."+name, "."))...)
			}
		}
		return out
	case reflect.Slice:
		out := []leaf{{path, v}}
		if v.Type().Elem().Kind() == reflect.Struct {
			for i := range v.Len() {
				out = append(out, leavesOf(v.Index(i), path+"[]")...)
			}
		}
		return out
	case reflect.Pointer:
		if !v.IsNil() && v.Elem().Kind() == reflect.Struct {
			return leavesOf(v.Elem(), path)
		}
	}
	return []leaf{{path, v}}
}

// falsify changes a field and reports whether it could.
func falsify(v reflect.Value) bool {
	const far = int64(1_000_000_000) // beyond what counts as "now"
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Int8, reflect.Int16, reflect.Int32:
		v.SetInt(v.Int() + 1)
	case reflect.Uint16:
		v.SetUint(v.Uint() ^ 1)
	case reflect.Int64:
		v.SetInt(v.Int() + far)
	case reflect.String:
		v.SetString(v.String() + "x")
	case reflect.Array:
		id := v.Interface().([16]byte)
		id[3] ^= 1
		v.Set(reflect.ValueOf(id))
	case reflect.Pointer:
		return falsifyPointer(v)
	case reflect.Slice:
		if v.Len() == 0 {
			return false
		}
		v.Set(reflect.AppendSlice(reflect.MakeSlice(v.Type(), 0, v.Len()), v.Slice(0, v.Len()-1)))
	default:
		panic(fmt.Sprintf("cannot falsify %v", v.Type()))
	}
	return true
}

// falsifyPointer makes null of a text and a text of null.
func falsifyPointer(v reflect.Value) bool {
	if v.Type().Elem().Kind() != reflect.String {
		return false
	}
	if v.IsNil() {
		v.Set(reflect.ValueOf(ptr("falsified")))
	} else {
		v.SetZero()
	}
	return true
}
