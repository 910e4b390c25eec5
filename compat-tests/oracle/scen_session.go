package oracle

import "github.com/twmb/franz-go/pkg/kmsg"

// sessionScenarios are incremental fetches (KIP-227).
func sessionScenarios(l *list) {
	l.between(1, 7, 18, "fetch session/life", sessionLife)
	l.between(1, 7, 18, "fetch session/errors", sessionErrors)
	l.between(1, 7, 18, "fetch session/partition errors", sessionPartitionErrors)
	l.between(1, 7, 18, "fetch session/forget", sessionForget)
	l.between(1, 7, 18, "fetch session/topic anew", sessionTopicAnew)
	l.between(1, 7, 18, "fetch session/over connections", sessionOverConnections)
	l.one(1, 13, "fetch session/names then ids", func(s *Session) { sessionSwitch(s, 12, 13) })
	l.one(1, 12, "fetch session/ids then names", func(s *Session) { sessionSwitch(s, 13, 12) })
	l.between(1, 4, 6, "fetch session/too old", func(s *Session, v int16) {
		t := s.Topic("t", 1)
		req := fetch(t, 0, 0)
		req.SessionEpoch, req.MaxWaitMillis = 0, 0
		s.Conn().Do(v, req)
	})
}

// inSession is a fetch of a session without waiting.
func inSession(id, epoch int32, topics ...kmsg.FetchRequestTopic) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.MaxBytes, req.MinBytes = 1<<20, 1
	req.SessionID, req.SessionEpoch, req.Topics = id, epoch, topics
	return req
}

func sessionOf(resp kmsg.Response) int32 { return resp.(*kmsg.FetchResponse).SessionID }

func sessionLife(s *Session, v int16) {
	t := s.Topic("t", 3)
	s.Fill(t, 0, batch(codecNone, text("a")))
	c := s.Conn()
	full := c.Send(v, inSession(0, 0, fetchTopic(t, fetchPartition(0, 0), fetchPartition(1, 0)))).Note("full").Wait()
	id := sessionOf(full)
	c.Send(v, inSession(id, 1)).Note("the same data again").Wait()
	c.Send(v, inSession(id, 2, fetchTopic(t, fetchPartition(0, 1)))).Note("position moved").Wait()
	c.Send(v, inSession(id, 3)).Note("nothing new").Wait()
	s.Fill(t, 1, batch(codecNone, text("b")))
	c.Send(v, inSession(id, 4)).Note("new data").Wait()
	c.Send(v, inSession(id, 5, fetchTopic(t, fetchPartition(2, 0)), fetchTopic(t, fetchPartition(1, 1)))).Note("a partition more").Wait()
	s.deleteRecords(t, 0, 1)
	c.Send(v, inSession(id, 6)).Note("log start moved").Wait()
	c.Send(v, inSession(id, -1, fetchTopic(t, fetchPartition(0, 1)))).Note("closing").Wait()
	c.Send(v, inSession(id, 7)).Note("closed").Wait()
}

func sessionErrors(s *Session, v int16) {
	t := s.Topic("t", 1)
	c := s.Conn()
	p := fetchTopic(t, fetchPartition(0, 0))
	c.Send(v, inSession(987_654_321, 1, p)).Note("unknown id").Wait()
	c.Send(v, inSession(987_654_321, -1, p)).Note("closing an unknown id").Wait()
	c.Send(v, inSession(0, 5, p)).Note("id 0, epoch 5").Wait()
	id := sessionOf(c.Do(v, inSession(0, 0, p)))
	c.Send(v, inSession(id, 2)).Note("epoch too high").Wait()
	c.Send(v, inSession(id, 1)).Note("right epoch").Wait()
	c.Send(v, inSession(id, 1)).Note("epoch used before").Wait()
	c.Send(v, inSession(id, 0, p)).Note("restart with the old id").Wait()
	c.Send(v, inSession(id, 2)).Note("the old session").Wait()
	c.Send(v, inSession(0, 0)).Note("full without partitions").Wait()
	c.Send(v, inSession(0, -1)).Note("sessionless without partitions").Wait()
}

func sessionPartitionErrors(s *Session, v int16) {
	t := s.Topic("t", 2)
	none := topic{s.Name("none"), [16]byte{4, 4}}
	c := s.Conn()
	id := sessionOf(c.Do(v, inSession(0, 0, fetchTopic(t, fetchPartition(0, 0), fetchPartition(1, 77), fetchPartition(9, 0)), fetchTopic(none, fetchPartition(0, 0)))))
	c.Send(v, inSession(id, 1)).Note("errors again").Wait()
	c.Send(v, inSession(id, 2, fetchTopic(t, fetchPartition(1, 0)))).Note("one mended").Wait()
	c.Send(v, inSession(id, 3)).Note("the others again").Wait()
}

// sessionTopicAnew: a topic of the session is deleted, and made anew under its name.
func sessionTopicAnew(s *Session, v int16) {
	t := s.Topic("t", 1)
	s.Fill(t, 0, batch(codecNone, text("a")))
	c := s.Conn()
	id := sessionOf(c.Do(v, inSession(0, 0, fetchTopic(t, fetchPartition(0, 0)))))
	s.setup(5, deleteTopics(t.name))
	s.await(func() bool { return !s.known(t.name) }, "deletion")
	c.Send(v, inSession(id, 1)).Note("deleted").Wait()
	s.Topic("t", 1)
	c.Send(v, inSession(id, 2)).Note("made anew").Wait()
	c.Send(v, inSession(id, 3)).Note("again").Wait()
}

func sessionForget(s *Session, v int16) {
	t := s.Topic("t", 2)
	c := s.Conn()
	id := sessionOf(c.Do(v, inSession(0, 0, fetchTopic(t, fetchPartition(0, 0), fetchPartition(1, 0)))))
	s.Fill(t, 0, batch(codecNone, text("a")))
	s.Fill(t, 1, batch(codecNone, text("b")))
	forget := inSession(id, 1)
	f := kmsg.NewFetchRequestForgottenTopic()
	f.Topic, f.TopicID, f.Partitions = t.name, t.id, []int32{0, 5}
	forget.ForgottenTopics = append(forget.ForgottenTopics, f)
	c.Send(v, forget).Note("without partition 0").Wait()
	c.Send(v, inSession(id, 2)).Note("still without").Wait()
}

func sessionOverConnections(s *Session, v int16) {
	t := s.Topic("t", 1)
	s.Fill(t, 0, batch(codecNone, text("a")))
	c := s.Conn()
	id := sessionOf(c.Do(v, inSession(0, 0, fetchTopic(t, fetchPartition(0, 0)))))
	c.Close()
	s.Conn().Do(v, inSession(id, 1))
}

func sessionSwitch(s *Session, first, second int16) {
	t := s.Topic("t", 1)
	c := s.Conn()
	id := sessionOf(c.Do(first, inSession(0, 0, fetchTopic(t, fetchPartition(0, 0)))))
	c.Do(second, inSession(id, 1, fetchTopic(t, fetchPartition(0, 0))))
	c.Do(first, inSession(id, 1))
	c.Do(first, inSession(id, 2))
}
