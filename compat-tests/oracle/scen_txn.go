package oracle

import (
	"fmt"
	"math"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// txnScenarios are the requests of transactional producers to their coordinator.
func txnScenarios(l *list) {
	l.each(22, "txn init/new and again", txnInit)
	l.each(22, "txn init/timeouts", txnTimeouts)
	l.each(22, "txn init/while open", txnInitOpen)
	l.between(22, 3, 5, "txn init/keeps its producer", txnInitKeeps)
	l.each(24, "txn add/partitions", txnAdd)
	l.each(24, "txn add/errors", txnAddErrors)
	l.between(24, 4, 5, "txn add/batched and verified", txnAddBatched)
	l.each(25, "txn add offsets", txnAddOffsets)
	l.each(26, "txn end/commit and abort", txnEnd)
	l.each(26, "txn end/errors", txnEndErrors)
	l.each(26, "txn end/nothing begun", txnEndEmpty)
	l.one(26, 5, "txn end/old clients and new", txnEndMixed)
	l.one(26, 5, "txn timeout", txnTimesOut)
}

func txnInit(s *Session, v int16) {
	id := s.Name("txn")
	s.txnReady(id)
	c := s.Conn()
	c.Do(v, initProducerID(&id))
	c.Send(v, initProducerID(&id)).Note("again").Wait()
	short := initProducerID(&id)
	short.TransactionTimeoutMillis = 1
	c.Send(v, short).Note("timeout 1").Wait()
	s.showTxn(c, id)
}

// showTxn records what the coordinator says of an id.
func (s *Session) showTxn(c *Conn, id string) {
	req := kmsg.NewPtrDescribeTransactionsRequest()
	req.TransactionalIDs = []string{id}
	c.Send(0, req).InOrder().Wait()
}

func txnTimeouts(s *Session, v int16) {
	id := s.Name("txn")
	s.txnReady(id)
	c := s.Conn()
	for _, ms := range []int32{0, -1, 900_001, math.MaxInt32, 900_000} {
		req := initProducerID(&id)
		req.TransactionTimeoutMillis = ms
		c.Send(v, req).Note(fmt.Sprint("timeout ", ms)).Wait()
	}
	s.showTxn(c, id)
}

func txnInitOpen(s *Session, v int16) {
	t := s.Topic("t", 1)
	p := s.producer("txn")
	p.begin(t, 0)
	p.write(t, 0, "a")
	p.c.Send(v, initProducerID(&p.id)).Note("while a transaction is open").Wait()
	s.settled(p.id)
	p.c.Send(v, initProducerID(&p.id)).Note("after its abort").Wait()
	p.c.Send(5, p.endRequest(true)).Note("of the fenced producer").Wait()
	p.c.Send(9, p.produceRequest(t, 0, p.batch(t, 0, "b"))).Note("of the fenced producer").Wait()
	s.committedAt(t, 0, 2)
	p.c.Send(11, fetch(t, 0, 0)).Summary().Wait()
	s.showTxn(p.c, p.id)
}

func txnInitKeeps(s *Session, v int16) {
	p := s.producer("txn")
	own := func(pid int64, epoch int16, note string) {
		req := initProducerID(&p.id)
		req.ProducerID, req.ProducerEpoch = pid, epoch
		p.c.Send(v, req).Note(note).Wait()
	}
	own(p.pid, 0, "epoch 0")
	own(p.pid, 0, "epoch 0 again")
	own(p.pid, 1, "epoch 1")
	own(p.pid, 7, "a later epoch")
	own(p.pid+1000, 2, "another id")
	own(p.pid, -1, "no epoch")
	own(p.pid, 0, "an old epoch")
	fresh := s.Name("fresh")
	s.txnReady(fresh)
	req := initProducerID(&fresh)
	req.ProducerID, req.ProducerEpoch = p.pid, 5
	p.c.Send(v, req).Note("unknown transactional id").Wait()
	t := s.Topic("t", 1)
	p.init()
	p.begin(t, 0)
	own(p.pid, p.epoch-1, "old epoch while open")
	s.settled(p.id)
	p.init()
	p.begin(t, 0)
	own(p.pid, p.epoch, "while open")
	s.settled(p.id)
	own(p.pid, p.epoch, "after the abort")
	own(p.pid, p.epoch+1, "the epoch of the abort")
}

func txnAdd(s *Session, v int16) {
	t, u := s.Topic("t", 3), s.Topic("u", 1)
	p := s.producer("txn")
	p.c.Do(v, inVersion(v, p.addRequest(t.name, 0, t.name, 2, u.name, 0)))
	s.showTxn(p.c, p.id)
	p.c.Send(v, inVersion(v, p.addRequest(t.name, 2))).Note("a part again").Wait()
	p.c.Send(v, inVersion(v, p.addRequest(t.name, 1))).Note("one more").Wait()
	p.c.Send(v, inVersion(v, p.addRequest(t.name, 1, t.name, 1))).Note("one twice").Wait()
	s.showTxn(p.c, p.id)
}

func txnAddErrors(s *Session, v int16) {
	t := s.Topic("t", 2)
	p := s.producer("txn")
	send := func(req *kmsg.AddPartitionsToTxnRequest, note string) {
		p.c.Send(v, inVersion(v, req)).Note(note).Wait()
	}
	send(p.addRequest(t.name, 0, t.name, 5), "one that does not exist")
	send(p.addRequest(s.Name("none"), 0, t.name, 1), "topic that does not exist")
	send(p.addRequest("", 0), "topic without a name")
	send(p.addRequest(), "no topics")
	other := *p
	other.id = s.Name("unknown")
	s.txnReady(other.id)
	send(other.addRequest(t.name, 0), "unknown transactional id")
	other = *p
	other.id = ""
	send(other.addRequest(t.name, 0), "empty transactional id")
	other = *p
	other.pid += 1000
	send(other.addRequest(t.name, 0), "another producer id")
	other = *p
	other.epoch++
	send(other.addRequest(t.name, 0), "a later epoch")
	p.init()
	other = *p
	other.epoch--
	send(other.addRequest(t.name, 0), "an old epoch")
	s.showTxn(p.c, p.id)
}

func txnAddBatched(s *Session, v int16) {
	t := s.Topic("t", 2)
	p, q := s.producer("p"), s.producer("q")
	unknown := *p
	unknown.id = s.Name("unknown")
	s.txnReady(unknown.id)
	fenced := *q
	fenced.epoch--
	p.c.Send(v, batched(false, p.addRequest(t.name, 0), unknown.addRequest(t.name, 0), q.addRequest(t.name, 1))).Note("three").Wait()
	p.c.Send(v, batched(true, p.addRequest(t.name, 0, t.name, 1), unknown.addRequest(t.name, 0))).Note("verify").Wait()
	p.c.Send(v, batched(true, p.addRequest(t.name, 0, t.name, 9), fenced.addRequest(t.name, 1))).Note("verify with errors").Wait()
	p.end(true)
	p.c.Send(v, batched(true, p.addRequest(t.name, 0))).Note("verify after the end").Wait()
}

func txnAddOffsets(s *Session, v int16) {
	p := s.producer("txn")
	s.groupReady(s.Name("g"))
	p.c.Do(v, p.addOffsetsRequest(s.Name("g")))
	p.c.Send(v, p.addOffsetsRequest(s.Name("g"))).Note("again").Wait()
	p.c.Send(v, p.addOffsetsRequest("")).Note("no group").Wait()
	other := *p
	other.id = s.Name("unknown")
	s.txnReady(other.id)
	p.c.Send(v, other.addOffsetsRequest(s.Name("g"))).Note("unknown transactional id").Wait()
	other = *p
	other.id = ""
	p.c.Send(v, other.addOffsetsRequest(s.Name("g"))).Note("empty transactional id").Wait()
	other = *p
	other.pid += 1000
	p.c.Send(v, other.addOffsetsRequest(s.Name("g"))).Note("another producer id").Wait()
	p.init()
	other = *p
	other.epoch--
	p.c.Send(v, other.addOffsetsRequest(s.Name("g"))).Note("an old epoch").Wait()
}

func txnEnd(s *Session, v int16) {
	t := s.Topic("t", 1)
	p := s.producer("txn")
	for i, commit := range []bool{true, false, true} {
		p.begin(t, 0)
		p.write(t, 0, fmt.Sprint(i))
		old := *p
		p.took(p.c.Send(v, p.endRequest(commit)).Note(fmt.Sprint("commit ", commit)).Wait().(*kmsg.EndTxnResponse))
		s.settled(p.id)
		p.c.Send(v, old.endRequest(commit)).Note("the same again").Wait()
		p.c.Send(v, old.endRequest(!commit)).Note("the opposite").Wait()
		s.showTxn(p.c, p.id)
		if v < 5 {
			p.next = old.next
		}
	}
	s.committedAt(t, 0, 6)
	req := fetch(t, 0, 0)
	req.IsolationLevel = 1
	p.c.Send(11, req).Summary().Wait()
}

func txnEndErrors(s *Session, v int16) {
	t := s.Topic("t", 1)
	p := s.producer("txn")
	p.begin(t, 0)
	for _, bend := range []struct {
		note string
		of   func(*txnProducer)
	}{
		{"unknown transactional id", func(q *txnProducer) { q.id = s.Name("unknown"); s.txnReady(q.id) }},
		{"empty transactional id", func(q *txnProducer) { q.id = "" }},
		{"another producer id", func(q *txnProducer) { q.pid += 1000 }},
		{"a later epoch", func(q *txnProducer) { q.epoch++ }},
		{"an old epoch", func(q *txnProducer) { q.epoch-- }},
	} {
		q := *p
		bend.of(&q)
		p.c.Send(v, q.endRequest(true)).Note(bend.note).Wait()
		p.c.Send(v, q.endRequest(false)).Note(bend.note + ", abort").Wait()
	}
	s.showTxn(p.c, p.id)
}

func txnEndEmpty(s *Session, v int16) {
	p := s.producer("txn")
	p.c.Send(v, p.endRequest(true)).Note("commit").Wait()
	for i := range 3 {
		resp := p.c.Send(v, p.endRequest(false)).Note(fmt.Sprint("abort ", i)).Wait().(*kmsg.EndTxnResponse)
		s.settled(p.id)
		s.showTxn(p.c, p.id)
		p.took(resp)
	}
	p.c.Send(v, p.endRequest(true)).Note("commit after an abort").Wait()
}

// txnEndMixed: one transactional id, used by clients of both transaction versions.
func txnEndMixed(s *Session) {
	t := s.Topic("t", 1)
	p := s.producer("txn")
	for i, v := range []int16{3, 5, 4, 5, 5, 0} {
		p.begin(t, 0)
		p.write(t, 0, fmt.Sprint(i))
		next := p.next
		p.took(p.c.Send(v, p.endRequest(i%2 == 0)).Wait().(*kmsg.EndTxnResponse))
		if v < 5 {
			p.next = next
		}
		s.settled(p.id)
		s.showTxn(p.c, p.id)
	}
	s.committedAt(t, 0, 12)
	p.c.Send(11, fetch(t, 0, 0)).Summary().Wait()
}

func txnTimesOut(s *Session) {
	t := s.Topic("t", 1)
	id := s.Name("txn")
	s.txnReady(id)
	req := initProducerID(&id)
	req.TransactionTimeoutMillis = 3000
	c := s.Conn()
	resp := c.Do(4, req).(*kmsg.InitProducerIDResponse)
	p := &txnProducer{s: s, c: c, id: id, pid: resp.ProducerID, epoch: resp.ProducerEpoch, next: map[string]int32{}}
	p.begin(t, 0)
	p.write(t, 0, "a")
	s.await(func() bool { return s.describeTxn(id).State == "CompleteAbort" }, "abort by timeout")
	s.showTxn(c, id)
	c.Send(9, p.produceRequest(t, 0, p.batch(t, 0, "b"))).Note("late").Wait()
	c.Send(12, p.produceRequest(t, 0, p.batch(t, 0, "b"))).Note("late").Wait()
	c.Send(3, p.addRequest(t.name, 0)).Note("late").Wait()
	c.Send(4, p.endRequest(true)).Note("late").Wait()
	c.Send(5, p.endRequest(true)).Note("late").Wait()
	c.Send(5, p.endRequest(false)).Note("late, abort").Wait()
	own := initProducerID(&id)
	own.ProducerID, own.ProducerEpoch = p.pid, p.epoch
	c.Send(4, own).Note("keeps its id").Wait()
	s.committedAt(t, 0, 2)
	c.Send(11, fetch(t, 0, 0)).Summary().Wait()
}
