package handlers

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster/metadata"
	"grete/cluster/replica"
	"grete/protocol"
	"grete/protocol/batch"
)

// adminClientID may write to internal topics (AdminUtils.ADMIN_CLIENT_ID).
const adminClientID = "__admin_client"

// Produce appends each partition's batch and answers when all are acknowledged as asked.
func Produce(b *Broker, _ context.Context, r *protocol.Request) {
	p := produces.Get().(*produce)
	p.b, p.r, p.req = b, r, r.Body.(*kmsg.ProduceRequest)
	p.acks = replica.Ack(p.req.Acks)
	p.layOut()
	if p.refuseWhole() || p.unauthorized() || p.verifyTransactions() {
		p.finish()
		return
	}
	p.appendAll()
	p.awaitAll()
}

// produce is one Produce request on its way. It is reused when nothing can refer to it any more.
type produce struct {
	b       *Broker
	r       *protocol.Request
	req     *kmsg.ProduceRequest
	acks    replica.Ack
	resp    kmsg.ProduceResponse
	entries []produceEntry
	topics  lookup[produceTopic]
	indexes lookup[producePartition]
	errored bool
	nodes   leaderNodes
	acked   ackWaits
}

var produces = sync.Pool{New: func() any { return &produce{} }}

// maxPooledEntries bounds the size of what is kept for reuse.
const maxPooledEntries = 64

// recycle gives p back, for requests that waited for nothing: of others, a callback may still hold it.
func (p *produce) recycle() {
	if len(p.entries) > maxPooledEntries {
		return
	}
	for i := range p.resp.Topics {
		t := &p.resp.Topics[i]
		*t = kmsg.ProduceResponseTopic{Partitions: t.Partitions[:0]}
	}
	clear(p.entries)
	*p = produce{
		resp: kmsg.ProduceResponse{Topics: p.resp.Topics[:0]}, entries: p.entries[:0],
		topics: p.topics.emptied(), indexes: p.indexes.emptied(),
	}
	produces.Put(p)
}

// produceEntry is one partition, and where its answer is in the response.
type produceEntry struct {
	topic       string
	topicID     metadata.UUID
	records     []byte
	topicAt, at int
	partition   *replica.Partition
	appended    replica.Appended
	ok          bool
	// transactional batches are verified first: guard goes with the append, unverified keeps it from being done.
	transactional bool
	guard         uint64
	unverified    error
	refused       error // before the partition is looked up: to this client, or for an id that is unknown
}

func (p *produce) answer(e *produceEntry) *kmsg.ProduceResponseTopicPartition {
	return &p.resp.Topics[e.topicAt].Partitions[e.at]
}

// layOut makes an entry and an empty answer for every partition. Of one that is named twice, the last counts.
func (p *produce) layOut() {
	for i := range p.req.Topics {
		t := &p.req.Topics[i]
		if len(t.Partitions) == 0 {
			continue
		}
		at, seen := p.topics.add(produceTopic{t.Topic, t.TopicID})
		if !seen {
			p.addTopic(t)
		}
		for j := range t.Partitions {
			part := &t.Partitions[j]
			if k, dup := p.indexes.add(producePartition{at, part.Partition}); dup {
				p.entries[k].records = part.Records
				continue
			}
			p.addPartition(t, at, part)
		}
	}
}

type produceTopic struct {
	name string
	id   metadata.UUID
}

type producePartition struct {
	topicAt int
	index   int32
}

func (p *produce) addTopic(t *kmsg.ProduceRequestTopic) {
	n := len(p.resp.Topics)
	if n < cap(p.resp.Topics) { // one of before, for its slice of partitions
		p.resp.Topics = p.resp.Topics[:n+1]
	} else {
		p.resp.Topics = append(p.resp.Topics, kmsg.NewProduceResponseTopic())
	}
	rt := &p.resp.Topics[n]
	rt.Topic, rt.TopicID = t.Topic, t.TopicID
	rt.Partitions = slices.Grow(rt.Partitions[:0], len(t.Partitions))
}

func (p *produce) addPartition(t *kmsg.ProduceRequestTopic, topicAt int, part *kmsg.ProduceRequestTopicPartition) {
	a := kmsg.NewProduceResponseTopicPartition()
	a.Partition, a.BaseOffset, a.LogAppendTime, a.LogStartOffset = part.Partition, -1, -1, -1
	rt := &p.resp.Topics[topicAt]
	rt.Partitions = append(rt.Partitions, a)
	p.entries = append(p.entries, produceEntry{
		topic: t.Topic, topicID: t.TopicID, records: part.Records, topicAt: topicAt, at: len(rt.Partitions) - 1,
	})
}

// refuseWhole looks for what refuses all partitions of a request at once, and marks those that belong to a transaction.
func (p *produce) refuseWhole() (refused bool) {
	check := batch.RequestCheck{Version: p.r.Version, HasTransactionID: p.req.TransactionID != nil}
	for i := range p.entries {
		e := &p.entries[i]
		var err error
		if e.transactional, err = check.Add(e.records); err != nil {
			p.failAllFor(err)
			return true
		}
	}
	if err := check.Err(); err != nil {
		p.failAllFor(err)
		return true
	}
	return false
}

// unauthorized looks for partitions of topics that the client may not write to. What is refused by name looks the same
// whether the topic exists or not. It reports that the whole request is refused.
func (p *produce) unauthorized() (refused bool) {
	if p.b.Authorizer == nil {
		return false
	}
	transactional := slices.ContainsFunc(p.entries, func(e produceEntry) bool { return e.transactional })
	if id := p.req.TransactionID; transactional && id != nil && !p.b.mayTransaction(p.r, kmsg.ACLOperationWrite, *id) {
		p.failAll(transactionUnauthorized, nil)
		return true
	}
	for i := range p.entries {
		e := &p.entries[i]
		name := e.topic
		if p.r.Version >= 13 {
			t := p.b.Image().TopicByID(e.topicID)
			if t == nil { // the replicas may know it before the image does, and with it who may write to it
				e.refused = replica.ErrUnknownTopicID
				continue
			}
			name = t.Name
		}
		if !p.b.mayTopic(p.r, kmsg.ACLOperationWrite, name) {
			e.refused = kerr.TopicAuthorizationFailed
		}
	}
	return false
}

func (p *produce) failAllFor(err error) {
	var message *string
	if invalid := (*batch.Error)(nil); errors.As(err, &invalid) {
		message = invalid.Answer()
	}
	p.failAll(codeOf(err), message)
}

func (p *produce) failAll(code int16, message *string) {
	for i := range p.entries {
		a := p.answer(&p.entries[i])
		a.ErrorCode, a.ErrorMessage = code, message
	}
	p.errored = p.errored || len(p.entries) > 0
}

func (p *produce) appendAll() {
	for i := range p.entries {
		e := &p.entries[i]
		if err := p.append(e); err != nil {
			p.refuse(e, err)
			continue
		}
		e.ok = true
		a := p.answer(e)
		a.BaseOffset, a.LogAppendTime, a.LogStartOffset = e.appended.BaseOffset, e.appended.LogAppendTimeMs, e.appended.LogStartOffset
	}
}

// find looks the partition up, once.
func (p *produce) find(e *produceEntry) (err error) {
	switch index := p.answer(e).Partition; {
	case e.partition != nil:
	case p.r.Version >= 13:
		e.partition, err = p.b.Replicas.PartitionByID(e.topicID, index)
	default:
		e.partition, err = p.b.Replicas.Partition(e.topic, index)
	}
	return err
}

func (p *produce) append(e *produceEntry) error {
	if e.refused != nil {
		return e.refused
	}
	err := p.find(e)
	switch {
	case err != nil:
		return err
	case p.acks < -1 || p.acks > 1:
		return kerr.InvalidRequiredAcks
	case e.unverified != nil:
		return e.unverified
	case isInternal(e.partition.Topic) && (p.r.ClientID == nil || *p.r.ClientID != adminClientID):
		return kerr.InvalidTopicException
	}
	e.appended, err = e.partition.Produce(replica.ProduceRequest{
		Records: e.records, ProduceVersion: p.r.Version, Acks: p.acks, Guard: e.guard,
	})
	return err
}

// refuse answers err. Where Kafka got as far as the log, the answer has its start offset.
func (p *produce) refuse(e *produceEntry, err error) {
	p.errored = true
	a := p.answer(e)
	a.ErrorCode = codeOf(err)
	if explained := (*explainedError)(nil); errors.As(err, &explained) {
		a.ErrorMessage = &explained.text
	}
	if invalid := (*batch.Error)(nil); errors.As(err, &invalid) {
		a.ErrorMessage = invalid.Answer()
		for i := range invalid.Records {
			r := kmsg.NewProduceResponseTopicPartitionErrorRecord()
			r.RelativeOffset, r.ErrorMessage = invalid.Records[i].Index, &invalid.Records[i].Message
			a.ErrorRecords = append(a.ErrorRecords, r)
		}
	}
	a.ErrorMessage = cmp.Or(a.ErrorMessage, storageTrouble(err))
	if tellsLogStart(e, a) {
		a.LogStartOffset = e.partition.LogStartOffset()
	}
	p.nameLeader(e, a)
}

// nameLeader tells a client that has come to the wrong broker where to go (KIP-951).
func (p *produce) nameLeader(e *produceEntry, a *kmsg.ProduceResponseTopicPartition) {
	if a.ErrorCode == kerr.NotLeaderForPartition.Code && p.r.Version >= 10 {
		a.CurrentLeader.LeaderID, a.CurrentLeader.LeaderEpoch = p.b.leaderOf(e.partition, e.topic, e.topicID, a.Partition)
		p.nodes.add(p.b.endpoint(a.CurrentLeader.LeaderID, p.r.Conn.Listener))
	}
}

// tellsLogStart: Kafka leaves the start offset out of errors that it foresees (ReplicaManager.appendToLocalLog), and
// of those found before the log is looked at.
func tellsLogStart(e *produceEntry, a *kmsg.ProduceResponseTopicPartition) bool {
	switch a.ErrorCode {
	case kerr.UnknownTopicOrPartition.Code, kerr.UnknownTopicID.Code, kerr.NotLeaderForPartition.Code,
		kerr.MessageTooLarge.Code, kerr.RecordListTooLarge.Code, kerr.CorruptMessage.Code, kerr.KafkaStorageError.Code,
		kerr.UnsupportedCompressionType.Code, kerr.InvalidRequiredAcks.Code, kerr.InvalidTopicException.Code:
		return false
	case kerr.InvalidRecord.Code:
		return oneBatch(e.records)
	}
	return e.partition != nil && e.unverified == nil
}

// oneBatch says whether records have the shape that every Produce request must have.
func oneBatch(records []byte) bool {
	_, rest, err := batch.Next(records)
	if err != nil {
		return false
	}
	_, _, err = batch.Next(rest)
	return errors.Is(err, batch.ErrShort)
}

// respond ends the request. Without acknowledgements, closing the connection is the only way to tell of an error.
func (p *produce) respond() {
	switch {
	case p.acks == replica.AckNone && p.errored:
		p.r.Abort("a Produce request with acks=0 failed")
	case p.acks == replica.AckNone:
		p.r.NoResponse()
	default:
		for _, n := range p.nodes {
			node := kmsg.NewProduceResponseBroker()
			node.NodeID, node.Host, node.Port, node.Rack = n.id, n.host, n.port, n.rack
			p.resp.Brokers = append(p.resp.Brokers, node)
		}
		p.r.Respond(&p.resp)
	}
}
