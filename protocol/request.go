package protocol

import (
	"encoding/binary"
	"math"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/internal/memory"
	"grete/internal/vfs"
)

// Request is one request of a connection. Body and what it points to alias a pooled buffer: they are valid
// until ReleaseBody, Respond, NoResponse or Abort. One of the latter three must be called exactly once, from any
// goroutine. Strings are copies and may be kept; byte slices may not.
type Request struct {
	Key, Version  int16
	CorrelationID int32
	ClientID      *string
	Body          kmsg.Request
	SizeBytes     int // of the frame, without its length
	Received      time.Time
	Conn          *Conn
	Refusal       error // why the whole request must fail, where the handler is to say so; nil: it need not

	seq         uint64      // place in the connection's order
	buf         *buffer     // what Body aliases; nil when it aliases nothing
	loan        memory.Loan // for the buffer, and for what was decoded of it
	response    memory.Loan // for the response
	amend       func(kmsg.Response)
	servedNanos atomic.Int64
	answered    atomic.Bool
}

// Part is Bytes, or a file region where Bytes is nil.
type Part struct {
	Bytes  []byte
	Region vfs.Region
}

// Amend has f complete the response before it is encoded. Whoever checks a request takes out of it what its handler
// must not see, and puts the answers to that in here. It does not apply to RespondParts.
func (r *Request) Amend(f func(kmsg.Response)) {
	before := r.amend
	if before == nil {
		r.amend = f
		return
	}
	r.amend = func(resp kmsg.Response) { before(resp); f(resp) }
}

// Respond queues resp; responses leave in the order of their requests. resp is encoded before Respond returns.
func (r *Request) Respond(resp kmsg.Response) {
	if !r.answer() {
		return
	}
	if a := r.Conn.auth; a != nil && r.Key == apiVersionsKey {
		a.announced(resp)
	}
	resp.SetVersion(r.responseVersion())
	if r.amend != nil {
		r.amend(resp)
	}
	buf := getBuffer(smallClassBytes)
	b := appendResponseHeader(buf.b[:0], r.Key, r.CorrelationID, resp.IsFlexible())
	buf, b = buf.adopt(resp.AppendTo(b))
	binary.BigEndian.PutUint32(b, uint32(len(b)-lengthBytes))
	r.finish(result{head: buf, headBytes: b})
}

// responseVersion is the request's, but 0 for an ApiVersions request of a version that we do not know.
func (r *Request) responseVersion() int16 {
	if r.Body == nil {
		return 0
	}
	return r.Version
}

// RespondParts queues a response body encoded by the caller (after the response header, which is added here):
// bytes and file regions in turn. release, if not nil, is called once the parts are sent or dropped; until then the
// parts' bytes must not change. They must not alias the request, which ends here.
func (r *Request) RespondParts(parts []Part, release func()) {
	if !r.answer() {
		return
	}
	buf := getBuffer(1)
	b := appendResponseHeader(buf.b[:0], r.Key, r.CorrelationID, r.Body != nil && r.Body.IsFlexible())
	size := int64(len(b) - lengthBytes)
	for i := range parts {
		size += int64(parts[i].sizeBytes())
	}
	if size > math.MaxInt32 {
		buf.put()
		if release != nil {
			release()
		}
		r.finish(result{abort: "response longer than a frame can be"})
		return
	}
	binary.BigEndian.PutUint32(b, uint32(size))
	r.finish(result{head: buf, headBytes: b, parts: parts, release: release})
}

func (p *Part) sizeBytes() int {
	if p.Bytes != nil {
		return len(p.Bytes)
	}
	return p.Region.SizeBytes
}

// NoResponse ends a request that has no answer (Produce with acks 0) and takes no slot in the order.
func (r *Request) NoResponse() {
	if r.answer() {
		r.finish(result{})
	}
}

// Abort closes the connection after the responses before this one have been sent.
func (r *Request) Abort(reason string) {
	if r.answer() {
		r.finish(result{abort: reason})
	}
}

// answer claims the right to answer; a second answer is a bug of the handler, and dropped.
func (r *Request) answer() bool {
	if r.answered.Swap(true) {
		r.Conn.server.o.Log.Error().Int16("key", r.Key).Msg("a request was answered twice")
		return false
	}
	return true
}

// ReleaseBody gives back the memory that Body aliases and what was borrowed for it, before the request is answered.
// Only the goroutine that serves the request may call it, before another can answer. Byte slices of Body must not be
// used afterwards.
func (r *Request) ReleaseBody() {
	r.buf.put()
	r.buf = nil
	r.loan.Return()
}

// ReleaseResponse gives back what was borrowed for the response, by a request that is parked. Only the goroutine that
// serves the request may call it, before another can answer.
func (r *Request) ReleaseResponse() { r.response.Return() }

// finish gives the request's buffer back and puts res in its place in the order.
func (r *Request) finish(res result) {
	buf := r.buf
	r.buf = nil
	res.loan = r.settle(&res)
	if stats := r.Conn.server.stats(r.Key); stats != nil {
		res.sent.answered(stats, r, r.Conn.server.o.Clock.Now())
	}
	r.Conn.complete(r.seq, res)
	buf.put()
	r.loan.Return()
}

// settle makes the loan for the response what the response really holds. What exists already is lent without a wait.
func (r *Request) settle(res *result) memory.Loan {
	loan := r.response
	r.response = memory.Loan{}
	held := res.memoryBytes()
	if held < minResponseLoan {
		held = 0
	}
	if more := held - loan.Bytes(); more > 0 {
		loan.From(r.Conn.server.o.Memory.Responses)
		loan.Force(more)
	} else if more < 0 {
		loan.Shrink(held)
	}
	return loan
}
