package oracle

import (
	"github.com/twmb/franz-go/pkg/kmsg"
)

// reassignScenarios are about where replicas are to be.
func reassignScenarios(l *list) {
	l.each(45, "alter reassignments/good", reassignGood)
	l.each(45, "alter reassignments/errors", reassignErrors)
	l.each(46, "list reassignments/none", listReassignments)
	l.each(46, "list reassignments/errors", listReassignmentErrors)
}

func reassign(name string, partition int32, replicas ...int32) *kmsg.AlterPartitionAssignmentsRequest {
	req := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	req.TimeoutMillis = 5000
	t := kmsg.NewAlterPartitionAssignmentsRequestTopic()
	t.Topic = name
	p := kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
	p.Partition, p.Replicas = partition, replicas
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}

func reassignGood(s *Session, v int16) {
	t := s.Topic("t", 2)
	c := s.Conn()
	c.Send(v, reassign(t.name, 0, 1)).Note("to where it is").Wait()
	c.Send(v, reassign(t.name, 0, nil...)).Note("cancel what is not").Wait()
	two := reassign(t.name, 0, 1)
	two.Topics[0].Partitions = append(two.Topics[0].Partitions, reassign(t.name, 1, 1).Topics[0].Partitions...)
	c.Send(v, two).Note("two partitions").Wait()
	two.Topics = nil
	c.Send(v, two).Note("nothing").Wait()
	c.Do(8, metadata(&t.name))
}

func reassignErrors(s *Session, v int16) {
	t := s.Topic("t", 1)
	c := s.Conn()
	send := func(note string, req *kmsg.AlterPartitionAssignmentsRequest) { c.Send(v, req).Note(note).Wait() }
	send("unknown broker", reassign(t.name, 0, 9))
	send("one known, one not", reassign(t.name, 0, 1, 9))
	send("negative broker", reassign(t.name, 0, -1))
	send("broker twice", reassign(t.name, 0, 1, 1))
	send("no replicas", reassign(t.name, 0, []int32{}...))
	empty := reassign(t.name, 0, 1)
	empty.Topics[0].Partitions[0].Replicas = []int32{}
	send("an empty list of replicas", empty)
	send("no such partition", reassign(t.name, 7, 1))
	send("negative partition", reassign(t.name, -1, 1))
	send("no such topic", reassign(s.Name("none"), 0, 1))
	send("no topic name", reassign("", 0, 1))
	mixed := reassign(t.name, 0, 1)
	mixed.Topics = append(mixed.Topics, reassign(s.Name("none"), 0, 1).Topics...)
	send("good and bad", mixed)
	twice := reassign(t.name, 0, 1)
	twice.Topics[0].Partitions = append(twice.Topics[0].Partitions, twice.Topics[0].Partitions[0])
	send("a partition twice", twice)
	if v >= 1 {
		fixed := reassign(t.name, 0, 1, 9)
		fixed.AllowReplicationFactorChange = false
		send("another replication factor, which is not allowed", fixed)
	}
	c.Do(8, metadata(&t.name))
}

func listReassignments(s *Session, v int16) {
	t := s.Topic("t", 2)
	c := s.Conn()
	req := kmsg.NewPtrListPartitionReassignmentsRequest()
	c.Send(v, req).Note("all").Wait()
	rt := kmsg.NewListPartitionReassignmentsRequestTopic()
	rt.Topic, rt.Partitions = t.name, []int32{0, 1}
	req.Topics = append(req.Topics, rt)
	c.Send(v, req).Note("of a topic").Wait()
}

func listReassignmentErrors(s *Session, v int16) {
	t := s.Topic("t", 1)
	c := s.Conn()
	for _, f := range []struct {
		note, name string
		partitions []int32
	}{{"no such topic", s.Name("none"), []int32{0}}, {"no such partition", t.name, []int32{9}}, {"no partitions", t.name, nil}, {"no name", "", []int32{0}}} {
		req := kmsg.NewPtrListPartitionReassignmentsRequest()
		rt := kmsg.NewListPartitionReassignmentsRequestTopic()
		rt.Topic, rt.Partitions = f.name, f.partitions
		req.Topics = append(req.Topics, rt)
		c.Send(v, req).Note(f.note).Wait()
	}
	none := kmsg.NewPtrListPartitionReassignmentsRequest()
	none.Topics = []kmsg.ListPartitionReassignmentsRequestTopic{}
	c.Send(v, none).Note("an empty list").Wait()
}
