package faults

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// roomForGarbage is by how much a broker may grow while it refuses bad input: buffers that its collector has not yet
// seen.
const roomForGarbage = 48 << 20

func be32(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n) }

// Bytes that are no request end the connection, and cost nothing.
func TestBadFrames(t *testing.T) {
	b := start(t, nil)
	assertServes(t, b)
	before := rssBytes(t, b)
	for name, bytes := range map[string][]byte{
		"negative length":             be32(0xffffffff),
		"smallest length":             be32(0x80000000),
		"empty frame":                 be32(0),
		"length over the limit":       be32(100<<20 + 1),
		"HTTP":                        []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
		"HTTP/2":                      []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
		"TLS hello":                   {0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3},
		"header only":                 bodyFrame(3, 1, nil),
		"header cut":                  append(be32(8), 0, 3, 0, 1, 0, 0, 0, 1),
		"client id longer than frame": append(be32(10), 0, 3, 0, 1, 0, 0, 0, 1, 0x7f, 0xff),
		"unknown key":                 bodyFrame(999, 0, nil),
		"negative key":                bodyFrame(-1, 0, nil),
		"removed key":                 bodyFrame(4, 0, nil),
		"version above":               bodyFrame(3, 99, nil),
		"version below":               bodyFrame(1, 0, nil),
		"negative version":            bodyFrame(3, -1, nil),
		"produce v0":                  bodyFrame(0, 0, []byte{0, 1, 0, 0, 0, 0, 0, 0, 0, 0}),
	} {
		t.Run(name, func(t *testing.T) {
			nc := dial(t, b)
			send(t, nc, bytes)
			assertClosed(t, nc, patience)
		})
	}
	assertServes(t, b)
	if grown := rssBytes(t, b) - before; grown > roomForGarbage {
		t.Errorf("grew by %d MiB", grown>>20)
	}
	if n := strings.Count(logOf(b), "connection closed"); n > 15 {
		t.Errorf("%d log lines for one burst of bad input", n)
	}
}

// servedVersions asks the broker what it serves.
func servedVersions(t *testing.T, nc net.Conn) []kmsg.ApiVersionsResponseApiKey {
	t.Helper()
	return call[*kmsg.ApiVersionsResponse](t, nc, 0, kmsg.NewPtrApiVersionsRequest()).ApiKeys
}

// Every key at its first and last version: a body that says it has as many elements as bytes, lengths that reach beyond
// the end, a cut body, and a tag section that is huge. The connection ends or the request is answered; memory is in
// proportion.
func TestBombsOnEveryKey(t *testing.T) {
	b := start(t, nil)
	before := rssBytes(t, b)
	size := 2 << 20
	if long {
		size = 20 << 20
	}
	bombs := map[string][]byte{
		"zeros": make([]byte, size), "ones": bytes.Repeat([]byte{1}, size), "max": bytes.Repeat([]byte{0xff}, size),
		"long array": append(be32(uint32(size)), make([]byte, size)...), "long compact array": append(binary.AppendUvarint(nil, uint64(size)), bytes.Repeat([]byte{1}, size)...),
		"array of 2^31": be32(0x7fffffff), "compact array of 2^31": {0xff, 0xff, 0xff, 0xff, 7}, "endless varint": bytes.Repeat([]byte{0x80}, 64),
		"nothing": nil, "one byte": {0},
	}
	for _, api := range servedVersions(t, dial(t, b)) {
		for name, bomb := range bombs {
			for _, version := range []int16{api.MinVersion, api.MaxVersion} {
				nc := dial(t, b)
				_, _ = nc.Write(bodyFrame(api.ApiKey, version, bomb)) // the broker may close before all is sent
				_ = nc.CloseWrite()
				if _, err := io.Copy(io.Discard, nc); isTimeout(err) {
					t.Errorf("%s v%d, %s: neither answered nor closed", kmsg.NameForKey(api.ApiKey), version, name)
				}
				nc.Close()
			}
		}
	}
	assertServes(t, b)
	if grown := peakBytes(t, b) - before; grown > int64(24*size)+roomForGarbage {
		t.Errorf("grew by %d MiB on bodies of %d MiB", grown>>20, size>>20)
	}
}

func isTimeout(err error) bool {
	e, ok := err.(net.Error)
	return ok && e.Timeout()
}

// Tagged fields: a section of a hundred thousand, one of a megabyte, and one that claims more than there is.
func TestTaggedFields(t *testing.T) {
	b := start(t, nil)
	many := binary.AppendUvarint(nil, 100_000)
	for i := range 100_000 {
		many = append(binary.AppendUvarint(many, uint64(i)), 0)
	}
	metadata := kmsg.NewPtrMetadataRequest()
	metadata.SetVersion(12)
	metadata.Topics = []kmsg.MetadataRequestTopic{}
	body := metadata.AppendTo(nil)
	body = body[:len(body)-1] // its own, empty section
	for name, section := range map[string][]byte{
		"too many": many, "claims more": append([]byte{1, 5}, 0xff, 0xff, 0xff, 0xff, 7), "cut": {1}, "length cut": {1, 5},
	} {
		nc := dial(t, b)
		send(t, nc, bodyFrame(3, 12, append(body[:len(body):len(body)], section...)))
		t.Run(name, func(t *testing.T) { assertClosed(t, nc, patience) })
	}
	// In the header, too.
	nc := dial(t, b)
	send(t, nc, append(be32(uint32(10+len(many))), append([]byte{0, 3, 0, 12, 0, 0, 0, 7, 0xff, 0xff}, many...)...))
	assertClosed(t, nc, patience)
	// A large unknown one and repeated ones are accepted, as by Kafka.
	big := append(binary.AppendUvarint([]byte{3, 5}, 1<<20), make([]byte, 1<<20)...)
	big = append(big, 5, 0, 5, 0)
	nc = dial(t, b)
	send(t, nc, bodyFrame(3, 12, append(body[:len(body):len(body)], big...)))
	if _, err := readAnswer(nc); err != nil {
		t.Errorf("unknown tags: %v", err)
	}
	assertServes(t, b)
}

// A frame that comes byte by byte is served as long as it comes; memory is what was received, not what was announced.
func TestSlowAndUnfinishedFrames(t *testing.T) {
	b := start(t, nil)
	before := rssBytes(t, b)
	for range 200 { // 20 GB are announced
		nc := dial(t, b)
		send(t, nc, append(be32(100<<20), 0, 3, 0, 1))
	}
	nc := dial(t, b)
	for _, octet := range requestFrame(0, kmsg.NewPtrApiVersionsRequest()) {
		send(t, nc, []byte{octet})
		time.Sleep(5 * time.Millisecond)
	}
	if _, err := readAnswer(nc); err != nil {
		t.Errorf("a byte at a time: %v", err)
	}
	assertServes(t, b)
	if grown := rssBytes(t, b) - before; grown > roomForGarbage {
		t.Errorf("grew by %d MiB on 200 beginnings of frames", grown>>20)
	}
}

// What is announced and never comes is given up; the deadline is half a minute.
func TestUnfinishedFrameIsGivenUp(t *testing.T) {
	if !long {
		t.Skip("takes half a minute: GRETE_LONG=1")
	}
	b := start(t, nil)
	for name, begun := range map[string][]byte{"half a length": {0, 0}, "half a frame": append(be32(1000), 0, 3)} {
		nc := dial(t, b)
		send(t, nc, begun)
		t.Run(name, func(t *testing.T) {
			_ = nc.SetDeadline(time.Now().Add(time.Minute))
			assertClosed(t, nc, 45*time.Second)
		})
	}
}

func TestIdleAndTooManyConnections(t *testing.T) {
	b := start(t, properties{"connections.max.idle.ms": "1000", "max.connections.per.ip": "20"})
	first := time.Now()
	idle := dial(t, b)
	var conns []net.Conn
	refused := 0
	for range 60 {
		nc := dial(t, b)
		conns = append(conns, nc)
		_ = nc.SetDeadline(time.Now().Add(patience))
		if _, err := try[*kmsg.ApiVersionsResponse](nc, 0, kmsg.NewPtrApiVersionsRequest()); err != nil {
			refused++
		}
	}
	if refused < 41 || refused > 45 {
		t.Errorf("%d of 60 connections refused, with a limit of 20", refused)
	}
	assertClosed(t, idle, patience)
	if lived := time.Since(first); lived < time.Second {
		t.Errorf("idle connection closed after %v", lived)
	}
	for _, nc := range conns {
		nc.Close()
	}
	waitFor(t, "places to be free again", func() bool {
		nc, err := net.Dial("tcp", b.Addr)
		if err != nil {
			return false
		}
		defer nc.Close()
		_, err = try[*kmsg.ApiVersionsResponse](nc, 0, kmsg.NewPtrApiVersionsRequest())
		return err == nil
	})
	if n := strings.Count(logOf(b), "max.connections.per.ip"); n < 1 || n > 5 {
		t.Errorf("%d log lines about refused connections", n)
	}
}

// At max.connections the next ones wait until a place is free, and are served then.
func TestMaxConnections(t *testing.T) {
	b := start(t, properties{"max.connections": "10"})
	var held []net.Conn
	for range 10 {
		nc := dial(t, b)
		call[*kmsg.ApiVersionsResponse](t, nc, 0, kmsg.NewPtrApiVersionsRequest())
		held = append(held, nc)
	}
	waiting := dial(t, b)
	send(t, waiting, requestFrame(0, kmsg.NewPtrApiVersionsRequest()))
	_ = waiting.SetReadDeadline(time.Now().Add(300 * time.Millisecond))
	if _, err := readAnswer(waiting); !isTimeout(err) {
		t.Fatalf("the eleventh connection: %v", err)
	}
	held[0].Close()
	_ = waiting.SetReadDeadline(time.Now().Add(patience))
	if _, err := readAnswer(waiting); err != nil {
		t.Errorf("after a place was free: %v", err)
	}
	for _, nc := range append(held, waiting) {
		nc.Close()
	}
	assertServes(t, b)
}

// Two thousand connections that say nothing, and as many that were cut off: memory and descriptors come back.
func TestFloodOfConnections(t *testing.T) {
	b := start(t, nil)
	assertServes(t, b)
	filesBefore, before := openFiles(t, b), rssBytes(t, b)
	var conns []net.Conn
	for i := range 2000 {
		nc, err := net.Dial("tcp", b.Addr)
		if err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		conns = append(conns, nc)
		if i%2 == 0 {
			_, _ = nc.Write(be32(1 << 20)[:1+i%4])
		}
	}
	assertServes(t, b)
	if grown := rssBytes(t, b) - before; grown > 2000*25<<10+roomForGarbage {
		t.Errorf("%d KiB for each connection", grown>>10/2000)
	}
	for _, nc := range conns {
		_ = nc.(*net.TCPConn).SetLinger(0)
		nc.Close()
	}
	waitFor(t, "descriptors to come back", func() bool { return openFiles(t, b) < filesBefore+20 })
	assertServes(t, b)
}

// The broker answers the requests before a bad one, and nothing after it.
func TestBadRequestAmongGoodOnes(t *testing.T) {
	b := start(t, nil)
	good := requestFrame(0, kmsg.NewPtrApiVersionsRequest())
	for name, bad := range map[string][]byte{"length": be32(0xffffffff), "key": bodyFrame(999, 0, nil), "body": bodyFrame(3, 1, []byte{0, 0, 0, 9})} {
		nc := dial(t, b)
		send(t, nc, bytes.Join([][]byte{good, good, bad, good}, nil))
		for i := range 2 {
			if _, err := readAnswer(nc); err != nil {
				t.Fatalf("bad %s, answer %d: %v", name, i, err)
			}
		}
		assertClosed(t, nc, patience)
	}
	assertServes(t, b)
}
