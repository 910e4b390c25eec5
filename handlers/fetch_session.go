package handlers

import (
	"container/list"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster/metadata"
	"grete/cluster/replica"
	"grete/internal/sched"
)

// fetchKey names a partition in a request: by topic id from version 13 on, else by name.
type fetchKey struct {
	topic     string
	topicID   metadata.UUID
	partition int32
}

// fetchTarget is what a request, or its session, wants of one partition.
type fetchTarget struct {
	key                fetchKey
	name               string // of a topic that a session knows by id, once it was found
	offset             int64
	currentLeaderEpoch int32
	lastFetchedEpoch   int32
	logStart           int64 // of a follower's log
	maxBytes           int32
}

// sessionPartition is a target that a session remembers, with what the client was told last.
type sessionPartition struct {
	fetchTarget
	highWatermark, logStartOffset int64
}

// fetchSession is the state of one incremental fetch session (KIP-227).
type fetchSession struct {
	// Fixed once it is in the cache.
	id                  int32
	privileged, usesIDs bool
	createdMs           int64

	// Guarded by FetchSessions.mu.
	lastUsedMs int64
	cachedSize int
	lentBytes  int64

	mu    sched.Mutex
	epoch int32 // that the next request must carry
	parts map[fetchKey]*list.Element
	order list.List // of *sessionPartition: those that returned records go to the back
	name  string    // of the topic that was added last, which others share
}

func newFetchSession(privileged, usesIDs bool) *fetchSession {
	return &fetchSession{
		privileged: privileged, usesIDs: usesIDs,
		epoch: nextFetchEpoch(initialFetchEpoch), parts: map[fetchKey]*list.Element{},
	}
}

// set adds or updates a partition. Its name is copied: targets of a request alias its buffer.
func (s *fetchSession) set(t fetchTarget) *sessionPartition {
	if e, ok := s.parts[t.key]; ok {
		p := e.Value.(*sessionPartition)
		t.key = p.key
		if t.name == "" {
			t.name = p.name
		}
		p.fetchTarget = t
		return p
	}
	if s.name != t.key.topic {
		s.name = strings.Clone(t.key.topic)
	}
	t.key.topic = s.name
	p := &sessionPartition{fetchTarget: t, highWatermark: -1, logStartOffset: -1}
	s.parts[t.key] = s.order.PushBack(p)
	return p
}

func (s *fetchSession) forget(key fetchKey) {
	if e, ok := s.parts[key]; ok {
		s.order.Remove(e)
		delete(s.parts, key)
	}
}

func (s *fetchSession) targets() []fetchTarget {
	out := make([]fetchTarget, 0, len(s.parts))
	for e := s.order.Front(); e != nil; e = e.Next() {
		out = append(out, e.Value.(*sessionPartition).fetchTarget)
	}
	return out
}

// fetchContext is what a request's session metadata amounts to: which partitions it is about and how its response
// is made. session is nil for a sessionless fetch; create asks for a new session.
type fetchContext struct {
	cache   *FetchSessions
	session *fetchSession
	create  bool
	replica bool
	usesIDs bool
	epoch   int32 // of the request
	targets []fetchTarget
}

// open resolves a request against the cache; a session error is a code for the whole response.
func (c *FetchSessions) open(req *kmsg.FetchRequest, fromReplica bool) (*fetchContext, *kerr.Error) {
	x := &fetchContext{cache: c, replica: fromReplica, usesIDs: req.Version >= 13, epoch: req.SessionEpoch}
	if req.SessionEpoch == initialFetchEpoch || req.SessionEpoch == finalFetchEpoch {
		if req.SessionID != noFetchSession {
			c.remove(req.SessionID)
		}
		x.create = req.SessionEpoch == initialFetchEpoch
		x.targets = requestTargets(req)
		return x, nil
	}
	s := c.get(req.SessionID)
	if s == nil {
		return nil, kerr.FetchSessionIDNotFound
	}
	return c.resume(x, s, req)
}

// resume applies an incremental request to its session.
func (c *FetchSessions) resume(x *fetchContext, s *fetchSession, req *kmsg.FetchRequest) (*fetchContext, *kerr.Error) {
	s.mu.Lock()
	if s.epoch != req.SessionEpoch {
		s.mu.Unlock()
		return nil, kerr.InvalidFetchSessionEpoch
	}
	if s.usesIDs != x.usesIDs {
		s.mu.Unlock()
		return nil, kerr.FetchSessionTopicIDError
	}
	if !c.lendMore(s, req) {
		s.mu.Unlock()
		c.remove(s.id)
		return nil, kerr.FetchSessionIDNotFound
	}
	s.update(req)
	size := len(s.parts)
	if size > 0 {
		s.epoch = nextFetchEpoch(s.epoch)
		x.session, x.targets = s, s.targets()
	}
	s.mu.Unlock()
	if size == 0 { // nothing left: the session ends
		c.touch(s, 0)
		c.remove(s.id)
		x.targets = requestTargets(req)
		return x, nil
	}
	c.touch(s, size)
	return x, nil
}

func (s *fetchSession) update(req *kmsg.FetchRequest) {
	eachTarget(req, func(t fetchTarget) { s.set(t) })
	for i := range req.ForgottenTopics {
		f := &req.ForgottenTopics[i]
		for _, partition := range f.Partitions {
			s.forget(fetchKey{topic: f.Topic, topicID: f.TopicID, partition: partition})
		}
	}
}

func eachTarget(req *kmsg.FetchRequest, f func(fetchTarget)) {
	for i := range req.Topics {
		t := &req.Topics[i]
		for j := range t.Partitions {
			p := &t.Partitions[j]
			f(fetchTarget{
				key:    fetchKey{topic: t.Topic, topicID: t.TopicID, partition: p.Partition},
				offset: p.FetchOffset, maxBytes: p.PartitionMaxBytes, logStart: p.LogStartOffset,
				currentLeaderEpoch: max(p.CurrentLeaderEpoch, replica.NoEpoch),
				lastFetchedEpoch:   max(p.LastFetchedEpoch, replica.NoEpoch),
			})
		}
	}
}

// requestTargets lists a request's partitions in order; of one that is named twice the last counts, in the first's
// place.
func requestTargets(req *kmsg.FetchRequest) []fetchTarget {
	var seen lookup[partitionOfTopic]
	var topics lookup[fetchKey]
	out := make([]fetchTarget, 0, partitionCount(req))
	topicAt := -1
	eachTarget(req, func(t fetchTarget) {
		topic := t.key
		if topic.partition = 0; topicAt < 0 || topics.keys[topicAt] != topic {
			topicAt, _ = topics.add(topic)
		}
		if at, dup := seen.add(partitionOfTopic{int32(topicAt), t.key.partition}); dup {
			out[at] = t
			return
		}
		out = append(out, t)
	})
	return out
}

// partitionOfTopic is a partition of the topic with a number of its own: there may be a million in a request.
type partitionOfTopic struct{ topicAt, partition int32 }

// partitionCount is how many partitions a request names.
func partitionCount(req *kmsg.FetchRequest) (n int) {
	for i := range req.Topics {
		n += len(req.Topics[i].Partitions)
	}
	return n
}

// finish decides which answers are sent, and the session id and error code of the response. It returns the answers
// that are left out, whose records nobody else releases.
func (x *fetchContext) finish(answers fetchAnswers) (sent fetchAnswers, sessionID int32, code int16) {
	switch {
	case x.session != nil:
		return x.session.finish(x.epoch, answers)
	case x.create:
		return answers, x.newSession(&answers), 0
	}
	return answers, noFetchSession, 0
}

// newSession remembers what answers tell the client, unless that is more than there is room for.
func (x *fetchContext) newSession(answers *fetchAnswers) int32 {
	s := newFetchSession(x.replica, x.usesIDs)
	if !x.cache.lend(s, answers.len()) {
		return noFetchSession
	}
	var room fetchAnswer
	for i := range answers.len() {
		a := answers.at(i, &room)
		p := s.set(a.fetchTarget)
		p.highWatermark, p.logStartOffset = a.highWatermark, a.logStartOffset
	}
	s.cachedSize = len(s.parts)
	return x.cache.add(s)
}

// finish keeps the answers that tell something new. The epoch is checked again: a parked fetch may have been overtaken.
func (s *fetchSession) finish(requestEpoch int32, answers fetchAnswers) (sent fetchAnswers, sessionID int32, code int16) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.epoch != nextFetchEpoch(requestEpoch) {
		releaseAnswers(answers.known)
		return fetchAnswers{}, s.id, kerr.InvalidFetchSessionEpoch.Code
	}
	sent = fetchAnswers{answers.known[:0], answers.absent[:0], answers.all}
	for i := range answers.known {
		if s.news(&answers.known[i]) {
			sent.known = append(sent.known, answers.known[i])
		}
	}
	for _, a := range answers.absent {
		if answer := failedFetch(answers.all[a.at], a.code); s.news(&answer) {
			sent.absent = append(sent.absent, a)
		}
	}
	return sent, s.id, 0
}

// news says whether the client has to be told a, and remembers that it was. An error is repeated every time, and once
// it is over the partition is sent again.
func (s *fetchSession) news(a *fetchAnswer) bool {
	e, ok := s.parts[a.key]
	if !ok {
		return true
	}
	p := e.Value.(*sessionPartition)
	if a.name != "" {
		p.name = a.name
	}
	size := a.sizeBytes()
	news := size > 0 || a.ends() ||
		p.highWatermark != a.highWatermark || p.logStartOffset != a.logStartOffset
	p.highWatermark, p.logStartOffset = a.highWatermark, a.logStartOffset
	if a.code != 0 {
		p.highWatermark = -1
	}
	if size > 0 {
		s.order.MoveToBack(e)
	}
	return news
}
