package oracle

import (
	"fmt"
	"math"
)

// producerScenarios are InitProducerId and what a producer's sequence numbers do.
func producerScenarios(l *list) {
	l.each(22, "init producer/new", func(s *Session, v int16) {
		c := s.Conn()
		c.Do(v, initProducerID(nil))
		c.Do(v, initProducerID(nil))
	})
	l.each(22, "init producer/empty transactional id", func(s *Session, v int16) {
		s.Conn().Do(v, initProducerID(ptr("")))
	})
	l.each(22, "init producer/timeouts without a transaction", func(s *Session, v int16) {
		c := s.Conn()
		for _, ms := range []int32{-1, 0, math.MaxInt32} {
			req := initProducerID(nil)
			req.TransactionTimeoutMillis = ms
			c.Do(v, req)
		}
	})
	l.between(22, 3, 5, "init producer/own id", initOwnID)
	l.each(0, "sequence/in order and duplicates", sequenceDuplicates)
	l.each(0, "sequence/gaps and epochs", sequenceGaps)
	l.each(0, "sequence/wrap", sequenceWrap)
	l.each(0, "sequence/unknown producer", sequenceUnknown)
}

func initOwnID(s *Session, v int16) {
	c := s.Conn()
	id := s.ProducerID()
	for _, p := range []struct {
		id    int64
		epoch int16
	}{{id, 0}, {id, 1}, {id, -1}, {-1, 0}, {id, 32767}, {-2, -1}, {-1, -2}} {
		req := initProducerID(nil)
		req.ProducerID, req.ProducerEpoch = p.id, p.epoch
		c.Send(v, req).Note(fmt.Sprintf("own id %t, epoch %d", p.id == id, p.epoch)).Wait()
	}
}

// sequenceConn sends a producer's batches of given first sequence and size.
type sequenceConn struct {
	c       *Conn
	t       topic
	version int16
	id      int64
}

func newSequence(s *Session, v int16) sequenceConn {
	t := s.Topic("t", 1)
	return sequenceConn{s.Conn(), t, v, s.ProducerID()}
}

func (q sequenceConn) send(epoch int16, first int32, count int, note string) {
	records := make([]rec, count)
	for i := range records {
		records[i] = text(fmt.Sprint(i))
	}
	b := batch(codecNone, records...).idempotent(q.id, epoch, first)
	q.c.Send(q.version, produce(q.t, 0, -1, b.bytes())).Note(note).Wait()
}

func sequenceDuplicates(s *Session, v int16) {
	q := newSequence(s, v)
	for i := range int32(7) {
		q.send(0, i*2, 2, "in order")
	}
	for i := int32(6); i >= 0; i-- {
		q.send(0, i*2, 2, fmt.Sprintf("batch %d again", i))
	}
	q.send(0, 12, 1, "first half of the last")
	q.send(0, 13, 1, "second half of the last")
	q.send(0, 12, 4, "the last and more")
	q.send(0, 10, 4, "the last two as one")
	q.send(0, 14, 1, "next")
	q.c.Do(4, listOffsets(q.t, 0, -1, 0))
}

func sequenceGaps(s *Session, v int16) {
	q := newSequence(s, v)
	q.send(0, 0, 1, "first")
	q.send(0, 2, 1, "gap")
	q.send(0, 1, 1, "next")
	q.send(1, 2, 1, "new epoch, old sequence")
	q.send(1, 0, 1, "new epoch from 0")
	q.send(0, 2, 1, "old epoch")
	q.send(0, 0, 1, "old epoch, duplicate")
	q.send(1, 0, 1, "duplicate in the new epoch")
	q.send(1, 1, 1, "next")
	q.send(7, 0, 1, "epochs may jump")
	q.c.Do(11, fetch(q.t, 0, 0))
}

func sequenceWrap(s *Session, v int16) {
	q := newSequence(s, v)
	q.send(0, math.MaxInt32-1, 1, "near the end")
	q.send(0, math.MaxInt32, 3, "over the end")
	q.send(0, math.MaxInt32, 3, "over the end again")
	q.send(0, 2, 1, "behind it")
	q.send(0, 0, 1, "inside the wrapped batch")
}

func sequenceUnknown(s *Session, v int16) {
	q := newSequence(s, v)
	q.id = 900_000_000 + int64(v)
	q.send(3, 41, 2, "starts anywhere")
	q.send(3, 43, 1, "next")
	q.send(3, 45, 1, "gap")
	q.send(2, 44, 1, "old epoch")
}
