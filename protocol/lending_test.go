package protocol

import (
	"encoding/binary"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/internal/memory"
)

func TestShareOfRequestsHoldsReadersBack(t *testing.T) {
	parked := make(chan *Request, 10)
	h := (&testHandler{}).on(produceKey, func(r *Request) { parked <- r })
	s := startServer(t, h, Options{MaxQueuedBytes: 100_000})
	first, second, small := s.dial(), s.dial(), s.dial()
	first.send(1, produce(1, make([]byte, 300_000))) // larger than the share: passes alone
	r := <-parked
	second.send(1, produce(1, make([]byte, 90_000)))
	eventually(t, "the second waits", func() bool { return s.o.Memory.Requests.Waiting() == 1 })
	small.send(1, produce(1, make([]byte, 1000)))
	if got := <-parked; got.SizeBytes > 2000 {
		t.Fatal("a large request was read beyond the share")
	} else {
		got.Respond(kmsg.NewPtrProduceResponse())
	}
	small.expect(1)
	r.Respond(kmsg.NewPtrProduceResponse())
	first.expect(1)
	(<-parked).Respond(kmsg.NewPtrProduceResponse())
	second.expect(1)
}

// stallFrame claims size bytes, and sends all but a few of them.
func (p *testPeer) stallFrame(size, sent int) {
	p.sendRaw(binary.BigEndian.AppendUint32(nil, uint32(size)))
	go func() { _, _ = p.Write(make([]byte, sent)) }() // blocks while the server waits for memory
}

// Frames that stall hold the share of large requests: small ones and those of the cluster's own nodes pass, another
// large one has them cut.
func TestStalledFramesAreCut(t *testing.T) {
	const share = 1 << 20
	s := startServer(t, &testHandler{}, Options{MaxQueuedBytes: share, FrameTimeout: time.Hour})
	requests := s.o.Memory.Requests
	var stalled []*testPeer
	for range 5 {
		p := s.dial()
		p.stallFrame(4<<20, 3<<20)
		stalled = append(stalled, p)
	}
	eventually(t, "one frame is elected and all others wait", func() bool { return requests.Waiting() == len(stalled)-1 && requests.UsedBytes() > share })
	if used := requests.UsedBytes(); used > share+5<<20 {
		t.Errorf("%d bytes are lent of %d", used, share)
	}
	small := s.dial()
	small.send(1, produce(1, make([]byte, 1000)))
	small.expect(1)
	s.trustNext(t)
	node := s.dial()
	node.send(1, heartbeat("a"))
	node.expect(1)
	node.send(2, produce(1, make([]byte, 500_000)))
	node.expect(2)
	good := s.dial()
	good.send(1, produce(1, make([]byte, 500_000)))
	now := time.Now()
	for range stalled { // each one that is cut lets the next begin
		s.reapOnce(now)
		eventually(t, "the next frame stalls, or none is left", func() bool { return requests.Waiting() == 0 || s.receiving() > 0 })
		time.Sleep(20 * time.Millisecond)
		s.reapOnce(now)
		now = now.Add(stallPatience)
		s.reapOnce(now)
	}
	good.expect(1)
}

// trustNext has the server trust connections from their next heartbeat on.
func (s *testServer) trustNext(t *testing.T) {
	t.Helper()
	s.handler.(*testHandler).on(heartbeatKey, func(r *Request) {
		r.Conn.Trust()
		r.Respond(kmsg.NewPtrHeartbeatResponse())
	})
}

// receiving is how many connections are in the middle of a frame, and not waiting for memory.
func (s *testServer) receiving() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		if c.frames.began.Load() != 0 {
			n++
		}
	}
	return n
}

func TestStalledFrameThatIsInNobodysWayStays(t *testing.T) {
	s := startServer(t, &testHandler{}, Options{FrameTimeout: time.Hour})
	p := s.dial()
	p.stallFrame(4<<20, 1<<20)
	eventually(t, "it comes", func() bool { return s.receiving() == 1 })
	s.reapOnce(time.Now())
	s.reapOnce(time.Now().Add(10 * stallPatience))
	if s.open() != 1 {
		t.Error("a slow frame was cut though nobody waits")
	}
}

// A request that waits for its acknowledgement holds no memory once its body was released.
func TestReleasedBodyIsLentToOthers(t *testing.T) {
	parked := make(chan *Request, 100)
	h := (&testHandler{}).on(produceKey, func(r *Request) {
		r.ReleaseBody()
		parked <- r
	})
	s := startServer(t, h, Options{MaxQueuedBytes: 200_000})
	p := s.dial()
	for i := range int32(20) {
		p.send(i, produce(-1, make([]byte, 150_000)))
	}
	for range 20 {
		(<-parked).Respond(kmsg.NewPtrProduceResponse())
	}
	for i := range int32(20) {
		p.expect(i)
	}
}

func TestDecodedFormIsBorrowedFor(t *testing.T) {
	parked := make(chan *Request, 1)
	h := (&testHandler{}).on(fetchKey, func(r *Request) { parked <- r })
	s := startServer(t, h, Options{})
	fetch := kmsg.NewPtrFetchRequest()
	fetch.Version = 11
	topic := kmsg.NewFetchRequestTopic()
	topic.Topic, topic.Partitions = "t", make([]kmsg.FetchRequestTopicPartition, 100_000)
	fetch.Topics = append(fetch.Topics, topic)
	p := s.dial()
	p.send(1, fetch)
	r := <-parked
	if lent := s.lent(); lent < 100_000*32 {
		t.Errorf("%d bytes are lent to a request of 100,000 decoded partitions", lent)
	}
	r.Respond(kmsg.NewPtrFetchResponse())
}

// weighing is a handler whose Metadata responses are large.
type weighing struct {
	*testHandler
	sizeBytes int
	built     atomic.Int32
}

func (w *weighing) Weigh(r *Request) int64 {
	if r.Key == metadataKey {
		return int64(w.sizeBytes)
	}
	return 0
}

const metadataKey = 3

func (w *weighing) metadata(r *Request) {
	w.built.Add(1)
	r.RespondParts([]Part{{Bytes: make([]byte, w.sizeBytes)}}, nil)
}

func metadata() *kmsg.MetadataRequest {
	req := kmsg.NewPtrMetadataRequest()
	req.Version = 9
	return req
}

// Peers that ask for large responses and do not read them hold no more than the share; others are served, and at last
// those are cut.
func TestUnreadResponsesAreBounded(t *testing.T) {
	const size = 8 << 20
	h := &weighing{testHandler: &testHandler{}, sizeBytes: size}
	h.on(metadataKey, h.metadata)
	ledger := memory.New(8 * (3*size + 1<<20)) // room for three
	s := startServer(t, h, Options{Memory: ledger, SendBufferBytes: 64 << 10})
	for range 10 {
		p := s.dial()
		for i := range int32(20) {
			p.send(i, metadata())
		}
	}
	eventually(t, "the share is lent", func() bool { return ledger.Responses.Waiting() == 7 && h.built.Load() == 3 })
	if used := ledger.Responses.UsedBytes(); used > 3*size+3<<20 {
		t.Errorf("%d bytes are lent", used)
	}
	good := s.dial()
	good.send(1, produce(1, make([]byte, 100)))
	good.expect(1)
	good.send(2, metadata())
	for now := time.Now(); ledger.Responses.Waiting() > 0; now = now.Add(time.Second) {
		s.reapOnce(now.Add(unreadPatience))
		time.Sleep(5 * time.Millisecond)
	}
	good.expect(2)
}

// What a client has asked for is not looked up any more once it is gone; what it has written is.
func TestWorkForTheGoneIsDropped(t *testing.T) {
	h := &weighing{testHandler: &testHandler{}, sizeBytes: 4 << 20}
	var produced atomic.Int32
	h.on(metadataKey, h.metadata)
	h.on(produceKey, func(r *Request) {
		produced.Add(1)
		r.NoResponse()
	})
	s := startServer(t, h, Options{SendBufferBytes: 64 << 10})
	p := s.dial()
	var all []byte
	for i := range int32(50) {
		all = append(all, encodeRequest(metadata(), i)...)
	}
	p.sendRaw(append(all, encodeRequest(produce(0, make([]byte, 100)), 50)...))
	eventually(t, "the first is being sent", func() bool { return h.built.Load() >= 1 && s.sending() == 1 })
	time.Sleep(50 * time.Millisecond)
	p.Close()
	eventually(t, "the write was done", func() bool { return produced.Load() == 1 })
	if n := h.built.Load(); n > 5 {
		t.Errorf("%d responses were built for a client that read none", n)
	}
}

func (s *testServer) sending() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		if c.sendingSince.Load() != 0 {
			n++
		}
	}
	return n
}

func TestWaitForMemoryEndsWithTheConnection(t *testing.T) {
	s := startServer(t, &testHandler{}, Options{MaxQueuedBytes: 1 << 20})
	s.o.Memory.Requests.Force(1 << 20)
	p := s.dial()
	p.stallFrame(1<<20, 1<<20)
	eventually(t, "it waits", func() bool { return s.o.Memory.Requests.Waiting() == 1 })
	s.mu.Lock()
	for c := range s.conns {
		go c.cut()
	}
	s.mu.Unlock()
	eventually(t, "it has ended", func() bool { return s.open() == 0 && s.o.Memory.Requests.Waiting() == 0 })
	s.o.Memory.Requests.Give(1 << 20)
}
