package oracle

import (
	"fmt"
	"math"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// listOffsetsScenarios are ListOffsets, DeleteRecords and OffsetForLeaderEpoch.
func listOffsetsScenarios(l *list) {
	l.each(2, "list offsets/special", listSpecial)
	l.each(2, "list offsets/by time", listByTime)
	l.each(2, "list offsets/empty log", listEmpty)
	l.each(2, "list offsets/errors", listErrors)
	l.between(2, 4, 11, "list offsets/leader epochs", listLeaderEpochs)
	l.each(2, "list offsets/append time", listAppendTime)
	l.each(21, "delete records/offsets", deleteRecordsOffsets)
	l.each(21, "delete records/errors", deleteRecordsErrors)
	l.each(23, "offset for leader epoch/epochs", offsetsForEpochs)
}

func listSpecial(s *Session, v int16) {
	t := s.Topic("t", 1)
	s.Fill(t, 0, batch(codecNone, text("a"), rec{value: []byte("late"), at: 50}), batch(codecGzip, text("c"), rec{value: []byte("d"), at: 50}))
	c := s.Conn()
	for _, isolation := range []int8{0, 1} {
		for ts := int64(-1); ts >= -8; ts-- {
			c.Send(v, listOffsets(t, 0, ts, isolation)).Note(fmt.Sprintf("timestamp %d, isolation %d", ts, isolation)).Wait()
		}
	}
	s.deleteRecords(t, 0, 1)
	for ts := int64(-1); ts >= -6; ts-- {
		c.Send(v, listOffsets(t, 0, ts, 0)).Note(fmt.Sprintf("timestamp %d after a deletion", ts)).Wait()
	}
}

func listByTime(s *Session, v int16) {
	t := s.Topic("t", 1)
	s.Fill(t, 0,
		batch(codecNone, rec{at: 10}, rec{at: 20}, rec{at: 15}),
		batch(codecZstd, rec{at: 5}, rec{at: 40}),
		batch(codecNone, rec{at: 30}))
	c := s.Conn()
	for _, at := range []int64{0, 10, 11, 15, 16, 20, 21, 30, 40, 41} {
		c.Send(v, listOffsets(t, 0, T0+at, 0)).Note(fmt.Sprintf("T0+%d", at)).Wait()
	}
	c.Send(v, listOffsets(t, 0, 0, 0)).Note("0").Wait()
	c.Send(v, listOffsets(t, 0, math.MaxInt64, 0)).Note("the end of time").Wait()
	s.deleteRecords(t, 0, 2)
	c.Send(v, listOffsets(t, 0, T0, 0)).Note("T0 after a deletion").Wait()
	c.Send(v, listOffsets(t, 0, T0+16, 0)).Note("T0+16 after a deletion").Wait()
}

func listEmpty(s *Session, v int16) {
	t := s.Topic("t", 1)
	c := s.Conn()
	for _, ts := range []int64{-1, -2, -3, -4, -5, -6, 0, T0} {
		c.Send(v, listOffsets(t, 0, ts, 0)).Note(fmt.Sprintf("timestamp %d", ts)).Wait()
	}
}

func listErrors(s *Session, v int16) {
	t := s.Topic("t", 2)
	c := s.Conn()
	c.Send(v, listOffsets(t, 4, -1, 0)).Note("no such partition").Wait()
	c.Send(v, listOffsets(t, -1, -1, 0)).Note("partition -1").Wait()
	c.Send(v, listOffsets(topic{name: s.Name("none")}, 0, -1, 0)).Note("no such topic").Wait()
	c.Send(v, listOffsets(topic{name: ""}, 0, -1, 0)).Note("no name").Wait()
	c.Send(v, listOffsets(topic{name: "bad name!"}, 0, -1, 0)).Note("bad name").Wait()
	twice := listOffsets(t, 0, -1, 0)
	twice.Topics[0].Partitions = append(twice.Topics[0].Partitions, listPartition(0, -2), listPartition(1, -1))
	c.Send(v, twice).Note("one partition twice").Wait()
	isolation := listOffsets(t, 0, -1, 2)
	c.Send(v, isolation).Note("isolation 2").Wait()
	for _, id := range []int32{-2, 1, 5} {
		replica := listOffsets(t, 0, -1, 0)
		replica.ReplicaID = id
		c.Send(v, replica).Note(fmt.Sprintf("replica %d", id)).Wait()
	}
	none := listOffsets(t, 0, -1, 0)
	none.Topics = nil
	c.Send(v, none).Note("no topics").Wait()
}

func listLeaderEpochs(s *Session, v int16) {
	t := s.Topic("t", 1)
	s.Fill(t, 0, batch(codecNone, text("a")))
	c := s.Conn()
	for _, epoch := range []int32{-1, 0, 1, -2} {
		for _, ts := range []int64{-1, -2, T0} {
			req := listOffsets(t, 0, ts, 0)
			req.Topics[0].Partitions[0].CurrentLeaderEpoch = epoch
			c.Send(v, req).Note(fmt.Sprintf("epoch %d, timestamp %d", epoch, ts)).Wait()
		}
	}
}

func listAppendTime(s *Session, v int16) {
	t := s.Topic("t", 1, "message.timestamp.type=LogAppendTime")
	s.Fill(t, 0, batch(codecNone, text("a"), text("b")), batch(codecNone, text("c")))
	c := s.Conn()
	for _, ts := range []int64{T0, -1, -2, -3, math.MaxInt64} {
		if ts == -3 {
			continue // which batch is the latest depends on the clock's millisecond
		}
		c.Send(v, listOffsets(t, 0, ts, 0)).Note(fmt.Sprintf("timestamp %d", ts)).Wait()
	}
}

func deleteRecordsOffsets(s *Session, v int16) {
	t := s.Topic("t", 1)
	s.Fill(t, 0, batch(codecNone, text("a"), text("b")), batch(codecNone, text("c")))
	c := s.Conn()
	for _, before := range []int64{0, 1, 1, 0, 4, -2, 2, -1, 3} {
		c.Send(v, deleteRecords(t, 0, before)).Note(fmt.Sprintf("before %d", before)).Wait()
		c.Do(4, listOffsets(t, 0, -2, 0))
	}
}

func deleteRecordsErrors(s *Session, v int16) {
	t := s.Topic("t", 1)
	c := s.Conn()
	c.Send(v, deleteRecords(t, 5, 0)).Note("no such partition").Wait()
	c.Send(v, deleteRecords(topic{name: s.Name("none")}, 0, 0)).Note("no such topic").Wait()
	c.Send(v, deleteRecords(s.internalTopic(), 0, 0)).Note("internal topic").Wait()
	compacted := s.Topic("compacted", 1, "cleanup.policy=compact")
	c.Send(v, deleteRecords(compacted, 0, 0)).Note("compacted topic").Wait()
	none := deleteRecords(t, 0, 0)
	none.Topics = nil
	c.Send(v, none).Note("no topics").Wait()
}

func offsetsForEpochs(s *Session, v int16) {
	t := s.Topic("t", 1)
	s.Fill(t, 0, batch(codecNone, text("a"), text("b")))
	c := s.Conn()
	for _, e := range []struct{ current, asked int32 }{{-1, 0}, {0, 0}, {1, 0}, {-1, 1}, {-1, -1}, {0, 5}, {-2, 0}, {-1, -2}, {-1, -2147483648}} {
		c.Send(v, offsetForEpoch(t, 0, e.current, e.asked)).Note(fmt.Sprintf("current %d, asked %d", e.current, e.asked)).Wait()
	}
	c.Send(v, offsetForEpoch(t, 4, -1, 0)).Note("no such partition").Wait()
	c.Send(v, offsetForEpoch(topic{name: s.Name("none")}, 0, -1, 0)).Note("no such topic").Wait()
}

func offsetForEpoch(t topic, partition, current, asked int32) *kmsg.OffsetForLeaderEpochRequest {
	req := kmsg.NewPtrOffsetForLeaderEpochRequest()
	req.ReplicaID = -1
	rt := kmsg.NewOffsetForLeaderEpochRequestTopic()
	rt.Topic = t.name
	rp := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
	rp.Partition, rp.CurrentLeaderEpoch, rp.LeaderEpoch = partition, current, asked
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	return req
}
