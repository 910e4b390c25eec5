package handlers

import (
	"encoding/binary"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kbin"

	"grete/logstore"
	"grete/protocol"
)

// fetchEncoder writes a FetchResponse (versions 4–18) as headers that alternate with file regions, so that records are
// never in memory. kmsg would want them there.
type fetchEncoder struct {
	version int16
	buf     []byte
	cuts    []fetchCut
	parts   []protocol.Part
}

// fetchCut is a place in buf where a span's regions go.
type fetchCut struct {
	at   int
	span *logstore.Span
}

var fetchEncoders = sync.Pool{New: func() any { return &fetchEncoder{} }}

// maxPooledFetchHeader bounds the header buffers that are kept for reuse.
const maxPooledFetchHeader = 64 << 10

func (e *fetchEncoder) flexible() bool { return e.version >= 12 }

// encodeFetch encodes a response; release must be called when the parts are sent, and releases the answers' spans.
func encodeFetch(version int16, sessionID int32, code int16, answers fetchAnswers, endpoints []node) (parts []protocol.Part, release func()) {
	e := fetchEncoders.Get().(*fetchEncoder)
	e.version = version
	e.header(sessionID, code)
	e.topics(&answers)
	if e.flexible() {
		e.endpoints(endpoints)
	}
	return e.split(), func() { e.release() }
}

func (e *fetchEncoder) header(sessionID int32, code int16) {
	e.int32(0) // throttle time
	if e.version >= 7 {
		e.int16(code)
		e.int32(sessionID)
	}
}

// topics groups neighbours of the same topic, as Kafka does.
func (e *fetchEncoder) topics(answers *fetchAnswers) {
	groups, n := 0, answers.len()
	for i := range n {
		if i == 0 || !answers.sameTopic(i, i-1) {
			groups++
		}
	}
	e.buf = slices.Grow(e.buf, len(answers.absent)*absentBytes)
	e.arrayLen(groups)
	for i := 0; i < n; {
		end := i + 1
		for end < n && answers.sameTopic(end, i) {
			end++
		}
		e.topic(answers, i, end)
		i = end
	}
}

// absentBytes is what a partition takes that is not there.
const absentBytes = 46

// topic writes the answers [from, to), which are those of one topic.
func (e *fetchEncoder) topic(answers *fetchAnswers, from, to int) {
	if key := answers.key(from); e.version >= 13 {
		e.buf = append(e.buf, key.topicID[:]...)
	} else {
		e.string(key.topic)
	}
	e.arrayLen(to - from)
	var room fetchAnswer
	for i := from; i < to; i++ {
		e.partition(answers.at(i, &room))
	}
	e.noTags()
}

func (e *fetchEncoder) partition(a *fetchAnswer) {
	e.int32(a.key.partition)
	e.int16(a.code)
	e.int64(a.highWatermark)
	e.int64(a.lastStableOffset)
	if e.version >= 5 {
		e.int64(a.logStartOffset)
	}
	e.aborted(a)
	if e.version >= 11 {
		e.int32(a.preferred)
	}
	e.records(a.span)
	if e.flexible() {
		e.partitionTags(a)
	}
}

// aborted is null unless the fetch was read_committed and found its partition.
func (e *fetchEncoder) aborted(a *fetchAnswer) {
	if a.abortedNull {
		if e.flexible() {
			e.buf = append(e.buf, 0)
		} else {
			e.int32(-1)
		}
		return
	}
	if a.span == nil {
		e.arrayLen(0)
		return
	}
	e.arrayLen(len(a.span.AbortedTxns))
	for _, t := range a.span.AbortedTxns {
		e.int64(t.ProducerID)
		e.int64(t.FirstOffset)
		e.noTags()
	}
}

// records are never null.
func (e *fetchEncoder) records(s *logstore.Span) {
	size := 0
	if s != nil {
		size = s.SizeBytes
	}
	if e.flexible() {
		e.buf = kbin.AppendUvarint(e.buf, uint32(size)+1)
	} else {
		e.int32(int32(size))
	}
	if s != nil {
		e.cuts = append(e.cuts, fetchCut{len(e.buf), s})
	}
}

func (e *fetchEncoder) partitionTags(a *fetchAnswer) {
	leader := e.version >= 16 && a.leaderID >= 0
	count := 0
	if a.diverging != nil {
		count++
	}
	if leader {
		count++
	}
	e.buf = kbin.AppendUvarint(e.buf, uint32(count))
	if a.diverging != nil {
		e.tag(0, 13)
		e.int32(a.diverging.Epoch)
		e.int64(a.diverging.EndOffset)
		e.noTags()
	}
	if leader {
		e.tag(1, 9)
		e.int32(a.leaderID)
		e.int32(a.leaderEpoch)
		e.noTags()
	}
}

func (e *fetchEncoder) endpoints(nodes []node) {
	if len(nodes) == 0 {
		e.noTags()
		return
	}
	e.buf = kbin.AppendUvarint(e.buf, 1)
	field := kbin.AppendUvarint(nil, uint32(len(nodes))+1)
	for _, n := range nodes {
		field = kbin.AppendInt32(field, n.id)
		field = kbin.AppendCompactString(field, n.host)
		field = kbin.AppendInt32(field, n.port)
		field = kbin.AppendCompactNullableString(field, n.rack)
		field = append(field, 0)
	}
	e.tag(0, len(field))
	e.buf = append(e.buf, field...)
}

func (e *fetchEncoder) tag(number uint32, sizeBytes int) {
	e.buf = kbin.AppendUvarint(e.buf, number)
	e.buf = kbin.AppendUvarint(e.buf, uint32(sizeBytes))
}

func (e *fetchEncoder) noTags() {
	if e.flexible() {
		e.buf = append(e.buf, 0)
	}
}

func (e *fetchEncoder) arrayLen(n int) {
	if e.flexible() {
		e.buf = kbin.AppendUvarint(e.buf, uint32(n)+1)
		return
	}
	e.int32(int32(n))
}

func (e *fetchEncoder) string(s string) {
	if e.flexible() {
		e.buf = kbin.AppendCompactString(e.buf, s)
		return
	}
	e.buf = kbin.AppendString(e.buf, s)
}

func (e *fetchEncoder) int16(v int16) { e.buf = binary.BigEndian.AppendUint16(e.buf, uint16(v)) }
func (e *fetchEncoder) int32(v int32) { e.buf = binary.BigEndian.AppendUint32(e.buf, uint32(v)) }
func (e *fetchEncoder) int64(v int64) { e.buf = binary.BigEndian.AppendUint64(e.buf, uint64(v)) }

// split cuts the headers where records go. It waits until the end because the buffer moves while it grows.
func (e *fetchEncoder) split() []protocol.Part {
	from := 0
	for _, c := range e.cuts {
		e.parts = append(e.parts, protocol.Part{Bytes: e.buf[from:c.at]})
		for _, r := range c.span.Regions {
			e.parts = append(e.parts, protocol.Part{Region: r})
		}
		from = c.at
	}
	if from < len(e.buf) {
		e.parts = append(e.parts, protocol.Part{Bytes: e.buf[from:]})
	}
	return e.parts
}

func (e *fetchEncoder) release() {
	for i, c := range e.cuts {
		c.span.Release()
		e.cuts[i].span = nil
	}
	clear(e.parts)
	e.buf, e.cuts, e.parts = e.buf[:0], e.cuts[:0], e.parts[:0]
	if cap(e.buf) <= maxPooledFetchHeader {
		fetchEncoders.Put(e)
	}
}
