package oracle

import (
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func fetchScenarios(l *list) {
	l.each(1, "fetch/records", fetchRecords)
	l.each(1, "fetch/limits", fetchLimits)
	l.each(1, "fetch/errors", fetchErrors)
	l.each(1, "fetch/long poll", fetchLongPoll)
	l.each(1, "fetch/woken", fetchWoken)
	l.each(1, "fetch/read committed", fetchReadCommitted)
	l.between(1, 9, 18, "fetch/leader epochs", fetchLeaderEpochs)
	l.between(1, 12, 18, "fetch/diverging", fetchDiverging)
	l.between(1, 5, 18, "fetch/deleted records", fetchDeletedRecords)
	l.each(1, "fetch/replica ids", fetchReplicaIDs)
	l.each(1, "fetch/waits and errors", fetchWaitsAndErrors)
	l.each(1, "fetch/segments", fetchSegments)
	l.each(1, "fetch/topic deleted meanwhile", fetchDeletedMeanwhile)
	l.between(1, 11, 18, "fetch/rack", func(s *Session, v int16) {
		t := s.Topic("t", 1)
		s.Fill(t, 0, batch(codecNone, text("a")))
		req := fetch(t, 0, 0)
		req.Rack = "some-rack"
		s.Conn().Do(v, req)
	})
}

func fetchRecords(s *Session, v int16) {
	t := s.Topic("t", 2)
	s.Fill(t, 0, batch(codecNone, text("a"), text("b")), batch(codecGzip, text("c"), text("d")), batch(codecZstd, text("e")))
	c := s.Conn()
	for offset := range int64(5) {
		c.Send(v, fetch(t, 0, offset)).Note(fmt.Sprintf("from %d", offset)).Wait()
	}
	both := fetch(t, 0, 3)
	both.Topics[0].Partitions = append(both.Topics[0].Partitions, fetchPartition(1, 0))
	c.Send(v, both).Note("one of two is empty").Wait()
	twice := fetch(t, 0, 0)
	twice.Topics[0].Partitions = append(twice.Topics[0].Partitions, fetchPartition(0, 4))
	c.Send(v, twice).Note("one partition twice").Wait()
}

func fetchLimits(s *Session, v int16) {
	t := s.Topic("t", 3)
	value := text(strings.Repeat("x", 1000))
	for p := range int32(3) {
		s.Fill(t, p, batch(codecNone, value), batch(codecNone, value), batch(codecNone, value))
	}
	c := s.Conn()
	for _, limits := range [][2]int32{{0, 0}, {1, 1}, {1 << 20, 1}, {1, 1 << 20}, {1500, 1500}, {2500, 1200}, {1 << 20, 1 << 20}, {-1, 1 << 20}, {1 << 20, -1}} {
		req := fetch(t, 0, 0)
		req.MaxBytes = limits[0]
		req.Topics[0].Partitions = nil
		for p := range int32(3) {
			rp := fetchPartition(p, 0)
			rp.PartitionMaxBytes = limits[1]
			req.Topics[0].Partitions = append(req.Topics[0].Partitions, rp)
		}
		c.Send(v, req).Note(fmt.Sprintf("max %d, per partition %d", limits[0], limits[1])).Wait()
	}
}

func fetchErrors(s *Session, v int16) {
	t := s.Topic("t", 1)
	s.Fill(t, 0, batch(codecNone, text("a")))
	c := s.Conn()
	for _, offset := range []int64{2, -1, -2, 1 << 40} {
		c.Send(v, fetch(t, 0, offset)).Note(fmt.Sprintf("offset %d", offset)).Wait()
	}
	c.Send(v, fetch(t, 5, 0)).Note("no such partition").Wait()
	c.Send(v, fetch(t, -1, 0)).Note("partition -1").Wait()
	c.Send(v, fetch(topic{s.Name("none"), [16]byte{7}}, 0, 0)).Note("no such topic").Wait()
	c.Send(v, fetch(topic{}, 0, 0)).Note("no name, zero id").Wait()
	c.Send(v, fetch(topic{"bad name!", [16]byte{8}}, 0, 0)).Note("bad name").Wait()
	mixed := fetch(t, 0, 0)
	mixed.Topics[0].Partitions = append(mixed.Topics[0].Partitions, fetchPartition(3, 0))
	mixed.Topics = append(mixed.Topics, fetchTopic(topic{s.Name("none"), [16]byte{7}}, fetchPartition(0, 0)))
	c.Send(v, mixed).Note("good and bad").Wait()
	isolation := fetch(t, 0, 0)
	isolation.IsolationLevel = 3
	c.Send(v, isolation).Note("isolation level 3").Wait()
}

func fetchLongPoll(s *Session, v int16) {
	const wait = 2500
	t := s.Topic("t", 1)
	s.Fill(t, 0, batch(codecNone, text("a")))
	for _, f := range []struct {
		note             string
		offset           int64
		minBytes, waitMs int32
	}{
		{"nothing new", 1, 1, wait},
		{"nothing new, min 0", 1, 0, wait},
		{"nothing new, no wait", 1, 1, 0},
		{"nothing new, wait negative", 1, 1, -1},
		{"data", 0, 1, wait},
		{"less than min", 0, 100_000, wait},
		{"min negative", 1, -1, wait},
	} {
		req := fetch(t, 0, f.offset)
		req.MinBytes, req.MaxWaitMillis = f.minBytes, f.waitMs
		s.Conn().Send(v, req).Note(f.note).Timed(wait * time.Millisecond).Wait()
	}
	empty := fetch(t, 0, 0)
	empty.Topics, empty.MaxWaitMillis = nil, wait
	s.Conn().Send(v, empty).Note("no partitions").Timed(wait * time.Millisecond).Wait()
}

func fetchWoken(s *Session, v int16) {
	const wait = 8 * time.Second
	t := s.Topic("t", 2)
	c := s.Conn()
	req := fetch(t, 0, 0)
	req.MaxWaitMillis = int32(wait.Milliseconds())
	req.Topics[0].Partitions = append(req.Topics[0].Partitions, fetchPartition(1, 0))
	parked := c.Send(v, req).Note("parked, then woken").Timed(wait)
	behind := c.Send(0, metadata(&t.name)).Note("behind it")
	pause(100 * time.Millisecond)
	s.Fill(t, 1, batch(codecNone, text("wakes")))
	parked.Wait()
	behind.Wait()

	big := fetch(t, 0, 0)
	big.MinBytes, big.MaxWaitMillis = 160, int32(wait.Milliseconds())
	parked = c.Send(v, big).Note("woken by the third").Timed(wait)
	for range 3 {
		pause(30 * time.Millisecond)
		s.Fill(t, 0, batch(codecNone, text("0123456789")))
	}
	parked.Wait()
}

func fetchReadCommitted(s *Session, v int16) {
	t := s.Topic("t", 2)
	s.Fill(t, 0, batch(codecNone, text("a")))
	c := s.Conn()
	for _, p := range []int32{0, 1, 5} {
		req := fetch(t, p, 0)
		req.IsolationLevel = 1
		c.Do(v, req)
	}
}

func fetchLeaderEpochs(s *Session, v int16) {
	t := s.Topic("t", 1)
	s.Fill(t, 0, batch(codecNone, text("a")))
	c := s.Conn()
	for _, epoch := range []int32{-1, 0, 1, 5, -2} {
		req := fetch(t, 0, 0)
		req.Topics[0].Partitions[0].CurrentLeaderEpoch = epoch
		c.Send(v, req).Note(fmt.Sprintf("current epoch %d", epoch)).Wait()
	}
}

func fetchDiverging(s *Session, v int16) {
	t := s.Topic("t", 1)
	s.Fill(t, 0, batch(codecNone, text("a")))
	c := s.Conn()
	for _, f := range [][2]int64{{0, 0}, {0, 1}, {0, 2}, {0, 50}, {1, 0}, {1, 1}, {1, 9}, {-1, 0}, {-2, 0}} {
		req := fetch(t, 0, f[1])
		req.Topics[0].Partitions[0].LastFetchedEpoch = int32(f[0])
		c.Send(v, req).Note(fmt.Sprintf("last epoch %d, offset %d", f[0], f[1])).Wait()
	}
}

func fetchDeletedRecords(s *Session, v int16) {
	t := s.Topic("t", 1)
	s.Fill(t, 0, batch(codecNone, text("a"), text("b")), batch(codecNone, text("c"), text("d")))
	s.deleteRecords(t, 0, 3)
	c := s.Conn()
	for offset := range int64(5) {
		c.Send(v, fetch(t, 0, offset)).Note(fmt.Sprintf("offset %d", offset)).Wait()
	}
	s.deleteRecords(t, 0, -1)
	c.Do(v, fetch(t, 0, 4))
	c.Do(v, fetch(t, 0, 3))
}

func (s *Session) deleteRecords(t topic, partition int32, before int64) {
	resp := s.setup(2, deleteRecords(t, partition, before)).(*kmsg.DeleteRecordsResponse)
	if code := resp.Topics[0].Partitions[0].ErrorCode; code != 0 {
		panic(fmt.Sprintf("set-up: delete records: error %d", code))
	}
}

func deleteRecords(t topic, partition int32, before int64) *kmsg.DeleteRecordsRequest {
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.TimeoutMillis = 5000
	rt := kmsg.NewDeleteRecordsRequestTopic()
	rt.Topic = t.name
	rp := kmsg.NewDeleteRecordsRequestTopicPartition()
	rp.Partition, rp.Offset = partition, before
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	return req
}

// fetchReplicaIDs: ids of followers that do not exist, and the debugging consumer.
func fetchReplicaIDs(s *Session, v int16) {
	t := s.Topic("t", 1)
	s.Fill(t, 0, batch(codecNone, text("a")))
	for _, id := range []int32{-2, 5, 1} {
		req := fetch(t, 0, 0)
		req.ReplicaID = id
		if v >= 15 { // before, Kafka closes over the tag
			req.ReplicaState.ID = id
		}
		s.Conn().Send(v, req).Note(fmt.Sprintf("replica %d", id)).Wait()
	}
}

// fetchWaitsAndErrors: which errors end a wait.
func fetchWaitsAndErrors(s *Session, v int16) {
	const wait = 2500
	t := s.Topic("t", 1)
	for _, f := range []struct {
		note string
		t    topic
		p    int32
		o    int64
	}{
		{"offset out of range", t, 0, 9},
		{"no such partition", t, 4, 0},
		{"no such topic", topic{s.Name("none"), [16]byte{5}}, 0, 0},
	} {
		req := fetch(t, 0, 0)
		req.MaxWaitMillis = wait
		if f.t == t {
			req.Topics[0].Partitions = []kmsg.FetchRequestTopicPartition{fetchPartition(f.p, f.o)}
		} else {
			req.Topics = append(req.Topics, fetchTopic(f.t, fetchPartition(f.p, f.o)))
		}
		s.Conn().Send(v, req).Note(f.note).Timed(wait * time.Millisecond).Wait()
	}
}

// fetchSegments: a fetch never crosses from one segment into the next.
func fetchSegments(s *Session, v int16) {
	t := s.Topic("t", 1, "segment.bytes=1048576")
	half := text(strings.Repeat("x", 400_000))
	for range 5 {
		s.Fill(t, 0, batch(codecNone, half))
	}
	c := s.Conn()
	for _, offset := range []int64{0, 1, 2, 3, 4} {
		req := fetch(t, 0, offset)
		req.MaxBytes, req.Topics[0].Partitions[0].PartitionMaxBytes = 50<<20, 50<<20
		c.Send(v, req).Note(fmt.Sprintf("from %d", offset)).Wait()
	}
}

// fetchDeletedMeanwhile: what a parked fetch is answered when its topic goes.
func fetchDeletedMeanwhile(s *Session, v int16) {
	const wait = 3 * time.Second
	t := s.Topic("t", 1)
	req := fetch(t, 0, 0)
	req.MaxWaitMillis = int32(wait.Milliseconds())
	parked := s.Conn().Send(v, req).Timed(wait)
	pause(settle)
	s.setup(5, deleteTopics(t.name))
	parked.Wait()
}
