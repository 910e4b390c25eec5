package oracle

import (
	"fmt"
	"strings"
	"time"
)

func produceScenarios(l *list) {
	l.each(0, "produce/acks 1", func(s *Session, v int16) { roundTrip(s, v, 1) })
	l.each(0, "produce/acks all", func(s *Session, v int16) { roundTrip(s, v, -1) })
	l.each(0, "produce/acks 0", produceNoAcks)
	l.each(0, "produce/invalid acks", produceInvalidAcks)
	l.each(0, "produce/no such topic", produceNoSuchTopic)
	l.each(0, "produce/internal topic", produceInternalTopic)
	l.each(0, "produce/several", produceSeveral)
	l.each(0, "produce/broken batches", produceBroken)
	l.each(0, "produce/codecs", produceCodecs)
	l.each(0, "produce/undecodable", produceUndecodable)
	l.each(0, "produce/times", produceTimes)
	l.each(0, "produce/append time", produceAppendTime)
	l.each(0, "produce/compacted", produceCompacted)
	l.each(0, "produce/too large", produceTooLarge)
	l.each(0, "produce/transactional", produceTransactional)
	l.each(0, "produce/records lie", produceLyingRecords)
	l.each(0, "produce/min isr", func(s *Session, v int16) {
		t := s.Topic("t", 1, "min.insync.replicas=2")
		s.Conn().Do(v, produce(t, 0, -1, batch(codecNone, text("a")).bytes()))
	})
	l.between(0, 0, 2, "produce/removed version", func(s *Session, v int16) {
		t := s.Topic("t", 1)
		s.Conn().SendBody(v, produce(t, 0, 1, nil), produce(t, 0, 1, batch(codecNone, text("a")).bytes()).AppendTo(nil)).Wait()
	})
	l.each(0, "produce/recompressed", produceRecompressed)
	l.each(0, "produce/acks 0 error", func(s *Session, v int16) {
		t := s.Topic("t", 1)
		c := s.Conn()
		c.SendNoAnswer(v, produce(t, 7, 0, batch(codecNone, text("a")).bytes()))
		c.Silence(4 * time.Second)
	})
}

func roundTrip(s *Session, v, acks int16) {
	t := s.Topic("t", 2)
	c := s.Conn()
	records := []rec{
		{key: []byte("k"), value: []byte("v"), at: 5, headers: [][2]string{{"h", "x"}, {"h", ""}}},
		{value: []byte("no key")},
		{key: []byte("tombstone"), at: 2},
		{},
	}
	c.Do(v, produce(t, 1, acks, batch(codecNone, records...).bytes()))
	c.Do(v, produce(t, 1, acks, batch(codecNone, text("second")).bytes()))
	c.Do(11, fetch(t, 1, 0))
	c.Do(11, fetch(t, 1, 4))
}

func produceNoAcks(s *Session, v int16) {
	t := s.Topic("t", 1)
	c := s.Conn()
	c.SendNoAnswer(v, produce(t, 0, 0, batch(codecNone, text("a"), text("b")).bytes()))
	c.Do(4, listOffsets(t, 0, -1, 0))
	c.SendNoAnswer(v, produce(t, 0, 0, batch(codecGzip, text("c")).bytes()))
	c.Do(11, fetch(t, 0, 0))
}

func produceInvalidAcks(s *Session, v int16) {
	t := s.Topic("t", 1)
	for _, acks := range []int16{2, -2} {
		s.Conn().Do(v, produce(t, 0, acks, batch(codecNone, text("a")).bytes()))
	}
}

func produceNoSuchTopic(s *Session, v int16) {
	t := s.Topic("t", 1)
	c := s.Conn()
	good := batch(codecNone, text("a")).bytes()
	c.Do(v, produce(t, 1, 1, good))
	c.Do(v, produce(t, -1, 1, good))
	c.Do(v, produce(topic{s.Name("none"), [16]byte{1, 2, 3}}, 0, 1, good))
	c.Do(v, produce(topic{}, 0, 1, good))
	c.Do(v, produce(topic{name: "bad name!", id: [16]byte{9}}, 0, 1, good))
	c.Do(v, produce(t, 0, 1, good))
}

func produceInternalTopic(s *Session, v int16) {
	t := s.internalTopic()
	s.Conn().Do(v, produce(t, 0, 1, batch(codecNone, rec{key: []byte("k"), value: []byte("v")}).bytes()))
}

func produceSeveral(s *Session, v int16) {
	a, b := s.Topic("a", 3), s.Topic("b", 1)
	c := s.Conn()
	req := produce(a, 0, -1, batch(codecNone, text("a0")).bytes())
	bad := batch(codecNone, text("bad")).with(func(b *batchSpec) { b.crcError = 1 }).bytes()
	req.Topics[0].Partitions = append(req.Topics[0].Partitions, producePartition(1, bad), producePartition(9, bad), producePartition(2, batch(codecLz4, text("a2")).bytes()))
	req.Topics = append(req.Topics, produceTopic(b, 0, batch(codecNone, text("b0")).bytes()))
	c.Do(v, req)
	twice := produce(b, 0, -1, batch(codecNone, text("first")).bytes())
	twice.Topics[0].Partitions = append(twice.Topics[0].Partitions, producePartition(0, batch(codecNone, text("last")).bytes()))
	c.Send(v, twice).Note("one partition twice").Wait()
	c.Do(11, fetch(b, 0, 0))
	none := produce(b, 0, -1, nil)
	none.Topics = nil
	c.Send(v, none).Note("no topics").Wait()
	none.Topics = append(none.Topics, produceTopic(a, 0, nil))
	none.Topics[0].Partitions = nil
	c.Send(v, none).Note("no partitions").Wait()
}

// bent are batches with one fault each; all of three records.
var bent = []struct {
	name string
	bend func(*batchSpec)
}{
	{"bad crc", func(b *batchSpec) { b.crcError = 1 }},
	{"base offset 3", func(b *batchSpec) { b.baseOffset = 3 }},
	{"base offset -1", func(b *batchSpec) { b.baseOffset = -1 }},
	{"leader epoch 7", func(b *batchSpec) { b.leaderEpoch = 7 }},
	{"magic 3", func(b *batchSpec) { b.magic = 3 }},
	{"magic 1 on a v2 batch", func(b *batchSpec) { b.magic = 1 }},
	{"magic -1", func(b *batchSpec) { b.magic = -1 }},
	{"count 2", func(b *batchSpec) { b.count = 2 }},
	{"count 4", func(b *batchSpec) { b.count = 4 }},
	{"count 0", func(b *batchSpec) { b.count = 0 }},
	{"count -1", func(b *batchSpec) { b.count = -1 }},
	{"last offset delta 1", func(b *batchSpec) { b.lastOffsetDelta = 1 }},
	{"last offset delta 9", func(b *batchSpec) { b.lastOffsetDelta = 9 }},
	{"last offset delta -1", func(b *batchSpec) { b.lastOffsetDelta = -1 }},
	{"cut by 1", func(b *batchSpec) { b.cutBytes = 1 }},
	{"length 1 too large", func(b *batchSpec) { b.lengthError = 1 }},
	{"length 1 too small", func(b *batchSpec) { b.lengthError = -1 }},
	{"length 0", func(b *batchSpec) { b.lengthError = -(49 + len(b.payload)) }},
	{"length negative", func(b *batchSpec) { b.lengthError = -100_000 }},
	{"control", func(b *batchSpec) { b.attributes = attrControl }},
	{"transactional without producer", func(b *batchSpec) { b.attributes = attrTransactional }},
	{"append time bit", func(b *batchSpec) { b.attributes = attrLogAppendTime }},
	{"unused attributes", func(b *batchSpec) { b.attributes = 1 << 9 }},
	{"codec 5", func(b *batchSpec) { b.codec = 5 }},
	{"codec 7", func(b *batchSpec) { b.codec = 7 }},
	{"max timestamp too late", func(b *batchSpec) { b.maxTimestamp = T0 + 1000 }},
	{"max timestamp too early", func(b *batchSpec) { b.maxTimestamp = T0 - 1000 }},
	{"max timestamp -1", func(b *batchSpec) { b.maxTimestamp = -1 }},
	{"base timestamp -1", func(b *batchSpec) { b.baseTimestamp = -1 }},
	{"base timestamp -5", func(b *batchSpec) { b.baseTimestamp = -5 }},
	{"producer epoch without id", func(b *batchSpec) { b.epoch = 3 }},
	{"sequence without producer", func(b *batchSpec) { b.sequence = 3 }},
	{"producer without sequence", func(b *batchSpec) { b.producerID, b.epoch = 77_000_000, 0 }},
	{"producer with sequence -2", func(b *batchSpec) { b.producerID, b.epoch, b.sequence = 77_000_000, 0, -2 }},
	{"producer with epoch -1", func(b *batchSpec) { b.producerID, b.epoch, b.sequence = 77_000_000, -1, 0 }},
}

func produceBroken(s *Session, v int16) {
	t := s.Topic("t", 1)
	c := s.Conn()
	three := func() *batchSpec { return batch(codecNone, rec{value: []byte("a"), at: 1}, text("b"), text("c")) }
	for _, b := range bent {
		s.Probe().Send(v, produce(t, 0, -1, three().with(b.bend).bytes())).Note(b.name).Soon().Wait()
	}
	for name, raw := range malformedRecords() {
		s.Probe().Send(v, produce(t, 0, -1, raw)).Note(name).Soon().Wait()
	}
	c.Send(v, produce(t, 0, -1, three().bytes())).Note("good again").Wait()
	c.Do(11, fetch(t, 0, 0))
}

// malformedRecords yields, in a fixed order, records fields that are no single v2 batch.
func malformedRecords() func(func(string, []byte) bool) {
	good := batch(codecNone, text("a")).bytes()
	return func(yield func(string, []byte) bool) {
		_ = yield("two batches", concat(good, good)) &&
			yield("a batch and a byte", concat(good, []byte{1})) &&
			yield("null records", nil) &&
			yield("empty records", []byte{}) &&
			yield("5 bytes", []byte("hello")) &&
			yield("60 zeros", make([]byte, 60)) &&
			yield("61 zeros", make([]byte, 61)) &&
			yield("200 zeros", make([]byte, 200)) &&
			yield("header only", good[:61]) &&
			yield("no records", batch(codecNone).bytes()) &&
			yield("no records with delta 0", batch(codecNone).with(func(b *batchSpec) { b.lastOffsetDelta = 0 }).bytes()) &&
			yield("magic 0", oldMessage(0, "old")) &&
			yield("magic 1", oldMessage(1, "old"))
	}
}

func produceCodecs(s *Session, v int16) {
	t := s.Topic("t", 1)
	c := s.Conn()
	long := rec{key: []byte("k"), value: []byte(strings.Repeat("abc ", 500)), at: 3}
	for codec := codecNone; codec <= codecZstd; codec++ {
		c.Send(v, produce(t, 0, -1, batch(codec, text("small"), long).bytes())).Note(fmt.Sprintf("codec %d", codec)).Wait()
	}
	framed := batch(codecSnappy, text("x")).with(func(b *batchSpec) { b.payload = xerialSnappy(recordBytes(0, text("x"))) })
	c.Send(v, produce(t, 0, -1, framed.bytes())).Note("xerial snappy").Wait()
	c.Do(11, fetch(t, 0, 0))
	c.Do(4, fetch(t, 0, 0))
	c.Do(4, listOffsets(t, 0, -1, 0))
}

func produceUndecodable(s *Session, v int16) {
	t := s.Topic("t", 1)
	c := s.Conn()
	for codec := codecGzip; codec <= codecZstd; codec++ {
		for _, fault := range []struct {
			name    string
			payload []byte
		}{
			{"garbage", []byte("this is not compressed at all, is it")},
			{"empty", nil},
			{"cut", compress(codec, recordBytes(0, text(strings.Repeat("abcdefgh", 100))))[:20]},
			{"lying inside", compress(codec, []byte{200, 1, 0, 0, 0})},
		} {
			b := batch(codec, text("x")).with(func(b *batchSpec) { b.payload = fault.payload })
			s.Probe().Send(v, produce(t, 0, -1, b.bytes())).Note(fmt.Sprintf("codec %d %s", codec, fault.name)).Soon().Wait()
		}
	}
	c.Do(11, fetch(t, 0, 0))
}

func produceTimes(s *Session, v int16) {
	t := s.Topic("t", 1)
	c := s.Conn()
	ahead := time.Now().Add(2*time.Hour).UnixMilli() - T0
	soon := time.Now().Add(5*time.Minute).UnixMilli() - T0
	c.Send(v, produce(t, 0, -1, batch(codecNone, text("a"), rec{value: []byte("b"), at: ahead}, rec{value: []byte("c"), at: ahead}).bytes())).Note("two of three too far ahead").Wait()
	c.Send(v, produce(t, 0, -1, batch(codecGzip, rec{value: []byte("b"), at: ahead}).bytes())).Note("ahead, gzip").Wait()
	c.Send(v, produce(t, 0, -1, batch(codecNone, rec{value: []byte("b"), at: soon}).bytes())).Note("soon").Wait()
	bounded := s.Topic("bounded", 1, "message.timestamp.before.max.ms=1000")
	c.Send(v, produce(bounded, 0, -1, batch(codecNone, text("old"), rec{value: []byte("now"), at: time.Now().UnixMilli() - T0}).bytes())).Note("too long ago").Wait()
}

func produceAppendTime(s *Session, v int16) {
	t := s.Topic("t", 1, "message.timestamp.type=LogAppendTime")
	c := s.Conn()
	ahead := time.Now().Add(20*time.Hour).UnixMilli() - T0
	c.Do(v, produce(t, 0, -1, batch(codecNone, text("a"), rec{value: []byte("b"), at: ahead}).bytes()))
	c.Do(v, produce(t, 0, 1, batch(codecZstd, text("a")).bytes()))
	c.Do(v, produce(t, 0, -1, batch(codecNone, text("a")).with(func(b *batchSpec) { b.crcError = 1 }).bytes()))
	c.Send(11, fetch(t, 0, 0)).Summary().Wait()
}

func produceCompacted(s *Session, v int16) {
	t := s.Topic("t", 1, "cleanup.policy=compact")
	c := s.Conn()
	keyed := func(k string) rec { return rec{key: []byte(k), value: []byte("v")} }
	c.Do(v, produce(t, 0, -1, batch(codecNone, keyed("a"), keyed("")).bytes()))
	c.Do(v, produce(t, 0, -1, batch(codecNone, keyed("a"), text("no key"), keyed("c"), text("none")).bytes()))
	c.Do(v, produce(t, 0, -1, batch(codecLz4, text("no key")).bytes()))
	c.Do(4, listOffsets(t, 0, -1, 0))
}

func produceTooLarge(s *Session, v int16) {
	t := s.Topic("t", 2, "max.message.bytes=1000")
	c := s.Conn()
	c.Do(v, produce(t, 0, -1, batch(codecNone, text(strings.Repeat("x", 2000))).bytes()))
	c.Do(v, produce(t, 0, -1, batch(codecGzip, text(strings.Repeat("x", 2000))).bytes()))
	exact := 1000 - 61 - 9
	for n := exact - 1; n <= exact+2; n++ {
		c.Send(v, produce(t, 1, -1, batch(codecNone, text(strings.Repeat("x", n))).bytes())).Note(fmt.Sprintf("value of %d", n)).Wait()
	}
	segment := s.Topic("segment", 1, "segment.bytes=1048576", "max.message.bytes=5000000")
	c.Do(v, produce(segment, 0, -1, batch(codecNone, text(strings.Repeat("x", 1_100_000))).bytes()))
}

func produceTransactional(s *Session, v int16) {
	t := s.Topic("t", 1)
	c := s.Conn()
	id := s.ProducerID()
	b := batch(codecNone, text("a")).idempotent(id, 0, 0).with(func(b *batchSpec) { b.attributes = attrTransactional })
	c.Send(v, produce(t, 0, -1, b.bytes())).Note("no transactional id").Wait()
	control := batch(codecNone, rec{key: []byte{0, 0, 0, 1}, value: make([]byte, 6)}).idempotent(id, 0, 0).with(func(b *batchSpec) { b.attributes = attrTransactional | attrControl })
	c.Send(v, produce(t, 0, -1, control.bytes())).Note("control").Wait()
}

func produceLyingRecords(s *Session, v int16) {
	t := s.Topic("t", 2)
	c := s.Conn()
	for _, f := range []struct {
		name    string
		payload []byte
	}{
		{"record length negative", []byte{1, 0, 0, 0, 1, 2, 'a', 0}},
		{"record length 0", []byte{0}},
		{"record attributes set", []byte{14, 1, 0, 0, 1, 2, 'a', 0}},
		{"offset delta 5", []byte{14, 0, 0, 10, 1, 2, 'a', 0}},
		{"offset delta negative", []byte{14, 0, 0, 1, 1, 2, 'a', 0}},
		{"key length negative", []byte{14, 0, 0, 0, 3, 2, 'a', 0}},
		{"key length too large", []byte{14, 0, 0, 0, 60, 2, 'a', 0}},
		{"value length too large", []byte{14, 0, 0, 0, 1, 60, 'a', 0}},
		{"headers beyond the record", []byte{14, 0, 0, 0, 1, 2, 'a', 20}},
		{"headers negative", []byte{14, 0, 0, 0, 1, 2, 'a', 1}},
		{"header key null", []byte{18, 0, 0, 0, 1, 2, 'a', 2, 1, 1}},
		{"varint too long", []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0}},
		{"trailing bytes in the batch", []byte{14, 0, 0, 0, 1, 2, 'a', 0, 9, 9, 9}},
		// Last: offsets after them depend on whether they were accepted.
		{"record length too small", []byte{4, 0, 0, 0, 1, 2, 'a', 0}},
		{"record length too large", []byte{100, 0, 0, 0, 1, 2, 'a', 0}},
	} {
		for _, codec := range []int{codecNone, codecGzip} {
			b := batch(codec, text("a")).with(func(b *batchSpec) { b.payload = compress(codec, f.payload) })
			s.Probe().Send(v, produce(t, 0, -1, b.bytes())).Note(fmt.Sprintf("%s, codec %d", f.name, codec)).Soon().Wait()
		}
	}
	c.Do(v, produce(t, 1, -1, batch(codecNone, text("a")).bytes()))
}

// produceRecompressed: the topic's compression differs from the producer's. How a broker's library compresses is its
// own affair, so that the payload is read back by codec and count alone.
func produceRecompressed(s *Session, v int16) {
	t := s.Topic("t", 2, "compression.type=gzip")
	c := s.Conn()
	c.Do(v, produce(t, 0, -1, batch(codecNone, text("a"), rec{value: []byte("b"), at: 9}).bytes()))
	c.Do(v, produce(t, 0, -1, batch(codecLz4, text("a"), text("b"), text("c")).bytes()))
	c.Do(v, produce(t, 0, -1, batch(codecGzip, text("a")).bytes()))
	c.Send(11, fetch(t, 0, 0)).Summary().Wait()
	plain := s.Topic("plain", 1, "compression.type=uncompressed")
	c.Do(v, produce(plain, 0, -1, batch(codecGzip, text("a"), text("b")).bytes()))
	c.Do(11, fetch(plain, 0, 0))
}
