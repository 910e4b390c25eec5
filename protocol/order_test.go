package protocol

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/internal/clock"
)

func TestPipelinedResponsesKeepOrder(t *testing.T) {
	parked := make(chan *Request, 3)
	h := (&testHandler{}).on(fetchKey, func(r *Request) { parked <- r })
	p := startServer(t, h, Options{}).dial()
	p.send(1, heartbeat("a"))
	p.send(2, kmsg.NewPtrMetadataRequest())
	fetch := kmsg.NewPtrFetchRequest()
	fetch.Version = 12
	p.send(3, fetch)
	p.send(4, heartbeat("b"))
	p.expect(1, 2)
	p.expectSilence() // 4 is answered, but 3 is not
	(<-parked).Respond(kmsg.NewPtrFetchResponse())
	p.expect(3, 4)
}

// Requests answered at random from many goroutines, some without response, come back in order.
func TestOrderUnderConcurrentAnswers(t *testing.T) {
	h := &testHandler{}
	h.on(heartbeatKey, func(r *Request) {
		group := r.Body.(*kmsg.HeartbeatRequest).Group
		switch rand.IntN(3) {
		case 0:
			r.Respond(r.Body.ResponseKind())
		default:
			go func() {
				time.Sleep(time.Duration(rand.IntN(300)) * time.Microsecond)
				if got := r.Body.(*kmsg.HeartbeatRequest).Group; got != group {
					t.Errorf("the body changed: %q, was %q", got, group)
				}
				r.Respond(r.Body.ResponseKind())
			}()
		}
	})
	h.on(produceKey, func(r *Request) {
		records := r.Body.(*kmsg.ProduceRequest).Topics[0].Partitions[0].Records
		copied := bytes.Clone(records)
		go func() {
			time.Sleep(time.Duration(rand.IntN(300)) * time.Microsecond)
			if !bytes.Equal(records, copied) {
				t.Error("records changed before the request was answered")
			}
			r.NoResponse()
		}()
	})
	p := startServer(t, h, Options{MaxInFlight: 7}).dial()
	const n = 2000
	go func() {
		for i := range int32(n) {
			if i%5 == 0 {
				p.send(-1, produce(0, bytes.Repeat([]byte{byte(i)}, rand.IntN(100_000))))
			}
			p.send(i, heartbeat(fmt.Sprint("g", i)))
		}
	}()
	for i := range int32(n) {
		p.expect(i)
	}
}

func TestAbortSendsWhatCameBeforeAndNothingAfter(t *testing.T) {
	parked := make(chan *Request, 1)
	h := (&testHandler{}).
		on(fetchKey, func(r *Request) { parked <- r }).
		on(produceKey, func(r *Request) { r.Abort("acks=0 with an error") })
	s := startServer(t, h, Options{})
	p := s.dial()
	p.send(1, heartbeat("a"))
	fetch := kmsg.NewPtrFetchRequest()
	fetch.Version = 4
	p.send(2, fetch)
	p.send(3, produce(0, nil))
	p.send(4, heartbeat("b"))
	p.expect(1)
	p.expectSilence()
	(<-parked).Respond(kmsg.NewPtrFetchResponse())
	p.expect(2)
	p.expectClosed()
	eventually(t, "one log line", func() bool { return s.log.lines() == 1 })
}

func TestAbortFromElsewhereDropsLaterAnswers(t *testing.T) {
	parked := make(chan *Request, 1)
	h := (&testHandler{}).on(produceKey, func(r *Request) { parked <- r })
	p := startServer(t, h, Options{}).dial()
	p.send(1, produce(0, nil))
	p.send(2, heartbeat("a"))
	p.expectSilence()
	(<-parked).Abort("later")
	p.expectClosed()
}

func TestSecondAnswerIsDroppedAndLogged(t *testing.T) {
	h := (&testHandler{}).on(heartbeatKey, func(r *Request) {
		r.Respond(r.Body.ResponseKind())
		r.Respond(r.Body.ResponseKind())
	})
	s := startServer(t, h, Options{})
	p := s.dial()
	p.send(1, heartbeat("a"))
	p.send(2, heartbeat("a"))
	p.expect(1, 2)
	p.expectSilence()
	if s.log.lines() != 2 {
		t.Errorf("log: %q", s.log)
	}
}

func TestInFlightBound(t *testing.T) {
	var waiting atomic.Int32
	parked := make(chan *Request, 100)
	h := (&testHandler{}).on(heartbeatKey, func(r *Request) { waiting.Add(1); parked <- r })
	p := startServer(t, h, Options{MaxInFlight: 3}).dial()
	for i := range int32(10) {
		p.send(i, heartbeat("a"))
	}
	eventually(t, "three in flight", func() bool { return waiting.Load() == 3 })
	time.Sleep(20 * time.Millisecond)
	if n := waiting.Load(); n != 3 {
		t.Fatalf("%d requests in flight, 3 are allowed", n)
	}
	for i := range int32(10) {
		r := <-parked
		r.Respond(r.Body.ResponseKind())
		p.expect(i)
	}
}

func TestMuteDelaysTheNextRequest(t *testing.T) {
	const pause = 80 * time.Millisecond
	var served atomic.Bool
	h := (&testHandler{}).on(produceKey, func(r *Request) {
		r.Conn.Mute(pause)
		r.Respond(r.Body.ResponseKind())
	}).on(heartbeatKey, func(r *Request) {
		served.Store(true)
		r.Respond(r.Body.ResponseKind())
	})
	c := clock.NewManual(time.Now())
	p := startServer(t, h, Options{Clock: c}).dial()
	p.sendRaw(append(encodeRequest(produce(1, nil), 1), encodeRequest(heartbeat("a"), 2)...))
	p.expect(1) // the throttled response itself leaves at once
	c.Advance(pause - time.Millisecond)
	time.Sleep(20 * time.Millisecond)
	if served.Load() {
		t.Error("the next request was served before its time")
	}
	c.Advance(time.Millisecond)
	p.expect(2)
}

// Requests sent before the peer's end are done, answers or not.
func TestRequestsBeforeFINAreServed(t *testing.T) {
	var served atomic.Int32
	h := (&testHandler{}).on(produceKey, func(r *Request) { served.Add(1); r.NoResponse() })
	s := startServer(t, h, Options{})
	const n = 200
	p := s.dial()
	var all []byte
	for range n {
		all = append(all, encodeRequest(produce(0, make([]byte, 3000)), 1)...)
	}
	p.sendRaw(all)
	p.Close()
	eventually(t, "all served", func() bool { return served.Load() == n })
}

func TestContextEndsWithTheConnection(t *testing.T) {
	parked := make(chan *Request, 1)
	h := (&testHandler{}).on(produceKey, func(r *Request) { parked <- r })
	p := startServer(t, h, Options{}).dial()
	p.send(1, produce(1, make([]byte, 10)))
	r := <-parked
	p.Close()
	select {
	case <-r.Conn.Context().Done():
	case <-time.After(5 * time.Second):
		t.Fatal("the context lives on")
	}
	r.Respond(kmsg.NewPtrProduceResponse()) // too late, and harmless
}
