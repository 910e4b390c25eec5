package oracle

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// framingScenarios are what is around and in front of a request's meaning: frames, headers, versions, tags, order.
func framingScenarios(l *list) {
	for _, key := range slices.Sorted(maps.Keys(versions)) {
		if key != 18 { // ApiVersions has scenarios of its own
			l.one(key, versions[key][1]+1, fmt.Sprintf("framing/outside the range/key %d", key), func(s *Session) { outsideRange(s, key) })
		}
		l.between(key, versions[key][0], versions[key][1], fmt.Sprintf("framing/bodies/key %d", key), func(s *Session, v int16) { malformedBodies(s, key, v) })
	}
	l.one(0, 0, "framing/unknown keys", func(s *Session) {
		for _, key := range []int16{-1, 4, 5, 6, 7, 95, 96, 1000, 32767} {
			for _, version := range []int16{0, 1} {
				c := s.Conn()
				c.SendRaw(fmt.Sprintf("key %d v%d", key, version), frameOf(headerBytes(key, version))).Wait()
			}
		}
	})
	l.one(0, 0, "framing/frames", framesScenario)
	l.one(0, 0, "framing/headers", headersScenario)
	l.one(0, 0, "framing/pipelined", pipelined)
	l.one(0, 0, "framing/after our close", halfClosed)
	l.one(3, 12, "framing/tags", tagsScenario)
	l.between(1, 12, 18, "framing/known tags", knownTagsScenario)
	l.between(3, 1, 13, "framing/names that are no UTF-8", notUTF8)
	l.one(3, 8, "framing/bools", boolsScenario)
}

func headerBytes(key, version int16) []byte {
	b := binary.BigEndian.AppendUint16(nil, uint16(key))
	b = binary.BigEndian.AppendUint16(b, uint16(version))
	return append(b, 0, 0, 0, 1, 0xff, 0xff)
}

// outsideRange asks for versions just outside the range, with bodies that would be right.
func outsideRange(s *Session, key int16) {
	for _, version := range []int16{-1, versions[key][0] - 1, versions[key][1] + 1, 32767} {
		c := s.Conn()
		c.SendRaw(fmt.Sprintf("key %d v%d", key, version), frameOf(append(headerBytes(key, version), 0, 0, 0, 0, 0))).Wait()
	}
}

// malformedBodies bends the body of a request with all fields at their defaults.
func malformedBodies(s *Session, key, version int16) {
	req := kmsg.RequestForKey(key)
	if d, ok := req.(interface{ Default() }); ok {
		d.Default()
	}
	if p, ok := req.(*kmsg.ProduceRequest); ok {
		p.Acks = 1 // with the default 0 there is no answer
	}
	req.SetVersion(version)
	body := req.AppendTo(nil)
	bend := func(note string, b []byte) {
		fresh := kmsg.RequestForKey(key)
		s.Conn().SendBody(version, fresh, b).Note(note).Soon().Alive().Wait()
	}
	if len(body) > 0 {
		bend("cut by one byte", body[:len(body)-1])
		bend("empty", nil)
	}
	bend("trailing bytes", append(slices.Clone(body), 1, 2, 3))
	bend("all ones", slices.Repeat([]byte{0xff}, 40))
	bend("huge lengths", slices.Repeat([]byte{0x7f}, 40))
}

func framesScenario(s *Session) {
	send := func(note string, raw []byte) {
		c := s.Conn()
		c.SendRaw(note, raw)
		c.pending = nil
		c.Silence(4 * time.Second)
	}
	send("length 0", []byte{0, 0, 0, 0})
	send("length 1", []byte{0, 0, 0, 1, 0})
	send("length -1", []byte{0xff, 0xff, 0xff, 0xff})
	send("length too large", []byte{0x7f, 0xff, 0xff, 0xff})
	send("one over socket.request.max.bytes", binary.BigEndian.AppendUint32(nil, 104857601))
	send("http", []byte("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"))
	send("half a length", []byte{0, 0})
	send("half a frame", []byte{0, 0, 0, 20, 0, 18, 0, 0})
	for n := range 10 {
		send(fmt.Sprintf("a header of %d bytes", n), frameOf(headerBytes(18, 0)[:n]))
	}
}

func headersScenario(s *Session) {
	for _, h := range []struct {
		note string
		rest []byte // after key and version and correlation id
	}{
		{"client id empty", []byte{0, 0}},
		{"client id null", []byte{0xff, 0xff}},
		{"client id -2", []byte{0xff, 0xfe}},
		{"client id beyond the frame", []byte{0, 50, 'a'}},
		{"client id not UTF-8", []byte{0, 2, 0xff, 0xfe}},
	} {
		c := s.Conn()
		c.SendRaw("ApiVersions v0, "+h.note, frameOf(append([]byte{0, 18, 0, 0, 0, 0, 0, 9}, h.rest...)))
		c.pending = nil
		c.Silence(4 * time.Second)
	}
	for _, h := range []struct {
		note string
		tags []byte
	}{
		{"no tags", []byte{0}},
		{"an unknown tag", []byte{1, 77, 1, 5}},
		{"unsorted tags", []byte{2, 9, 0, 3, 0}},
		{"a tag twice", []byte{2, 9, 0, 9, 0}},
		{"a tag beyond the frame", []byte{1, 9, 100, 0}},
		{"tag count huge", []byte{0xff, 0xff, 0xff, 0xff, 0x07}},
	} {
		c := s.Conn()
		raw := append([]byte{0, 3, 0, 12, 0, 0, 0, 9, 0xff, 0xff}, h.tags...)
		c.SendRaw("Metadata v12, "+h.note, frameOf(append(raw, 1, 0, 0, 0)))
		c.pending = nil
		c.Silence(4 * time.Second)
	}
}

// pipelined sends many requests before it reads; the answers come in their order.
func pipelined(s *Session) {
	t := s.Topic("t", 2)
	c := s.Conn()
	var calls []*Call
	slow := fetch(t, 0, 3)
	calls = append(calls, c.Send(11, slow).Note("out of range"))
	slow = fetch(t, 1, 0) // not the partition that the requests behind it write: they need not wait
	slow.MinBytes = 100_000
	calls = append(calls, c.Send(11, slow).Note("parked until its time").Timed(500*time.Millisecond))
	for i := range 20 {
		switch i % 4 {
		case 0:
			calls = append(calls, c.Send(9, produce(t, 0, -1, batch(codecNone, text("x")).bytes())))
		case 1:
			calls = append(calls, c.Send(4, listOffsets(t, 0, -1, 0)))
		case 2:
			c.SendNoAnswer(9, produce(t, 0, 0, batch(codecNone, text("y")).bytes()))
		case 3:
			calls = append(calls, c.Send(8, metadata(&t.name)))
		}
	}
	for _, call := range calls {
		call.Wait()
	}
	c.Do(4, listOffsets(t, 0, -1, 0))
}

// halfClosed: requests sent before the client's FIN are still done.
func halfClosed(s *Session) {
	t := s.Topic("t", 1)
	c := s.Conn()
	c.SendNoAnswer(9, produce(t, 0, 0, batch(codecNone, text("x")).bytes()))
	c.SendNoAnswer(9, produce(t, 0, 0, batch(codecNone, text("y")).bytes()))
	c.Close()
	s.await(func() bool { return s.logEnd(t, 0) == 2 }, "records sent before the close")
	s.Conn().Do(4, listOffsets(t, 0, -1, 0))
}

func tagsScenario(s *Session) {
	t := s.Topic("t", 1)
	for _, f := range []struct {
		note string
		tags []byte
	}{
		{"unknown", []byte{1, 90, 2, 1, 2}},
		{"unsorted", []byte{2, 90, 0, 80, 0}},
		{"twice", []byte{2, 90, 0, 90, 0}},
		{"beyond the body", []byte{1, 90, 60, 1}},
		{"count huge", []byte{0xff, 0xff, 0xff, 0xff, 0x0f}},
		{"count too large", []byte{3, 90, 0}},
	} {
		req := metadata(&t.name)
		req.SetVersion(12)
		body := req.AppendTo(nil)
		s.Conn().SendBody(12, metadata(), append(body[:len(body)-1], f.tags...)).Note(f.note).Wait()
	}
}

// knownTagsScenario: the size before a tagged field that is known is not looked at (the cluster id of Fetch, tag 0).
func knownTagsScenario(s *Session, v int16) {
	for _, f := range []struct {
		note string
		tags []byte
	}{
		{"as long as it says", []byte{1, 0, 2, 2, 'x'}},
		{"longer", []byte{1, 0, 1, 2, 'x'}},
		{"longer than nothing", []byte{1, 0, 0, 2, 'x'}},
		{"shorter", []byte{1, 0, 9, 2, 'x'}},
		{"size beyond the body", []byte{1, 0, 100, 2, 'x'}},
		{"size huge", []byte{1, 0, 0xff, 0xff, 0xff, 0xff, 0x0f, 2, 'x'}},
		{"shorter, and an unknown one behind", []byte{2, 0, 9, 2, 'x', 90, 2, 1, 2}},
		{"the value beyond the body", []byte{1, 0, 2, 20, 'x'}},
		{"null", []byte{1, 0, 7, 0}},
	} {
		req := kmsg.NewPtrFetchRequest()
		req.MaxBytes, req.MinBytes, req.SessionEpoch = 1<<20, 1, -1
		req.SetVersion(v)
		body := req.AppendTo(nil)
		s.Conn().SendBody(v, kmsg.NewPtrFetchRequest(), append(body[:len(body)-1], f.tags...)).Note(f.note).Wait()
	}
}

func notUTF8(s *Session, v int16) {
	c := s.Conn()
	for i, name := range []string{"\xff", "a\xffb", "\xff\xfe", "\xe2\x82", "\xe2\x82a", "\xf0\x9f\x92a", "\xf0\x9f\x92", "\xc0\x80", "\xed\xa0\x80", "\xed\xa0\x80\xed\xb0\x80", "\xf4\x90\x80\x80", "\xf8\x88\x80\x80\x80", "\x80", "\xc3", "\xe0\x80\x80", "\xf0\x80\x80\x80", "\xe1\x80\xe2\xf0\x91\x92\xf1\xbf\x41"} {
		c.Send(v, metadata(ptr(name))).Note(fmt.Sprintf("%d: %x", i, name)).Wait()
	}
}

func boolsScenario(s *Session) {
	t := s.Topic("t", 1)
	for _, b := range []byte{0, 1, 2, 255} {
		req := metadata(&t.name)
		req.SetVersion(8)
		body := req.AppendTo(nil)
		body[len(body)-1] = b
		s.Conn().SendBody(8, metadata(), body).Note(fmt.Sprintf("bool %d", b)).Wait()
	}
}
