package oracle

import (
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// topicScenarios are CreateTopics, DeleteTopics and CreatePartitions.
func topicScenarios(l *list) {
	l.each(19, "create topics/good", createGood)
	l.each(19, "create topics/no time", createWithoutTime)
	l.each(19, "create topics/names", createNames)
	l.each(19, "create topics/colliding names", createColliding)
	l.each(19, "create topics/counts", createCounts)
	l.each(19, "create topics/assignments", createAssignments)
	l.each(19, "create topics/configs", createConfigs)
	l.each(20, "delete topics/good", deleteGood)
	l.each(20, "delete topics/no time", func(s *Session, v int16) {
		t := s.Topic("t", 1)
		req := deleteTopics(t.name, s.Name("none"))
		if v >= 6 {
			req = kmsg.NewPtrDeleteTopicsRequest()
			for _, name := range []string{t.name, s.Name("none")} {
				topic := kmsg.NewDeleteTopicsRequestTopic()
				topic.Topic = ptr(name)
				req.Topics = append(req.Topics, topic)
			}
		}
		req.TimeoutMillis = 0
		c := s.Conn()
		c.Do(v, req)
		propagate()
		c.Send(12, metadata(&t.name)).Note("is it there").Wait()
	})
	l.each(20, "delete topics/errors", deleteErrors)
	l.between(20, 6, 6, "delete topics/by id", deleteByID)
	l.each(37, "create partitions/good", createPartitionsGood)
	l.each(37, "create partitions/no time", func(s *Session, v int16) {
		t := s.Topic("t", 1)
		req := createPartitions(t.name, 2)
		req.TimeoutMillis = 0
		c := s.Conn()
		c.Do(v, req)
		propagate()
		c.Send(12, metadata(&t.name)).Note("how many").Wait()
	})
	l.each(37, "create partitions/errors", createPartitionsErrors)
}

// newTopicName counts names, so that each request of a scenario may have a topic of its own.
func nameFor(s *Session, i int) string { return s.Name(fmt.Sprintf("t%d", i)) }

func createGood(s *Session, v int16) {
	c := s.Conn()
	configured := newTopic(s.Name("b"), 3, 1)
	configured.Configs = append(configured.Configs, topicConfig("retention.ms", ptr("1000")), topicConfig("cleanup.policy", ptr("compact,delete")), topicConfig("compression.type", ptr("lz4")))
	c.Do(v, createTopics(newTopic(s.Name("a"), 1, 1), configured))
	s.await(func() bool { return s.known(s.Name("a")) && s.known(s.Name("b")) }, "new topics")
	c.Send(12, metadata(ptr(s.Name("a")), ptr(s.Name("b")))).Note("has the ids that were answered").Wait()
	c.Send(v, createTopics(newTopic(s.Name("a"), 1, 1), newTopic(s.Name("c"), 1, 1))).Note("one exists").Wait()
	only := createTopics(newTopic(s.Name("only"), 2, 1), newTopic(s.Name("a"), 2, 1))
	only.ValidateOnly = true
	c.Send(v, only).Note("validate only").Wait()
	c.Send(v, createTopics(newTopic(s.Name("only"), 2, 1))).Note("was only validated").Wait()
	c.Send(v, createTopics(newTopic(s.Name("d"), 1, 1), newTopic(s.Name("d"), 2, 1), newTopic(s.Name("e"), 1, 1))).Note("one twice").Wait()
	c.Send(v, createTopics()).Note("none").Wait()
	if v >= 4 {
		c.Send(v, createTopics(newTopic(s.Name("defaults"), -1, -1))).Note("default counts").Wait()
	} else {
		c.Send(v, createTopics(newTopic(s.Name("defaults"), -1, -1))).Note("default counts below v4").Wait()
	}
}

// createWithoutTime: a creation that may take no time.
func createWithoutTime(s *Session, v int16) {
	c := s.Conn()
	for i, ms := range []int32{0, -1, -2147483648} {
		req := createTopics(newTopic(nameFor(s, i), 1, 1), newTopic(nameFor(s, i+10), 0, 1))
		req.TimeoutMillis = ms
		c.Send(v, req).Note(fmt.Sprintf("timeout %d", ms)).Wait()
		propagate()
		c.Send(12, metadata(ptr(nameFor(s, i)))).Note("is it there").Wait()
	}
	only := createTopics(newTopic(s.Name("only"), 1, 1))
	only.TimeoutMillis, only.ValidateOnly = 0, true
	c.Send(v, only).Note("validate only").Wait()
}

func createNames(s *Session, v int16) {
	c := s.Conn()
	for _, name := range badTopicNames {
		c.Send(v, createTopics(newTopic(name, 1, 1))).Note(shortName(name)).Wait()
	}
	longest := s.Name("") + strings.Repeat("x", 249-len(s.Name("")))
	c.Send(v, createTopics(newTopic(longest, 1, 1))).Note("249 bytes").Wait()
	c.Send(v, createTopics(newTopic("__consumer_offsets", 1, 1))).Note("an internal topic that exists").Wait()
	c.Send(v, createTopics(newTopic("__cluster_metadata", 1, 1))).Note("the metadata log").Wait()
}

func createColliding(s *Session, v int16) {
	c := s.Conn()
	c.Do(v, createTopics(newTopic(s.Name("x.y"), 1, 1)))
	c.Do(v, createTopics(newTopic(s.Name("x_y"), 1, 1)))
	c.Do(v, createTopics(newTopic(s.Name("p.q"), 1, 1), newTopic(s.Name("p_q"), 1, 1)))
}

func createCounts(s *Session, v int16) {
	c := s.Conn()
	for i, f := range []struct {
		partitions  int32
		replication int16
	}{{0, 1}, {-2, 1}, {1, 0}, {1, -2}, {1, 2}, {1, 100}, {0, 0}, {0, 2}, {100_001, 1}, {10_001, 2}, {2147483647, 1}} {
		c.Send(v, createTopics(newTopic(nameFor(s, i), f.partitions, f.replication))).Note(fmt.Sprintf("%d partitions, %d replicas", f.partitions, f.replication)).Wait()
	}
}

func createAssignments(s *Session, v int16) {
	c := s.Conn()
	for i, f := range []struct {
		note        string
		partitions  int32
		replication int16
		assignment  map[int32][]int32
	}{
		{"one partition", -1, -1, map[int32][]int32{0: {1}}},
		{"two partitions", -1, -1, map[int32][]int32{0: {1}, 1: {1}}},
		{"with a partition count", 1, -1, map[int32][]int32{0: {1}}},
		{"with a replication factor", -1, 1, map[int32][]int32{0: {1}}},
		{"unknown broker", -1, -1, map[int32][]int32{0: {9}}},
		{"negative broker", -1, -1, map[int32][]int32{0: {-1}}},
		{"broker twice", -1, -1, map[int32][]int32{0: {1, 1}}},
		{"no replicas", -1, -1, map[int32][]int32{0: {}}},
		{"starts at 1", -1, -1, map[int32][]int32{1: {1}}},
		{"a gap", -1, -1, map[int32][]int32{0: {1}, 2: {1}}},
		{"negative partition", -1, -1, map[int32][]int32{-1: {1}}},
		{"unequal replicas", -1, -1, map[int32][]int32{0: {1}, 1: {1, 9}}},
	} {
		t := newTopic(nameFor(s, i), f.partitions, f.replication)
		for p := int32(-1); p < 4; p++ {
			if replicas, ok := f.assignment[p]; ok {
				t.ReplicaAssignment = append(t.ReplicaAssignment, replicaAssignment(p, replicas))
			}
		}
		c.Send(v, createTopics(t)).Note(f.note).Wait()
	}
	double := newTopic(s.Name("double"), -1, -1)
	double.ReplicaAssignment = []kmsg.CreateTopicsRequestTopicReplicaAssignment{replicaAssignment(0, []int32{1}), replicaAssignment(0, []int32{1})}
	c.Send(v, createTopics(double)).Note("a partition twice").Wait()
}

func replicaAssignment(partition int32, replicas []int32) kmsg.CreateTopicsRequestTopicReplicaAssignment {
	a := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
	a.Partition, a.Replicas = partition, replicas
	return a
}

// topicConfigValues are tried one by one at creation, and later by both ways of altering configs.
var topicConfigValues = [][2]string{
	{"retention.ms", "-1"}, {"retention.ms", "-2"}, {"retention.ms", "x"}, {"retention.ms", ""}, {"retention.ms", "9223372036854775808"},
	{"retention.bytes", "-2"}, {"segment.bytes", "1048575"}, {"segment.bytes", "1048576"}, {"segment.ms", "0"}, {"segment.ms", "1"},
	{"cleanup.policy", ""}, {"cleanup.policy", "compact"}, {"cleanup.policy", "wrong"}, {"cleanup.policy", "compact, delete"}, {"cleanup.policy", "delete,delete"},
	{"compression.type", "zstd"}, {"compression.type", "none"}, {"compression.type", "uncompressed"}, {"compression.type", "GZIP"},
	{"compression.gzip.level", "10"}, {"compression.gzip.level", "-1"}, {"compression.lz4.level", "18"}, {"compression.zstd.level", "23"},
	{"min.insync.replicas", "0"}, {"min.insync.replicas", "5"}, {"max.message.bytes", "-1"}, {"max.message.bytes", "0"},
	{"message.timestamp.type", "CreateTime"}, {"message.timestamp.type", "createtime"}, {"message.timestamp.before.max.ms", "-1"}, {"message.timestamp.after.max.ms", "5"},
	{"message.timestamp.difference.max.ms", "5"}, {"message.format.version", "3.0"}, {"message.downconversion.enable", "true"},
	{"min.cleanable.dirty.ratio", "0.5"}, {"min.cleanable.dirty.ratio", "1.1"}, {"min.cleanable.dirty.ratio", "NaN"},
	{"preallocate", "true"}, {"preallocate", "yes"}, {"unclean.leader.election.enable", "TRUE"}, {"flush.messages", "0"}, {"flush.messages", "1"}, {"flush.ms", "-1"},
	{"index.interval.bytes", "-1"}, {"segment.index.bytes", "3"}, {"segment.index.bytes", "4"}, {"segment.jitter.ms", "-1"}, {"file.delete.delay.ms", "0"},
	{"delete.retention.ms", "-1"}, {"min.compaction.lag.ms", "-1"}, {"max.compaction.lag.ms", "0"}, {"remote.storage.enable", "true"}, {"remote.storage.enable", "false"},
	{"local.retention.ms", "-2"}, {"local.retention.ms", "-3"}, {"local.retention.bytes", "5"}, {"leader.replication.throttled.replicas", "*"},
	{"leader.replication.throttled.replicas", "0:1,1:1"}, {"leader.replication.throttled.replicas", "x"}, {"follower.replication.throttled.replicas", "none"},
	{"no.such.config", "1"}, {"", "1"}, {"retention.ms ", "1"}, {"log.retention.ms", "1"}, {"max.message.bytes", " 5000 "},
	{"remote.log.copy.disable", "true"}, {"remote.log.delete.on.disable", "true"}, {"errors.deadletterqueue.group.enable", "true"},
}

func createConfigs(s *Session, v int16) {
	c := s.Conn()
	for i, kv := range topicConfigValues {
		t := newTopic(nameFor(s, i), 1, 1)
		t.Configs = append(t.Configs, topicConfig(kv[0], ptr(kv[1])))
		req := createTopics(t)
		req.ValidateOnly = v >= 1
		c.Send(v, req).Note(fmt.Sprintf("%s=%s", kv[0], kv[1])).Wait()
	}
	pairs := newTopic(s.Name("pairs"), 1, 1)
	pairs.Configs = append(pairs.Configs, topicConfig("min.compaction.lag.ms", ptr("10")), topicConfig("max.compaction.lag.ms", ptr("5")))
	c.Send(v, createTopics(pairs)).Note("min above max compaction lag").Wait()
	twice := newTopic(s.Name("twice"), 1, 1)
	twice.Configs = append(twice.Configs, topicConfig("retention.ms", ptr("10")), topicConfig("retention.ms", ptr("5")))
	c.Send(v, createTopics(twice)).Note("a config twice").Wait()
	null := newTopic(s.Name("null"), 1, 1)
	null.Configs = append(null.Configs, topicConfig("retention.ms", nil))
	c.Send(v, createTopics(null)).Note("a null value").Wait()
}

// deleteTopics names topics in the way of every version.
func deleteTopics(names ...string) *kmsg.DeleteTopicsRequest {
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.TimeoutMillis, req.TopicNames = 10_000, names
	for _, name := range names {
		t := kmsg.NewDeleteTopicsRequestTopic()
		t.Topic = &name
		req.Topics = append(req.Topics, t)
	}
	return req
}

func deleteGood(s *Session, v int16) {
	a, b := s.Topic("a", 2), s.Topic("b", 1)
	s.Fill(a, 0, batch(codecNone, text("x")))
	c := s.Conn()
	c.Do(v, deleteTopics(a.name))
	c.Send(v, deleteTopics(a.name, b.name)).Note("one is gone").Wait()
	propagate()
	c.Do(8, metadata(&a.name, &b.name))
	again := s.Topic("a", 1)
	c.Send(9, fetch(again, 0, 0)).Note("made again").Wait()
}

func deleteErrors(s *Session, v int16) {
	t := s.Topic("t", 1)
	c := s.Conn()
	c.Send(v, deleteTopics(s.Name("none"))).Note("unknown").Wait()
	c.Send(v, deleteTopics("")).Note("no name").Wait()
	c.Send(v, deleteTopics("bad name!")).Note("bad name").Wait()
	c.Send(v, deleteTopics(t.name, t.name)).Note("twice").Wait()
	propagate()
	c.Do(8, metadata(&t.name))
	c.Send(v, deleteTopics()).Note("none").Wait()
}

func deleteByID(s *Session, v int16) {
	a, b := s.Topic("a", 1), s.Topic("b", 1)
	c := s.Conn()
	for _, f := range []struct {
		note string
		name *string
		id   [16]byte
	}{
		{"unknown id", nil, [16]byte{3}},
		{"neither", nil, [16]byte{}},
		{"both", &a.name, a.id},
		{"the metadata topic's id", nil, [16]byte{15: 1}},
		{"known id", nil, a.id},
		{"known id, again", nil, a.id},
	} {
		req := deleteTopics("x")
		req.Topics[0].Topic, req.Topics[0].TopicID = f.name, f.id
		c.Send(v, req).Note(f.note).Wait()
	}
	twice := deleteTopics(b.name, "x")
	twice.Topics[1].Topic, twice.Topics[1].TopicID = nil, b.id
	c.Send(v, twice).Note("by name and by id").Wait()
	propagate()
	c.Do(8, metadata(&b.name))
}

func createPartitions(name string, count int32, assignments ...[]int32) *kmsg.CreatePartitionsRequest {
	req := kmsg.NewPtrCreatePartitionsRequest()
	req.TimeoutMillis = 10_000
	t := kmsg.NewCreatePartitionsRequestTopic()
	t.Topic, t.Count = name, count
	for _, replicas := range assignments {
		a := kmsg.NewCreatePartitionsRequestTopicAssignment()
		a.Replicas = replicas
		t.Assignment = append(t.Assignment, a)
	}
	req.Topics = append(req.Topics, t)
	return req
}

func createPartitionsGood(s *Session, v int16) {
	t := s.Topic("t", 1)
	c := s.Conn()
	only := createPartitions(t.name, 9)
	only.ValidateOnly = true
	c.Send(v, only).Note("validate only").Wait()
	c.Do(v, createPartitions(t.name, 3))
	c.Send(v, createPartitions(t.name, 5, []int32{1}, []int32{1})).Note("with an assignment").Wait()
	s.adopt("t", t.id, 5)
	propagate()
	c.Do(8, metadata(&t.name))
}

func createPartitionsErrors(s *Session, v int16) {
	t := s.Topic("t", 2)
	c := s.Conn()
	for _, count := range []int32{2, 1, 0, -1, 100_001} {
		c.Send(v, createPartitions(t.name, count)).Note(fmt.Sprintf("count %d", count)).Wait()
	}
	c.Send(v, createPartitions(s.Name("none"), 4)).Note("unknown topic").Wait()
	c.Send(v, createPartitions("", 4)).Note("no name").Wait()
	for _, f := range []struct {
		note        string
		assignments [][]int32
	}{
		{"too few assignments", [][]int32{{1}}},
		{"too many assignments", [][]int32{{1}, {1}, {1}}},
		{"unknown broker", [][]int32{{9}, {1}}},
		{"broker twice", [][]int32{{1, 1}, {1}}},
		{"no replicas", [][]int32{{}, {1}}},
		{"more replicas than the others", [][]int32{{1, 9}, {1}}},
	} {
		c.Send(v, createPartitions(t.name, 4, f.assignments...)).Note(f.note).Wait()
	}
	twice := createPartitions(t.name, 3)
	twice.Topics = append(twice.Topics, twice.Topics[0])
	c.Send(v, twice).Note("twice").Wait()
	c.Send(v, createPartitions("__consumer_offsets", 3)).Note("internal topic, fewer").Wait()
	propagate()
	c.Do(8, metadata(&t.name))
}
