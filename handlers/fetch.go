package handlers

import (
	"context"
	"errors"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster/replica"
	"grete/logstore"
	"grete/protocol"
)

// fetchAnswer is what one partition answers.
type fetchAnswer struct {
	fetchTarget
	code                                            int16
	highWatermark, lastStableOffset, logStartOffset int64
	logEndOffset                                    int64
	readEpoch                                       int32 // leader epoch of the read
	diverging                                       *replica.EpochEnd
	leaderID, leaderEpoch                           int32 // -1: not told
	preferred                                       int32 // replica to read from instead, -1: none
	abortedNull                                     bool
	span                                            *logstore.Span
}

func (a *fetchAnswer) sizeBytes() int {
	if a.span == nil {
		return 0
	}
	return a.span.SizeBytes
}

func (a *fetchAnswer) release() {
	if a.span != nil {
		a.span.Release()
		a.span = nil
	}
}

func releaseAnswers(answers []fetchAnswer) {
	for i := range answers {
		answers[i].release()
	}
}

// failedFetch is an answer of nothing but code.
func failedFetch(t fetchTarget, code int16) fetchAnswer {
	return fetchAnswer{
		fetchTarget: t, code: code, leaderID: -1, leaderEpoch: -1, preferred: replica.NoPreferredReplica,
		highWatermark: -1, lastStableOffset: -1, logStartOffset: -1,
	}
}

// debuggingReplica reads to the log end like a replica, without being one.
const debuggingReplica = int32(-2)

// fetch is one Fetch request. Partitions that the cluster does not know are rejected beforehand: they neither end a
// wait nor are looked at again.
type fetch struct {
	b   *Broker
	r   *protocol.Request
	ctx *fetchContext

	replicaID          int32 // below 0: not a follower
	replicaEpoch       int64 // of the follower's broker, -1 unknown
	untrusted          error // why who fetches as a follower is not believed to be it
	isolation          replica.Isolation
	leaderOnly         bool
	minBytes, maxBytes int
	maxWaitMs          int32
	rack               string // the client's, from version 11 on

	targets []fetchTarget
	parts   []*replica.Partition // of targets; nil: the broker does not have it, errs says why
	errs    []error
	// all are targets, and what the cluster does not know. Kafka looks for unknown ids first, and answers them first.
	all                  []fetchTarget
	unknownIDs, rejected []absentPartition
}

// Fetch serves versions 4–18: at once when it can, else when enough bytes came, something failed or time is up.
func Fetch(b *Broker, _ context.Context, r *protocol.Request) {
	req := r.Body.(*kmsg.FetchRequest)
	f := newFetch(b, r, req)
	ctx, sessionErr := b.FetchSessions.open(req, f.replicaID >= 0 && f.untrusted == nil)
	if sessionErr != nil {
		f.send(fetchAnswers{}, noFetchSession, sessionErr.Code)
		return
	}
	f.ctx = ctx
	f.resolve(ctx.targets)
	if len(f.targets) == 0 {
		f.respond(nil)
		return
	}
	if req.IsolationLevel < 0 || req.IsolationLevel > 1 {
		f.failWhole(req, kerr.UnknownServerError.Code)
		return
	}
	answers := f.read()
	f.note(answers)
	if f.complete(answers) {
		f.respond(answers)
		return
	}
	f.park(answers)
}

func newFetch(b *Broker, r *protocol.Request, req *kmsg.FetchRequest) *fetch {
	f := &fetch{b: b, r: r, replicaID: req.ReplicaID, replicaEpoch: -1, maxWaitMs: req.MaxWaitMillis}
	if req.Version >= 15 {
		f.replicaID, f.replicaEpoch = req.ReplicaState.ID, req.ReplicaState.Epoch
	}
	if f.replicaID >= 0 {
		f.untrusted = b.checkFollower(r.Conn, f.replicaID)
	}
	f.maxBytes = int(min(req.MaxBytes, b.Limits.FetchMaxBytes))
	f.minBytes = min(int(req.MinBytes), f.maxBytes)
	f.rack = req.Rack
	f.leaderOnly = f.replicaID >= 0 || req.Version < 11
	switch {
	case f.replicaID >= 0 || f.replicaID == debuggingReplica:
		f.isolation = replica.ReadLogEnd
	case req.IsolationLevel == 1:
		f.isolation = replica.ReadCommitted
	}
	return f
}

// resolve sorts all into those to read and those that the cluster does not know.
func (f *fetch) resolve(all []fetchTarget) {
	f.all, f.targets = all, all[:0:len(all)]
	for i := range all {
		p, err := f.authorized(&all[i])
		switch {
		case errors.Is(err, kerr.TopicAuthorizationFailed):
			f.setAside(&f.rejected, i, err)
			continue
		case errors.Is(err, replica.ErrUnknownTopicID):
			f.setAside(&f.unknownIDs, i, err)
			continue
		case errors.Is(err, replica.ErrUnknownTopicOrPartition):
			f.setAside(&f.rejected, i, err)
			continue
		case err != nil:
			f.errs = append(f.errs, make([]error, len(f.targets)+1-len(f.errs))...)
			f.errs[len(f.targets)] = err
		}
		if f.parts == nil {
			f.parts = make([]*replica.Partition, 0, len(all)-i)
		}
		f.targets = append(f.targets, all[i]) // in its own place, as long as none is set aside
		f.parts = append(f.parts, p)
	}
}

// authorized finds a target's partition for a client that may read it: followers need the right of a node of the
// cluster. An id that the image does not know is unknown, whatever the replicas know: they are told of a topic first.
func (f *fetch) authorized(t *fetchTarget) (*replica.Partition, error) {
	if f.b.Authorizer == nil {
		return f.find(t)
	}
	if f.replicaID >= 0 {
		if !f.b.mayCluster(f.r, kmsg.ACLOperationClusterAction) {
			return nil, kerr.TopicAuthorizationFailed
		}
		return f.find(t)
	}
	name := t.key.topic
	if f.ctx.usesIDs {
		topic := f.b.Image().TopicByID(t.key.topicID)
		if topic == nil {
			return nil, f.unknownID(t)
		}
		name = topic.Name
	}
	if !f.b.mayTopic(f.r, kmsg.ACLOperationRead, name) {
		return nil, kerr.TopicAuthorizationFailed
	}
	return f.find(t)
}

// setAside notes that the cluster does not know the i-th partition. Targets after it do not lie where they do in all.
func (f *fetch) setAside(to *[]absentPartition, i int, err error) {
	f.targets = slices.Clip(f.targets)
	*to = append(*to, absentPartition{int32(i), codeOf(err)})
}

// find looks for a target's partition.
func (f *fetch) find(t *fetchTarget) (*replica.Partition, error) {
	k := t.key
	if !f.ctx.usesIDs {
		return f.b.Replicas.Partition(k.topic, k.partition)
	}
	p, err := f.b.Replicas.PartitionByID(k.topicID, k.partition)
	switch {
	case errors.Is(err, replica.ErrUnknownTopicID):
		return nil, f.unknownID(t)
	case t.name == "" && (f.ctx.create || f.ctx.session != nil):
		if topic := f.b.Image().TopicByID(k.topicID); topic != nil {
			t.name = topic.Name
		}
	}
	return p, err
}

// unknownID is what a target whose id is unknown gets. A session keeps the name that an id stood for, and Kafka says
// what has become of that name.
func (f *fetch) unknownID(t *fetchTarget) error {
	switch {
	case t.name == "":
		return replica.ErrUnknownTopicID
	case f.b.Image().Topic(t.name) == nil:
		return replica.ErrUnknownTopicOrPartition
	}
	return logstore.ErrTopicIDMismatch
}

// read reads every target in order, under the limits of the request: the first batch found comes whole (KIP-74).
func (f *fetch) read() []fetchAnswer {
	answers := make([]fetchAnswer, 0, len(f.targets))
	left, first := f.maxBytes, true
	for i := range f.targets {
		a := f.readOne(i, left, first)
		n := a.sizeBytes()
		left, first = max(left-n, 0), first && n == 0
		answers = append(answers, a)
	}
	return answers
}

func (f *fetch) readOne(i, maxBytes int, minOneBatch bool) fetchAnswer {
	t := f.targets[i]
	if f.parts[i] == nil {
		return f.failed(i, f.errs[i])
	}
	r := f.request(i)
	r.MaxBytes, r.MinOneBatch = min(r.MaxBytes, maxBytes), minOneBatch
	res, err := f.parts[i].Read(r)
	if err != nil {
		return f.failed(i, err)
	}
	return fetchAnswer{
		fetchTarget: t, span: res.Span, diverging: res.Diverging, leaderID: -1, leaderEpoch: -1,
		highWatermark: res.HighWatermark, lastStableOffset: res.LastStableOffset, logStartOffset: res.LogStartOffset,
		logEndOffset: res.LogEndOffset, readEpoch: res.LeaderEpoch, preferred: res.Preferred,
		abortedNull: f.isolation != replica.ReadCommitted || res.Diverging != nil || res.Preferred != replica.NoPreferredReplica,
	}
}

func (f *fetch) request(i int) replica.ReadRequest {
	t := &f.targets[i]
	return replica.ReadRequest{
		Offset: t.offset, ReplicaID: f.replicaID, Isolation: f.isolation, LeaderOnly: f.leaderOnly,
		CurrentLeaderEpoch: t.currentLeaderEpoch, LastFetchedEpoch: t.lastFetchedEpoch, MaxBytes: int(t.maxBytes),
		Rack: f.rack, Listener: f.r.Conn.Listener,
	}
}

// failed names the leader where that helps the client (KIP-951).
func (f *fetch) failed(i int, err error) fetchAnswer {
	t := f.targets[i]
	a := failedFetch(t, codeOf(err))
	a.abortedNull = true
	if a.code == kerr.NotLeaderForPartition.Code || a.code == kerr.FencedLeaderEpoch.Code {
		a.leaderID, a.leaderEpoch = f.b.leaderOf(f.parts[i], t.key.topic, t.key.topicID, t.key.partition)
	}
	if a.code == kerr.KafkaStorageError.Code && f.r.Version <= 5 {
		a.code = kerr.NotLeaderForPartition.Code // these clients do not know the other
	}
	return a
}

// note tells the partitions how far a follower is: its log agrees with theirs below the offsets that it asked for. Only
// a request's first read counts, as nobody knows when the follower would have asked again.
func (f *fetch) note(answers []fetchAnswer) {
	if f.replicaID < 0 {
		return
	}
	if f.untrusted != nil {
		f.turnAway(answers)
		return
	}
	for i := range answers {
		a := &answers[i]
		if a.code != 0 || a.diverging != nil {
			continue
		}
		err := f.parts[i].Followed(replica.FollowerFetch{
			ReplicaID: f.replicaID, BrokerEpoch: f.replicaEpoch, Offset: a.offset, LogStart: a.logStart,
			LeaderEpoch: a.readEpoch, LeaderEnd: a.logEndOffset,
		})
		if err != nil {
			a.release()
			*a = f.failed(i, err)
		}
	}
}

// turnAway leaves nothing in the answers to one who is not the follower that he says he is.
func (f *fetch) turnAway(answers []fetchAnswer) {
	if !errors.Is(f.untrusted, replica.ErrNotLeader) {
		f.r.Conn.Refused("a fetch as a follower from somebody else")
	}
	for i := range answers {
		if a := &answers[i]; a.code == 0 {
			a.release()
			*a = f.failed(i, f.untrusted)
		}
	}
}

// ends: an answer that nobody should wait any longer to get.
func (a *fetchAnswer) ends() bool {
	return a.code != 0 || a.diverging != nil || a.preferred != replica.NoPreferredReplica
}

// complete says whether there is a reason to answer now.
func (f *fetch) complete(answers []fetchAnswer) bool {
	size := 0
	for i := range answers {
		if answers[i].ends() {
			return true
		}
		size += answers[i].sizeBytes()
	}
	return f.maxWaitMs <= 0 || size >= f.minBytes
}

// respond sends what answers and the session make of it; the rejected come last.
func (f *fetch) respond(answers []fetchAnswer) {
	for i := range answers {
		if f.parts[i] != nil {
			f.parts[i].CountFetch(answers[i].sizeBytes(), answers[i].code != 0, f.replicaID >= 0)
		}
	}
	sent, sessionID, code := f.ctx.finish(fetchAnswers{answers, append(f.unknownIDs, f.rejected...), f.all})
	f.send(sent, sessionID, code)
}

// failWhole answers code for the response and, before version 13, for every partition of the request.
func (f *fetch) failWhole(req *kmsg.FetchRequest, code int16) {
	var answers fetchAnswers
	if req.Version < 13 {
		answers.all = requestTargets(req)
		for i := range answers.all {
			answers.absent = append(answers.absent, absentPartition{int32(i), code})
		}
	}
	f.send(answers, req.SessionID, code)
}

func (f *fetch) send(answers fetchAnswers, sessionID int32, code int16) {
	parts, release := encodeFetch(f.r.Version, sessionID, code, answers, f.endpoints(answers.known))
	f.r.RespondParts(parts, release)
}

func (f *fetch) endpoints(answers []fetchAnswer) []node {
	if f.r.Version < 16 || f.replicaID >= 0 { // followers know the metadata
		return nil
	}
	var out leaderNodes
	for i := range answers {
		if answers[i].leaderID >= 0 {
			out.add(f.b.endpoint(answers[i].leaderID, f.r.Conn.Listener))
		}
	}
	return out
}
