package oracle

import (
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// txnDataScenarios are transactional batches, offsets and markers, and what consumers and admins see of them.
func txnDataScenarios(l *list) {
	l.each(0, "txn produce/in a transaction", txnProduce)
	l.each(0, "txn produce/errors", txnProduceErrors)
	l.each(1, "txn fetch", txnFetch)
	l.each(2, "txn list offsets", txnListOffsets)
	l.each(28, "txn offsets/commit and abort", txnOffsets)
	l.serial(func() { l.each(28, "txn offsets/errors", txnOffsetErrors) }) // they make the group "" for a while
	l.each(28, "txn offsets/members", txnOffsetMembers)
	l.each(27, "txn markers/hanging", txnMarkers)
	l.each(27, "txn markers/errors", txnMarkerErrors)
	l.one(61, 0, "txn admin/describe producers", describeProducers)
	l.one(65, 0, "txn admin/describe", describeTxns)
	l.each(66, "txn admin/list", listTxns)
}

func txnProduce(s *Session, v int16) {
	t := s.Topic("t", 2)
	p := s.producer("txn")
	p.begin(t, 0)
	p.c.Do(v, p.produceRequest(t, 0, p.batch(t, 0, "a", "b")))
	last := p.batch(t, 0, "c")
	p.c.Send(v, p.produceRequest(t, 0, last)).Note("next").Wait()
	p.c.Send(v, p.produceRequest(t, 0, last)).Note("duplicate").Wait()
	p.c.Send(v, p.produceRequest(t, 1, p.batch(t, 1, "x"))).Note("partition that was not added").Wait()
	s.showTxn(p.c, p.id)
	old := *p
	p.end(true)
	p.c.Send(v, old.produceRequest(t, 0, last)).Note("duplicate after the end").Wait()
	p.c.Send(v, p.produceRequest(t, 0, p.batch(t, 0, "d"))).Note("next transaction, not begun").Wait()
	s.showTxn(p.c, p.id)
	p.c.Send(11, fetch(t, 0, 0)).Summary().Wait()
}

func txnProduceErrors(s *Session, v int16) {
	t := s.Topic("t", 2)
	p, q := s.producer("p"), s.producer("q")
	p.begin(t, 0)
	p.write(t, 0, "a")
	send := func(note string, req *kmsg.ProduceRequest) { p.c.Send(v, req).Note(note).Wait() }
	send("not transactional", produce(t, 0, -1, batch(codecNone, text("b")).idempotent(p.pid, p.epoch, 1).bytes()))
	send("no transactional id", produce(t, 0, -1, p.batch(t, 0, "b").bytes()))
	p.next[fmt.Sprint(t.name, 0)] = 1
	gap := p.batch(t, 0, "b").with(func(b *batchSpec) { b.sequence = 5 })
	send("a gap", p.produceRequest(t, 0, gap))
	later := p.batch(t, 0, "b").with(func(b *batchSpec) { b.epoch++; b.sequence = 0 })
	send("a later epoch", p.produceRequest(t, 0, later))
	other := p.batch(t, 1, "b").with(func(b *batchSpec) { b.producerID += 1000 })
	send("another producer id", p.produceRequest(t, 1, other))
	foreign := p.produceRequest(t, 1, q.batch(t, 1, "b"))
	send("somebody else's id", foreign)
	unknown := *p
	unknown.id = s.Name("unknown")
	s.txnReady(unknown.id)
	send("unknown transactional id", unknown.produceRequest(t, 1, p.batch(t, 1, "b")))
	two := p.produceRequest(t, 0, p.batch(t, 0, "b"))
	two.Topics[0].Partitions = append(two.Topics[0].Partitions, producePartition(1, q.batch(t, 1, "c").bytes()))
	send("two producers", two)
	none := p.produceRequest(topic{s.Name("none"), [16]byte{9}}, 0, p.batch(t, 1, "b"))
	send("no such topic", none)
	start := q.batch(t, 1, "late").with(func(b *batchSpec) { b.sequence = 7 })
	q.begin(t, 1)
	send("starts at 7", q.produceRequest(t, 1, start))
	q.init()
	q.begin(t, 1)
	old := q.batch(t, 1, "old").with(func(b *batchSpec) { b.epoch-- })
	send("an old epoch", q.produceRequest(t, 1, old))
}

func txnFetch(s *Session, v int16) {
	t := s.Topic("t", 1)
	p, q := s.producer("p"), s.producer("q")
	c := s.Conn()
	p.begin(t, 0)
	p.write(t, 0, "aborted", "too")
	q.begin(t, 0)
	q.write(t, 0, "committed")
	s.Fill(t, 0, batch(codecNone, text("plain")))
	read := func(isolation int8, offset int64, note string) {
		req := fetch(t, 0, offset)
		req.IsolationLevel, req.MaxWaitMillis = isolation, 0
		c.Send(v, req).Note(note).Summary().Wait()
	}
	read(1, 0, "committed, both open")
	read(0, 0, "uncommitted, both open")
	read(1, 3, "committed, from behind the stable offset")
	p.end(false)
	s.committedAt(t, 0, 2)
	read(1, 0, "committed, one open")
	q.end(true)
	s.committedAt(t, 0, 6)
	read(1, 0, "committed, both ended")
	read(1, 1, "committed, from the middle")
	read(1, 3, "committed, after the aborted records")
	read(1, 5, "committed, after the abort marker")
	read(0, 0, "uncommitted, both ended")
}

func txnListOffsets(s *Session, v int16) {
	t := s.Topic("t", 1)
	p := s.producer("txn")
	s.Fill(t, 0, batch(codecNone, text("plain")))
	p.begin(t, 0)
	p.write(t, 0, "open")
	c := s.Conn()
	ask := func(note string) {
		for _, at := range []int64{-1, -2, T0, T0 + 1} {
			for isolation := range int8(2) {
				c.Send(v, listOffsets(t, 0, at, isolation)).Note(fmt.Sprintf("%s: %d, isolation %d", note, at, isolation)).Wait()
			}
		}
	}
	ask("open")
	p.end(true)
	s.committedAt(t, 0, 3)
	ask("ended")
}

func txnOffsets(s *Session, v int16) {
	t := s.Topic("t", 2)
	g := s.Name("g")
	s.groupReady(g)
	p := s.producer("txn")
	s.commit(g, t, 1)
	show := func(note string) {
		for _, stable := range []bool{false, true} {
			req := offsetFetch(g, t, 0, 1)
			req.RequireStable = stable
			p.c.Send(7, req).Note(fmt.Sprintf("%s, stable %t", note, stable)).Wait()
		}
	}
	p.c.Do(4, p.addOffsetsRequest(g))
	p.c.Do(v, p.offsetsRequest(g, t, 0, 10))
	p.c.Send(v, p.offsetsRequest(g, t, 1, 20)).Note("second partition").Wait()
	show("open")
	p.end(true)
	s.stable(g, t, 0)
	show("committed")
	p.c.Do(4, p.addOffsetsRequest(g))
	p.c.Do(v, p.offsetsRequest(g, t, 0, 11))
	s.commit(g, t, 5)
	show("open, and committed without")
	p.end(false)
	s.stable(g, t, 0)
	show("aborted")
}

func txnOffsetErrors(s *Session, v int16) {
	t := s.Topic("t", 1)
	g := s.Name("g")
	s.groupReady(g)
	p := s.producer("txn")
	send := func(note string, req *kmsg.TxnOffsetCommitRequest) { p.c.Send(v, req).Note(note).Wait() }
	send("not added", p.offsetsRequest(g, t, 0, 10))
	p.c.Do(4, p.addOffsetsRequest(g))
	none := p.offsetsRequest(g, topic{s.Name("none"), [16]byte{5}}, 0, 10)
	send("no such topic", none)
	send("no such partition", p.offsetsRequest(g, t, 9, 10))
	mixed := p.offsetsRequest(g, t, 0, 10)
	mixed.Topics = append(mixed.Topics, none.Topics...)
	mixed.Topics[0].Partitions = append(mixed.Topics[0].Partitions, p.offsetsRequest(g, t, 4, 1).Topics[0].Partitions...)
	send("good and bad", mixed)
	empty := p.offsetsRequest(g, t, 0, 10)
	empty.Topics = nil
	send("no topics", empty)
	send("no group", p.offsetsRequest("", t, 0, 10))
	large := p.offsetsRequest(g, t, 0, 10)
	large.Topics[0].Partitions[0].Metadata = ptr(strings.Repeat("m", 4097))
	send("large metadata", large)
	other := *p
	other.pid += 1000
	send("another producer id", other.offsetsRequest(g, t, 0, 10))
	other = *p
	other.epoch++
	send("a later epoch", other.offsetsRequest(g, t, 0, 10))
	other = *p
	other.id = s.Name("unknown")
	s.txnReady(other.id)
	send("unknown transactional id", other.offsetsRequest(g, t, 0, 10))
	p.init()
	other = *p
	other.epoch--
	send("an old epoch", other.offsetsRequest(g, t, 0, 10))
	s.forgetGroup("")
}

// forgetGroup deletes a group, once no transaction is in the way.
func (s *Session) forgetGroup(group string) {
	const none = 69
	req := kmsg.NewPtrDeleteGroupsRequest()
	req.Groups = []string{group}
	s.await(func() bool {
		code := s.setup(2, req).(*kmsg.DeleteGroupsResponse).Groups[0].ErrorCode
		return code == none
	}, "end of a group")
}

func txnOffsetMembers(s *Session, v int16) {
	t := s.Topic("t", 1)
	m := s.member(7)
	s.groupReady(m.group)
	p := s.producer("txn")
	p.c.Do(4, p.addOffsetsRequest(m.group))
	send := func(note, member string, generation int32) {
		req := p.offsetsRequest(m.group, t, 0, 10)
		req.MemberID, req.Generation = member, generation
		p.c.Send(v, req).Note(note).Wait()
	}
	send("generation of no group", "", 3)
	send("member of no group", "made-up", -1)
	m.joined(m.sendJoin().Wait())
	send("without a member, rebalancing", "", -1)
	send("member, completing", m.id, m.generation)
	send("wrong generation", m.id, m.generation+1)
	send("unknown member", "made-up", m.generation)
	send("member without generation", m.id, -1)
}

func markers(producer int64, epoch int16, commit bool, coordinatorEpoch int32, version int8, topics ...kmsg.WriteTxnMarkersRequestMarkerTopic) *kmsg.WriteTxnMarkersRequest {
	req := kmsg.NewPtrWriteTxnMarkersRequest()
	m := kmsg.NewWriteTxnMarkersRequestMarker()
	m.ProducerID, m.ProducerEpoch, m.Committed, m.CoordinatorEpoch, m.TransactionVersion = producer, epoch, commit, coordinatorEpoch, version
	m.Topics = topics
	req.Markers = append(req.Markers, m)
	return req
}

func markerTopic(name string, partitions ...int32) kmsg.WriteTxnMarkersRequestMarkerTopic {
	return kmsg.WriteTxnMarkersRequestMarkerTopic{Topic: name, Partitions: partitions}
}

// txnMarkers ends a transaction behind its coordinator's back, as kafka-transactions does with hanging ones.
func txnMarkers(s *Session, v int16) {
	t := s.Topic("t", 2)
	p := s.producer("txn")
	p.begin(t, 0)
	p.write(t, 0, "a")
	p.c.Send(v, markers(p.pid, p.epoch, false, 0, 0, markerTopic(t.name, 0, 1))).Note("abort").Wait()
	s.committedAt(t, 0, 2)
	req := fetch(t, 0, 0)
	req.IsolationLevel = 1
	p.c.Send(11, req).Summary().Wait()
	p.c.Send(v, markers(p.pid, p.epoch, true, 0, 0, markerTopic(t.name, 0))).Note("and once more").Wait()
	p.c.Send(v, markers(p.pid, p.epoch+1, true, 7, 2, markerTopic(t.name, 0))).Note("later epochs").Wait()
	p.c.Send(v, markers(p.pid, p.epoch, true, 7, 0, markerTopic(t.name, 0))).Note("old epoch").Wait()
	p.c.Send(v, markers(p.pid, p.epoch+1, true, 6, 0, markerTopic(t.name, 0))).Note("old coordinator").Wait()
}

func txnMarkerErrors(s *Session, v int16) {
	t := s.Topic("t", 1)
	p := s.producer("txn")
	p.c.Send(v, markers(p.pid, 0, true, 0, 0, markerTopic(t.name, 0, 5), markerTopic(s.Name("none"), 0))).Note("some do not exist").Wait()
	p.c.Send(v, markers(p.pid, 0, true, 0, 0)).Note("no topics").Wait()
	p.c.Send(v, markers(987_654_321, 3, false, 0, 0, markerTopic(t.name, 0))).Note("unknown producer").Wait()
	two := markers(p.pid, 0, true, 0, 0, markerTopic(t.name, 0))
	two.Markers = append(two.Markers, markers(p.pid+7, 0, false, 0, 0, markerTopic(t.name, 0)).Markers...)
	p.c.Send(v, two).Note("two").Wait()
	two.Markers = nil
	p.c.Send(v, two).Note("none").Wait()
	p.c.Send(11, fetch(t, 0, 0)).Summary().Wait()
}

func describeProducers(s *Session) {
	t := s.Topic("t", 2)
	p, q := s.producer("p"), s.producer("q")
	ask := func(note string) {
		req := kmsg.NewPtrDescribeProducersRequest()
		for _, name := range []string{t.name, s.Name("none"), "", "bad name!"} {
			rt := kmsg.NewDescribeProducersRequestTopic()
			rt.Topic, rt.Partitions = name, []int32{0, 1, 9}
			req.Topics = append(req.Topics, rt)
		}
		p.c.Send(0, req).Note(note).Wait()
	}
	ask("none")
	p.begin(t, 0)
	p.write(t, 0, "a", "b")
	q.begin(t, 0)
	q.write(t, 0, "c")
	ask("open")
	p.end(true)
	s.committedAt(t, 0, 2)
	ask("ended")
}

func describeTxns(s *Session) {
	t := s.Topic("t", 2)
	p, q := s.producer("p"), s.producer("q")
	p.begin(t, 0, 1)
	q.begin(t, 1)
	q.end(false)
	none := s.Name("unknown")
	s.txnReady(none)
	req := kmsg.NewPtrDescribeTransactionsRequest()
	req.TransactionalIDs = []string{p.id, q.id, none, "", p.id}
	p.c.Send(0, req).InOrder().Wait()
	req.TransactionalIDs = nil
	p.c.Do(0, req)
}

func listTxns(s *Session, v int16) {
	t := s.Topic("t", 2)
	p, q := s.producer("p"), s.producer("q")
	p.begin(t, 0)
	q.begin(t, 1)
	q.end(true)
	ask := func(note string, fill func(*kmsg.ListTransactionsRequest)) {
		req := kmsg.NewPtrListTransactionsRequest()
		req.ProducerIDFilters = []int64{p.pid, q.pid}
		fill(req)
		p.c.Send(v, req).Note(note).Wait()
	}
	ask("both", func(*kmsg.ListTransactionsRequest) {})
	ask("one", func(r *kmsg.ListTransactionsRequest) { r.ProducerIDFilters = r.ProducerIDFilters[:1] })
	ask("open", func(r *kmsg.ListTransactionsRequest) { r.StateFilters = []string{"Ongoing"} })
	ask("ended or empty", func(r *kmsg.ListTransactionsRequest) { r.StateFilters = []string{"CompleteCommit", "Empty"} })
	ask("no such state", func(r *kmsg.ListTransactionsRequest) { r.StateFilters = []string{"Open", "ongoing", "Dead"} })
	ask("a good and a bad state", func(r *kmsg.ListTransactionsRequest) { r.StateFilters = []string{"Open", "Ongoing"} })
	ask("older than an hour", func(r *kmsg.ListTransactionsRequest) { r.DurationFilterMillis = 3_600_000 })
	for _, pattern := range []string{".*", ".*p", "p", "(", ""} {
		ask("pattern "+pattern, func(r *kmsg.ListTransactionsRequest) { r.TransactionalIDPattern = &pattern })
	}
}
