package oracle

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// clusterScenarios are what a lone node answers to requests about leaders, the metadata quorum and brokers.
func clusterScenarios(l *list) {
	l.each(43, "elect leaders/good", electGood)
	l.each(43, "elect leaders/errors", electErrors)
	l.each(55, "describe quorum/good", describeQuorumGood)
	l.each(55, "describe quorum/errors", describeQuorumErrors)
	l.each(64, "unregister broker/unknown", func(s *Session, v int16) { unregisterBrokers(s, v, 2, 1000) })
	l.each(64, "unregister broker/impossible ids", func(s *Session, v int16) { unregisterBrokers(s, v, -1, -2, 2147483647) })
	l.each(57, "update features", updateFeatures)
	l.each(80, "raft voters/add", addVoters)
	l.each(81, "raft voters/remove", removeVoters)
	l.each(94, "unregister controller", unregisterControllers)
	for _, r := range controllerOnly {
		for v := r.min; v <= r.max; v++ {
			l.one(r.key, v, fmt.Sprintf("between nodes/key %d/v%d", r.key, v), func(s *Session) { betweenNodes(s, r.key, v) })
		}
	}
}

const (
	electPreferred = int8(0)
	electUnclean   = int8(1)
)

func electLeaders(kind int8, name string, partitions ...int32) *kmsg.ElectLeadersRequest {
	req := kmsg.NewPtrElectLeadersRequest()
	req.ElectionType, req.TimeoutMillis = kind, 5000
	t := kmsg.NewElectLeadersRequestTopic()
	t.Topic, t.Partitions = name, partitions
	req.Topics = append(req.Topics, t)
	return req
}

func electGood(s *Session, v int16) {
	t := s.Topic("t", 2)
	c := s.Conn()
	c.Send(v, electLeaders(electPreferred, t.name, 0, 1)).Note("preferred").Wait()
	c.Send(v, electLeaders(electUnclean, t.name, 0, 1)).Note("unclean").Wait()
	all := electLeaders(electPreferred, t.name)
	all.Topics = nil
	c.Send(v, all).Note("all, preferred").OwnOnly().Wait()
	all.ElectionType = electUnclean
	c.Send(v, all).Note("all, unclean").OwnOnly().Wait()
	c.Do(8, metadata(&t.name))
}

func electErrors(s *Session, v int16) {
	t := s.Topic("t", 1)
	c := s.Conn()
	send := func(note string, req *kmsg.ElectLeadersRequest) { c.Send(v, req).Note(note).Wait() }
	send("no such topic", electLeaders(electPreferred, s.Name("none"), 0))
	send("no such partition", electLeaders(electPreferred, t.name, 7, -1))
	send("good and bad", electLeaders(electUnclean, t.name, 0, 3))
	send("no topic name", electLeaders(electPreferred, "", 0))
	send("bad topic name", electLeaders(electPreferred, "bad name!", 0))
	send("no partitions", electLeaders(electPreferred, t.name))
	send("a partition twice", electLeaders(electPreferred, t.name, 0, 0))
	none := electLeaders(electPreferred, t.name, 0)
	none.Topics = []kmsg.ElectLeadersRequestTopic{}
	send("an empty list", none)
	twice := electLeaders(electPreferred, t.name, 0)
	twice.Topics = append(twice.Topics, twice.Topics[0])
	send("a topic twice", twice)
	send("election type 2", electLeaders(2, t.name, 0))
	send("election type -1", electLeaders(-1, t.name, 0))
	for _, ms := range []int32{0, -1} {
		hasty := electLeaders(electPreferred, t.name, 0)
		hasty.TimeoutMillis = ms
		send(fmt.Sprint("timeout ", ms), hasty)
	}
}

func describeQuorum(name string, partitions ...int32) *kmsg.DescribeQuorumRequest {
	req := kmsg.NewPtrDescribeQuorumRequest()
	t := kmsg.NewDescribeQuorumRequestTopic()
	t.Topic = name
	for _, index := range partitions {
		p := kmsg.NewDescribeQuorumRequestTopicPartition()
		p.Partition = index
		t.Partitions = append(t.Partitions, p)
	}
	req.Topics = append(req.Topics, t)
	return req
}

const metadataTopic = "__cluster_metadata"

func describeQuorumGood(s *Session, v int16) {
	c := s.Conn()
	c.Do(v, describeQuorum(metadataTopic, 0))
	c.Send(v, describeQuorum(metadataTopic, 0)).Note("again").Wait()
}

func describeQuorumErrors(s *Session, v int16) {
	t := s.Topic("t", 1)
	c := s.Conn()
	send := func(note string, req *kmsg.DescribeQuorumRequest) { c.Send(v, req).Note(note).Wait() }
	send("another topic", describeQuorum(t.name, 0))
	send("no topic name", describeQuorum("", 0))
	send("another partition", describeQuorum(metadataTopic, 1))
	send("two partitions", describeQuorum(metadataTopic, 0, 1))
	send("a partition twice", describeQuorum(metadataTopic, 0, 0))
	send("no partitions", describeQuorum(metadataTopic))
	two := describeQuorum(metadataTopic, 0)
	two.Topics = append(two.Topics, describeQuorum(t.name, 0).Topics...)
	send("two topics", two)
	two.Topics = nil
	send("no topics", two)
}

func unregisterBrokers(s *Session, v int16, ids ...int32) {
	c := s.Conn()
	for _, id := range ids {
		req := kmsg.NewPtrUnregisterBrokerRequest()
		req.BrokerID = id
		c.Send(v, req).Note(fmt.Sprint(id)).Wait()
	}
}

// controllerOnly are requests among nodes that Kafka serves on controller listeners alone, and those of earlier Kafkas that
// it serves no more.
var controllerOnly = []struct{ key, min, max int16 }{
	{4, 0, 7}, {5, 0, 4}, {6, 0, 8}, {7, 0, 3}, {52, 0, 2}, {53, 0, 1}, {54, 0, 1}, {56, 0, 3}, {58, 0, 0}, {59, 0, 1}, {62, 0, 4},
	{63, 0, 2}, {67, 0, 0}, {70, 0, 0}, {73, 0, 0}, {82, 0, 0},
}

// betweenNodes is what a client's listener makes of such a request, and whether the next good client is served.
func betweenNodes(s *Session, key, v int16) {
	s.Conn().Send(v, kmsg.RequestForKey(key)).Soon().Alive().Wait()
	s.Probe().Send(0, kmsg.NewPtrMetadataRequest()).Alive().Wait()
}
