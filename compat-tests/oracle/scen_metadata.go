package oracle

import (
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// metadataScenarios are Metadata, DescribeTopicPartitions and DescribeCluster.
func metadataScenarios(l *list) {
	l.each(3, "metadata/topics", metadataTopics)
	l.each(3, "metadata/none and all", metadataNoneAndAll)
	l.each(3, "metadata/bad names", metadataBadNames)
	l.each(3, "metadata/auto-creation", metadataAutoCreation)
	l.between(3, 10, 13, "metadata/by id", metadataByID)
	l.between(3, 8, 13, "metadata/authorized operations", metadataOperations)
	l.each(60, "describe cluster", describeCluster)
	l.each(75, "describe topic partitions/topics", describeTopics)
	l.each(75, "describe topic partitions/limits and cursors", describeLimits)
	l.each(75, "describe topic partitions/errors", describeErrors)
	l.each(75, "describe topic partitions/all", func(s *Session, v int16) {
		t := s.Topic("t", 2)
		from := kmsg.NewDescribeTopicPartitionsRequestCursor()
		from.Topic = t.name // not the first of all: what comes before and after is anybody's
		s.Conn().Send(v, describePartitions(1, &from)).Note("none named").OwnOnly().Wait()
	})
}

func metadataTopics(s *Session, v int16) {
	a, b := s.Topic("b", 3), s.Topic("a", 1)
	c := s.Conn()
	req := metadata(&a.name, &b.name)
	c.Do(v, req)
	c.Send(v, metadata(&a.name, &a.name)).Note("twice").Wait()
	internal := "__consumer_offsets"
	c.Send(v, metadata(&internal)).Note("internal").Wait()
	none := s.Name("none")
	c.Send(v, metadata(&none, &b.name)).Note("one is missing").Wait()
}

func metadataNoneAndAll(s *Session, v int16) {
	s.Topic("t", 1)
	c := s.Conn()
	c.Send(v, metadata()).Note("empty list").OwnOnly().Wait()
	if v > 0 {
		all := metadata()
		all.Topics = nil
		c.Send(v, all).Note("null list").OwnOnly().Wait()
	}
}

func metadataBadNames(s *Session, v int16) {
	c := s.Conn()
	for _, name := range badTopicNames {
		req := metadata(&name)
		req.AllowAutoTopicCreation = true
		c.Send(v, req).Note(shortName(name)).Wait()
	}
}

var badTopicNames = []string{"", ".", "..", "a b", "../x", "a\x00b", "ä", "a/b", strings.Repeat("x", 250)}

func shortName(name string) string {
	if len(name) > 20 {
		return fmt.Sprintf("name of %d bytes", len(name))
	}
	return fmt.Sprintf("%q", name)
}

func metadataAutoCreation(s *Session, v int16) {
	name := s.Name("auto")
	c := s.Conn()
	req := metadata(&name)
	req.AllowAutoTopicCreation = true
	c.Send(v, req).Note("first").Wait()
	s.await(func() bool { return s.known(name) }, "auto-created topic")
	s.adopt("auto", s.topicID(name), 1)
	c.Send(v, req).Note("then").Wait()
	if v >= 4 {
		never := s.Name("never")
		c.Send(v, metadata(&never)).Note("not allowed").Wait()
		c.Send(v, metadata(&never)).Note("not allowed, still").Wait()
	}
}

func (s *Session) known(name string) bool {
	return s.setup(12, metadata(&name)).(*kmsg.MetadataResponse).Topics[0].ErrorCode == 0
}

func (s *Session) topicID(name string) [16]byte {
	return s.setup(12, metadata(&name)).(*kmsg.MetadataResponse).Topics[0].TopicID
}

func metadataByID(s *Session, v int16) {
	t := s.Topic("t", 1)
	for _, f := range []struct {
		note string
		id   [16]byte
		name *string
	}{
		{"known id", t.id, nil},
		{"unknown id", [16]byte{1, 2}, nil},
		{"zero id and null name", [16]byte{}, nil},
		{"id and its name", t.id, &t.name},
		{"id and another name", t.id, ptr(s.Name("none"))},
		{"unknown id and a known name", [16]byte{1, 2}, &t.name},
		{"metadata topic's id", [16]byte{15: 1}, nil},
	} {
		req := metadata(f.name)
		req.Topics[0].TopicID = f.id
		s.Conn().Send(v, req).Note(f.note).Wait()
	}
	both := metadata(&t.name, nil)
	both.Topics[1].TopicID = t.id
	s.Conn().Send(v, both).Note("a name and an id").Wait()
}

func metadataOperations(s *Session, v int16) {
	t := s.Topic("t", 1)
	c := s.Conn()
	req := metadata(&t.name, ptr(s.Name("none")))
	req.IncludeClusterAuthorizedOperations, req.IncludeTopicAuthorizedOperations = true, true
	c.Do(v, req)
	req.IncludeTopicAuthorizedOperations = false
	c.Do(v, req)
}

func describeCluster(s *Session, v int16) {
	c := s.Conn()
	for _, f := range []struct {
		endpoint       int8
		authorized     bool
		includesFenced bool
	}{{1, false, false}, {1, true, false}, {1, false, true}, {2, false, false}, {0, false, false}, {9, true, false}} {
		req := kmsg.NewPtrDescribeClusterRequest()
		req.EndpointType, req.IncludeClusterAuthorizedOperations, req.IncludeFencedBrokers = f.endpoint, f.authorized, f.includesFenced
		c.Send(v, req).Note(fmt.Sprintf("endpoint type %d, operations %t, fenced %t", f.endpoint, f.authorized, f.includesFenced)).Wait()
	}
}

func describePartitions(limit int32, cursor *kmsg.DescribeTopicPartitionsRequestCursor, names ...string) *kmsg.DescribeTopicPartitionsRequest {
	req := kmsg.NewPtrDescribeTopicPartitionsRequest()
	req.ResponsePartitionLimit, req.Cursor = limit, cursor
	for _, name := range names {
		t := kmsg.NewDescribeTopicPartitionsRequestTopic()
		t.Topic = name
		req.Topics = append(req.Topics, t)
	}
	return req
}

func describeTopics(s *Session, v int16) {
	a, b := s.Topic("b", 3), s.Topic("a", 1)
	c := s.Conn()
	c.Do(v, describePartitions(2000, nil, a.name, b.name))
	c.Send(v, describePartitions(2000, nil, a.name, a.name)).Note("twice").Wait()
	c.Send(v, describePartitions(2000, nil, "__consumer_offsets")).Note("internal").Wait()
}

func describeLimits(s *Session, v int16) {
	a, b := s.Topic("a", 5), s.Topic("b", 2)
	c := s.Conn()
	for _, limit := range []int32{-1, 0, 1, 3, 5, 6, 7, 8} {
		c.Send(v, describePartitions(limit, nil, b.name, a.name)).Note(fmt.Sprintf("limit %d", limit)).Wait()
	}
	for _, f := range []struct {
		topic     string
		partition int32
	}{
		{a.name, 0}, {a.name, 2}, {a.name, 4}, {a.name, 5}, {a.name, 99}, {a.name, -1}, {b.name, 0}, {b.name, 1},
		{s.Name("aa"), 0}, {s.Name("aa"), 1}, {s.Name("z"), 0}, {"", 0},
	} {
		cursor := kmsg.NewDescribeTopicPartitionsRequestCursor()
		cursor.Topic, cursor.Partition = f.topic, f.partition
		c.Send(v, describePartitions(2, &cursor, a.name, b.name)).Note(fmt.Sprintf("limit 2, cursor %s %d", strings.TrimPrefix(f.topic, s.prefix), f.partition)).Wait()
	}
}

func describeErrors(s *Session, v int16) {
	t := s.Topic("t", 1)
	c := s.Conn()
	c.Send(v, describePartitions(2000, nil, s.Name("none"), t.name)).Note("one is missing").Wait()
	for _, name := range badTopicNames {
		c.Send(v, describePartitions(2000, nil, name)).Note(shortName(name)).Wait()
	}
	c.Send(v, describePartitions(1, nil, s.Name("none"), s.Name("none2"), t.name)).Note("limit 1, missing topics first").Wait()
}
