package oracle

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// txnProducer is a transactional producer as a client keeps it.
type txnProducer struct {
	s     *Session
	c     *Conn
	id    string
	pid   int64
	epoch int16
	next  map[string]int32 // sequence, by topic and partition
}

// coordinatorCodes are the errors of a coordinator that is not there yet.
var coordinatorCodes = []int16{14, 15, 16}

// txnReady waits until the id's coordinator serves.
func (s *Session) txnReady(id string) {
	s.await(func() bool {
		find := kmsg.NewPtrFindCoordinatorRequest()
		find.CoordinatorKey, find.CoordinatorType = id, 1
		return s.setup(3, find).(*kmsg.FindCoordinatorResponse).ErrorCode == 0 && !slices.Contains(coordinatorCodes, s.describeTxn(id).ErrorCode)
	}, "transaction coordinator")
}

func (s *Session) describeTxn(id string) kmsg.DescribeTransactionsResponseTransactionState {
	req := kmsg.NewPtrDescribeTransactionsRequest()
	req.TransactionalIDs = []string{id}
	return s.setup(0, req).(*kmsg.DescribeTransactionsResponse).TransactionStates[0]
}

// settled waits until the markers of the id's transaction are written.
func (s *Session) settled(id string) {
	s.await(func() bool {
		state := s.describeTxn(id).State
		return state != "PrepareCommit" && state != "PrepareAbort"
	}, "end of transaction")
}

// producer is an initialised producer of a new transactional id.
func (s *Session) producer(name string) *txnProducer {
	p := &txnProducer{s: s, c: s.Conn(), id: s.Name(name)}
	s.txnReady(p.id)
	p.init()
	return p
}

// init is a set-up InitProducerId, tried again while a transaction ends.
func (p *txnProducer) init() {
	p.s.await(func() bool {
		resp := p.s.setup(4, initProducerID(&p.id)).(*kmsg.InitProducerIDResponse)
		p.pid, p.epoch, p.next = resp.ProducerID, resp.ProducerEpoch, map[string]int32{}
		return resp.ErrorCode == 0
	}, "producer of "+p.id)
}

func (p *txnProducer) addRequest(partitions ...any) *kmsg.AddPartitionsToTxnRequest {
	req := kmsg.NewPtrAddPartitionsToTxnRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch = p.id, p.pid, p.epoch
	for i := 0; i < len(partitions); i += 2 {
		name := partitions[i].(string)
		index := int32(partitions[i+1].(int))
		at := slices.IndexFunc(req.Topics, func(t kmsg.AddPartitionsToTxnRequestTopic) bool { return t.Topic == name })
		if at < 0 {
			req.Topics = append(req.Topics, kmsg.AddPartitionsToTxnRequestTopic{Topic: name})
			at = len(req.Topics) - 1
		}
		req.Topics[at].Partitions = append(req.Topics[at].Partitions, index)
	}
	return req
}

// batched puts requests of one transaction each in the form of version 4.
func batched(verify bool, singles ...*kmsg.AddPartitionsToTxnRequest) *kmsg.AddPartitionsToTxnRequest {
	req := kmsg.NewPtrAddPartitionsToTxnRequest()
	for _, one := range singles {
		t := kmsg.NewAddPartitionsToTxnRequestTransaction()
		t.TransactionalID, t.ProducerID, t.ProducerEpoch, t.VerifyOnly = one.TransactionalID, one.ProducerID, one.ProducerEpoch, verify
		for _, topic := range one.Topics {
			t.Topics = append(t.Topics, kmsg.AddPartitionsToTxnRequestTransactionTopic{Topic: topic.Topic, Partitions: topic.Partitions})
		}
		req.Transactions = append(req.Transactions, t)
	}
	return req
}

// inVersion is the request in the form that v has.
func inVersion(v int16, req *kmsg.AddPartitionsToTxnRequest) *kmsg.AddPartitionsToTxnRequest {
	if v >= 4 {
		return batched(false, req)
	}
	return req
}

// begin adds partitions as set-up.
func (p *txnProducer) begin(t topic, partitions ...int) {
	var list []any
	for _, index := range partitions {
		list = append(list, t.name, index)
	}
	p.s.await(func() bool {
		resp := p.s.setup(3, p.addRequest(list...)).(*kmsg.AddPartitionsToTxnResponse)
		return resp.Topics[0].Partitions[0].ErrorCode == 0
	}, "transaction of "+p.id)
}

// batch is the producer's next transactional batch to a partition.
func (p *txnProducer) batch(t topic, partition int32, values ...string) *batchSpec {
	records := make([]rec, len(values))
	for i, v := range values {
		records[i] = text(v)
	}
	key := fmt.Sprint(t.name, partition)
	b := batch(codecNone, records...).idempotent(p.pid, p.epoch, p.next[key])
	p.next[key] += int32(len(values))
	return b.with(func(b *batchSpec) { b.attributes |= attrTransactional })
}

func (p *txnProducer) produceRequest(t topic, partition int32, b *batchSpec) *kmsg.ProduceRequest {
	req := produce(t, partition, -1, b.bytes())
	req.TransactionID = &p.id
	return req
}

// write appends a batch as set-up; its partition must be in the transaction.
func (p *txnProducer) write(t topic, partition int32, values ...string) {
	resp := p.s.setup(9, p.produceRequest(t, partition, p.batch(t, partition, values...))).(*kmsg.ProduceResponse)
	if code := resp.Topics[0].Partitions[0].ErrorCode; code != 0 {
		panic(fmt.Sprintf("set-up: transactional produce: error %d", code))
	}
}

func (p *txnProducer) endRequest(commit bool) *kmsg.EndTxnRequest {
	req := kmsg.NewPtrEndTxnRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Commit = p.id, p.pid, p.epoch, commit
	return req
}

// end ends the transaction as set-up, with the epoch bump of version 5, and waits for its markers.
func (p *txnProducer) end(commit bool) {
	resp := p.s.setup(5, p.endRequest(commit)).(*kmsg.EndTxnResponse)
	if resp.ErrorCode != 0 {
		panic(fmt.Sprintf("set-up: EndTxn: error %d", resp.ErrorCode))
	}
	p.took(resp)
	p.s.settled(p.id)
}

// took goes on with what EndTxn answered.
func (p *txnProducer) took(resp *kmsg.EndTxnResponse) {
	if resp.Version >= 5 && resp.ErrorCode == 0 {
		p.pid, p.epoch, p.next = resp.ProducerID, resp.ProducerEpoch, map[string]int32{}
	}
}

func (p *txnProducer) offsetsRequest(group string, t topic, partition int32, offset int64) *kmsg.TxnOffsetCommitRequest {
	req := kmsg.NewPtrTxnOffsetCommitRequest()
	req.TransactionalID, req.Group, req.ProducerID, req.ProducerEpoch = p.id, group, p.pid, p.epoch
	rt := kmsg.NewTxnOffsetCommitRequestTopic()
	rt.Topic, rt.TopicID = t.name, t.id
	rp := kmsg.NewTxnOffsetCommitRequestTopicPartition()
	rp.Partition, rp.Offset, rp.Metadata = partition, offset, ptr("meta")
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	return req
}

func (p *txnProducer) addOffsetsRequest(group string) *kmsg.AddOffsetsToTxnRequest {
	req := kmsg.NewPtrAddOffsetsToTxnRequest()
	req.TransactionalID, req.Group, req.ProducerID, req.ProducerEpoch = p.id, group, p.pid, p.epoch
	return req
}

// InOrder sorts lists of partitions, which Kafka takes from hash sets.
func (k *Call) InOrder() *Call { k.filter = sortedPartitions; return k }

func sortedPartitions(tree any) any {
	switch t := tree.(type) {
	case map[string]any:
		for k, v := range t {
			t[k] = sortedPartitions(v)
		}
	case []any:
		for i, v := range t {
			t[i] = sortedPartitions(v)
		}
		slices.SortStableFunc(t, func(a, b any) int {
			x, isNumber := a.(json.Number)
			y, _ := b.(json.Number)
			if !isNumber {
				return 0
			}
			return strings.Compare(string(x), string(y))
		})
	}
	return tree
}

// groupReady waits until the group's coordinator serves.
func (s *Session) groupReady(group string) {
	s.await(func() bool { return s.coordinatorReady(group) }, "group coordinator")
}

// stable waits until no open transaction keeps a group's offsets back.
func (s *Session) stable(group string, t topic, partition int32) {
	s.await(func() bool {
		req := offsetFetch(group, t, partition)
		req.RequireStable = true
		return s.setup(7, req).(*kmsg.OffsetFetchResponse).Topics[0].Partitions[0].ErrorCode == 0
	}, "stable offsets")
}

// committedAt waits until the last stable offset is at an offset.
func (s *Session) committedAt(t topic, partition int32, offset int64) {
	s.await(func() bool {
		resp := s.setup(4, listOffsets(t, partition, -1, 1)).(*kmsg.ListOffsetsResponse)
		return resp.Topics[0].Partitions[0].Offset >= offset
	}, "last stable offset")
	pause(time.Millisecond)
}
