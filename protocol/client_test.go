package protocol

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// brokerHandler answers ApiVersions as a broker does that knows versions up to 3 of it, heartbeats up to version 2, and
// SASL.
func brokerHandler() *testHandler {
	h := &testHandler{}
	h.on(apiVersionsKey, func(r *Request) {
		resp := kmsg.NewPtrApiVersionsResponse()
		if r.Version > 3 {
			resp.ErrorCode = unsupportedVersionCode
			r.Body = nil
		} else {
			for key, last := range map[int16]int16{heartbeatKey: 2, saslHandshakeKey: 1, saslAuthenticateKey: 2} {
				k := kmsg.NewApiVersionsResponseApiKey()
				k.ApiKey, k.MaxVersion = key, last
				resp.ApiKeys = append(resp.ApiKeys, k)
			}
		}
		r.Respond(resp)
	})
	return h
}

func dialClient(t *testing.T, addr string, o ClientOptions) *Client {
	t.Helper()
	c, err := Dial(context.Background(), addr, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func TestClientNegotiatesAndPipelines(t *testing.T) {
	h := brokerHandler()
	h.on(heartbeatKey, func(r *Request) {
		if r.Version != 2 {
			t.Errorf("version %d, both sides know 2", r.Version)
		}
		var n int32
		_, _ = fmt.Sscan(r.Body.(*kmsg.HeartbeatRequest).Group, &n)
		resp := kmsg.NewPtrHeartbeatResponse()
		resp.ThrottleMillis = n
		go r.Respond(resp)
	})
	c := dialClient(t, startServer(t, h, Options{}).addr, ClientOptions{ClientID: "node-1", MaxInFlight: 5})
	var calls sync.WaitGroup
	for n := range int32(100) {
		calls.Go(func() {
			resp, err := c.Call(context.Background(), heartbeat(fmt.Sprint(n)))
			if err != nil || resp.(*kmsg.HeartbeatResponse).ThrottleMillis != n {
				t.Errorf("call %d: %v, %v", n, resp, err)
			}
		})
	}
	calls.Wait()
	if _, err := c.Call(context.Background(), kmsg.NewPtrMetadataRequest()); !errors.Is(err, ErrNoVersion) {
		t.Errorf("a key that the broker does not serve: %v", err)
	}
}

func TestClientCallEndsWithItsContext(t *testing.T) {
	parked := make(chan *Request, 2)
	h := brokerHandler().on(heartbeatKey, func(r *Request) { parked <- r })
	c := dialClient(t, startServer(t, h, Options{}).addr, ClientOptions{})
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if _, err := c.Call(ctx, heartbeat("a")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("call: %v", err)
	}
	second := make(chan error, 1)
	go func() {
		_, err := c.Call(context.Background(), heartbeat("b"))
		second <- err
	}()
	for range 2 { // the late response is dropped, the next one found
		r := <-parked
		r.Respond(r.Body.ResponseKind())
	}
	if err := <-second; err != nil {
		t.Error(err)
	}
}

// A call is answered while the next one cannot be written, because the peer reads nothing until its answer is taken.
func TestClientReadsWhileAWriteIsBlocked(t *testing.T) {
	ours, theirs := net.Pipe()
	defer theirs.Close()
	answered := make(chan struct{})
	go slowPeer(theirs, answered)
	c := dialClient(t, "", ClientOptions{Dial: func(context.Context, string) (net.Conn, error) { return ours, nil }})
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	first, second := make(chan error, 1), make(chan error, 1)
	call := func(done chan error) {
		_, err := c.Call(ctx, heartbeat("g"))
		done <- err
	}
	go call(first)
	go call(second)
	select {
	case err := <-first:
		first <- err
	case err := <-second:
		second <- err
	case <-ctx.Done():
		theirs.Close()
		t.Fatal("the answer waits for the next request's write")
	}
	close(answered)
	for _, done := range []chan error{first, second} {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// slowPeer answers ApiVersions and two heartbeats, and reads the second heartbeat's request after answered is closed.
// Before it answers the first, the second is on its way.
func slowPeer(nc net.Conn, answered chan struct{}) {
	respond := func(id []byte, resp kmsg.Response) {
		body := append(append([]byte(nil), id...), resp.AppendTo(nil)...)
		_, _ = nc.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...))
	}
	read := func() (id []byte) {
		var length [lengthBytes]byte
		_, _ = io.ReadFull(nc, length[:])
		body := make([]byte, binary.BigEndian.Uint32(length[:]))
		_, _ = io.ReadFull(nc, body)
		return body[4:min(8, len(body))]
	}
	versions := kmsg.NewPtrApiVersionsResponse()
	k := kmsg.NewApiVersionsResponseApiKey()
	k.ApiKey, k.MaxVersion = heartbeatKey, 2
	versions.ApiKeys = append(versions.ApiKeys, k)
	versions.Version = 3
	respond(read(), versions)
	heartbeats := kmsg.NewPtrHeartbeatResponse()
	heartbeats.Version = 2
	id := read()
	var begun [1]byte
	_, _ = io.ReadFull(nc, begun[:]) // the second call is in its write
	respond(id, heartbeats)
	<-answered
	var rest [lengthBytes - 1]byte
	_, _ = io.ReadFull(nc, rest[:])
	n := binary.BigEndian.Uint32(append(begun[:], rest[:]...))
	body := make([]byte, n)
	_, _ = io.ReadFull(nc, body)
	respond(body[4:8], heartbeats)
}

func TestClientFailsAllCallsWithTheConnection(t *testing.T) {
	h := brokerHandler().on(heartbeatKey, func(r *Request) { r.Abort("test") })
	c := dialClient(t, startServer(t, h, Options{}).addr, ClientOptions{})
	if _, err := c.Call(context.Background(), heartbeat("a")); err == nil {
		t.Error("a call without response succeeded")
	}
	if _, err := c.Call(context.Background(), heartbeat("a")); err == nil {
		t.Error("a call on a lost connection succeeded")
	}
}

func TestClientRefusesLongResponses(t *testing.T) {
	h := brokerHandler().on(heartbeatKey, func(r *Request) { r.RespondParts([]Part{{Bytes: make([]byte, 5000)}}, nil) })
	c := dialClient(t, startServer(t, h, Options{}).addr, ClientOptions{MaxResponseBytes: 4096})
	if _, err := c.Call(context.Background(), heartbeat("a")); !errors.Is(err, ErrMalformed) {
		t.Errorf("call: %v", err)
	}
}

func TestDialToNobody(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	if _, err := Dial(context.Background(), addr, ClientOptions{}); err == nil {
		t.Error("connected to nobody")
	}
}
