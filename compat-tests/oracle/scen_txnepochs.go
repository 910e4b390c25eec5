package oracle

import (
	"math"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// txnEpochScenarios use up a producer id's epochs; the last but one is the last that a client gets.
func txnEpochScenarios(l *list) {
	l.one(26, 5, "txn epochs/used up by transactions", epochsByTransactions)
	l.one(22, 4, "txn epochs/used up and fenced", epochsByFencing)
}

// exhaust initialises the producer until it has an epoch.
func (p *txnProducer) exhaust(epoch int16) {
	const pipelined = 200
	for p.epoch < epoch {
		c := dial(p.s, "setup")
		var calls []*Call
		for range min(pipelined, int(epoch-p.epoch)) {
			calls = append(calls, c.Send(4, initProducerID(&p.id)))
		}
		for _, k := range calls {
			if r := k.Quiet().(*kmsg.InitProducerIDResponse); r.ErrorCode == 0 {
				p.pid, p.epoch = r.ProducerID, r.ProducerEpoch
			}
		}
		c.Close()
	}
	p.next = map[string]int32{}
}

func epochsByTransactions(s *Session) {
	t := s.Topic("t", 1)
	p := s.producer("txn")
	p.exhaust(math.MaxInt16 - 2)
	end := func(commit bool, note string) (before txnProducer) {
		p.begin(t, 0)
		p.write(t, 0, note)
		before = *p
		p.took(p.c.Send(5, p.endRequest(commit)).Note(note).Wait().(*kmsg.EndTxnResponse))
		s.settled(p.id)
		s.showTxn(p.c, p.id)
		return before
	}
	end(true, "to the last epoch")
	old := end(true, "over it")
	p.c.Send(5, old.endRequest(true)).Note("again").Wait()
	p.c.Send(5, old.endRequest(false)).Note("the opposite").Wait()
	p.c.Send(12, old.produceRequest(t, 0, old.batch(t, 0, "z"))).Note("of the old id").Wait()
	end(false, "with the new id")
	keep := initProducerID(&p.id)
	keep.ProducerID, keep.ProducerEpoch = old.pid, old.epoch
	p.c.Send(4, keep).Note("keeps the old id").Wait()
	s.committedAt(t, 0, 6)
	p.c.Send(11, fetch(t, 0, 0)).Summary().Wait()
}

func epochsByFencing(s *Session) {
	t := s.Topic("t", 1)
	p := s.producer("txn")
	p.exhaust(math.MaxInt16 - 1)
	p.begin(t, 0)
	p.write(t, 0, "open")
	p.c.Send(4, initProducerID(&p.id)).Note("while open").Wait()
	s.settled(p.id)
	s.showTxn(p.c, p.id)
	p.c.Send(4, initProducerID(&p.id)).Note("after").Wait()
	p.c.Send(5, p.endRequest(true)).Note("of the fenced producer").Wait()
	p.c.Send(9, p.produceRequest(t, 0, p.batch(t, 0, "late"))).Note("of the fenced producer").Wait()
}
