package node

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/protocol/batch"
)

// bad is a row: what an authenticated client asks for, and Kafka's error codes for it, of which the answer has one.
// Without codes the row's own function judges the answer.
type bad struct {
	name  string
	ask   func(c *caller, listener string) (code int16)
	many  func(f *front, listener string) (code int16) // in its place: over connections of its own
	first func(listener string) kmsg.Request           // what is sent before authentication, and closes the connection
	codes []int16
}

func produced(topic, transactionalID string, records []byte) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = -1, 10_000
	req.Version = 9
	if transactionalID != "" {
		req.TransactionID = &transactionalID
	}
	t := kmsg.NewProduceRequestTopic()
	t.Topic = topic
	p := kmsg.NewProduceRequestTopicPartition()
	p.Records = records
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}

// producing is a row of records that lie.
func producing(name, topic string, records func() []byte, codes ...int16) bad {
	req := func(string) kmsg.Request { return produced(topic, "", records()) }
	return bad{name: name, first: req, codes: codes, ask: func(c *caller, listener string) int16 {
		return asked[*kmsg.ProduceResponse](c, req(listener)).Topics[0].Partitions[0].ErrorCode
	}}
}

// creating is a row of a topic.
func creating(name string, topic func(listener string) string, partitions int32, configs map[string]string, codes ...int16) bad {
	req := func(listener string) kmsg.Request {
		req := kmsg.NewPtrCreateTopicsRequest()
		req.Version = 4
		t := kmsg.NewCreateTopicsRequestTopic()
		t.Topic, t.NumPartitions, t.ReplicationFactor = topic(listener), partitions, 1
		for name, value := range configs {
			t.Configs = append(t.Configs, kmsg.CreateTopicsRequestTopicConfig{Name: name, Value: &value})
		}
		req.Topics = append(req.Topics, t)
		return req
	}
	return bad{name: name, first: req, codes: codes, ask: func(c *caller, listener string) int16 {
		return asked[*kmsg.CreateTopicsResponse](c, req(listener)).Topics[0].ErrorCode
	}}
}

func named(topic string) func(string) string { return func(string) string { return topic } }

// lying is a batch of two records whose bytes are changed, and whose checksum is right again.
func lying(change func(b []byte) []byte) func() []byte {
	return func() []byte {
		b := change(built(batch.BuildOptions{ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1}, []byte("value"), []byte("value")))
		binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli)))
		return b
	}
}

func built(o batch.BuildOptions, values ...[]byte) []byte {
	var records []batch.Record
	for i, v := range values {
		records = append(records, batch.Record{Offset: int64(i), TimestampMs: time.Now().UnixMilli(), Value: v})
	}
	b, err := batch.Build(o, records)
	if err != nil {
		panic(err)
	}
	return b
}

// put32 and put64 change a field of a batch's header.
func put32(at int, v uint32) func() []byte {
	return lying(func(b []byte) []byte { binary.BigEndian.PutUint32(b[at:], v); return b })
}

func put64(at int, v uint64) func() []byte {
	return lying(func(b []byte) []byte { binary.BigEndian.PutUint64(b[at:], v); return b })
}

// payload replaces the records, and the length with them.
func payload(codec byte, p []byte) func() []byte {
	return lying(func(b []byte) []byte {
		b = append(b[:61], p...)
		b[22] = codec
		binary.BigEndian.PutUint32(b[8:], uint32(len(b)-12))
		return b
	})
}

// bomb is a batch that inflates to 16 MiB.
func bomb(codec batch.Codec) func() []byte {
	return func() []byte {
		return built(batch.BuildOptions{Codec: codec, ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1}, make([]byte, 16<<20))
	}
}

const (
	corruptMessage, messageTooLarge, invalidTopic, recordListTooLarge int16 = 2, 10, 17, 18
	clusterDenied, invalidPartitions, policyViolation, groupMaxSize   int16 = 31, 37, 44, 81
	transactionalIDDenied, invalidRecord                              int16 = 53, 87
	unknownTopic, unknownMember, unknownServerError                   int16 = 3, 25, -1
)

// badInput is the table.
func badInput() []bad {
	rows := []bad{
		{name: "a transaction without the right (CVE-2018-17196)", ask: func(c *caller, _ string) int16 {
			return asked[*kmsg.ProduceResponse](c, guardedProduce()).Topics[0].Partitions[0].ErrorCode
		}, first: func(string) kmsg.Request { return guardedProduce() }, codes: []int16{transactionalIDDenied}},
		{name: "markers of a transaction, by a client", ask: func(c *caller, _ string) int16 {
			return asked[*kmsg.WriteTxnMarkersResponse](c, markers()).Markers[0].Topics[0].Partitions[0].ErrorCode
		}, first: func(string) kmsg.Request { return markers() }, codes: []int16{clusterDenied}},
		{name: "one ACL of three is removed (CVE-2024-27309)", many: removesOne, first: func(string) kmsg.Request { return aclsFor("three", "User:a") }},
		creating("a topic without a name", named(""), 1, nil, invalidTopic), creating("the topic .", named("."), 1, nil, invalidTopic),
		creating("the topic ..", named(".."), 1, nil, invalidTopic), creating("a path", named("../x"), 1, nil, invalidTopic),
		creating("a NUL", named("x\x00"), 1, nil, invalidTopic), creating("250 characters", named(strings.Repeat("x", 250)), 1, nil, invalidTopic),
		creating("a.b beside a_b", named("a.b"), 1, nil, invalidTopic), creating("2^31 partitions", named("many"), 1<<31-1, nil, policyViolation),
		creating("-7 partitions", named("few"), -7, nil, invalidPartitions),
		producing("a count above", "t", put32(57, 1000), invalidRecord), producing("a count of 2^31", "t", put32(57, 1<<31-1), invalidRecord),
		producing("a negative count", "t", put32(57, 1<<32-1), invalidRecord), producing("a last offset that lies", "t", put32(23, 7), invalidRecord),
		producing("a base offset", "t", put64(0, 5), invalidRecord), producing("a length that is below", "t", put32(8, 55), invalidRecord, corruptMessage),
		producing("a length of 2^31", "t", put32(8, 1<<31-1), invalidRecord, corruptMessage),
		producing("a record of 2^31 bytes", "t", payload(0, append(binary.AppendVarint(nil, 1<<31-1), 0, 0, 0, 0)), invalidRecord),
		producing("2^30 headers", "t", payload(0, manyHeaders()), invalidRecord), producing("an endless varint", "t", payload(0, []byte(strings.Repeat("\xff", 80))), invalidRecord),
		producing("a batch over the limit", "t", func() []byte {
			return built(batch.BuildOptions{ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1}, make([]byte, 2<<20))
		}, messageTooLarge),
		producing("a batch over a segment", "large", func() []byte {
			return built(batch.BuildOptions{ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1}, make([]byte, 2<<20))
		}, recordListTooLarge),
		producing("a window of 512 MiB", "t", payload(4, []byte{0x28, 0xb5, 0x2f, 0xfd, 0, 0x98, 1, 0, 0}), invalidRecord, messageTooLarge, unknownServerError),
		{name: "many fetch sessions", ask: fetchSessions, first: func(string) kmsg.Request { return fetched() }},
		{name: "many members of a group", many: joinMany, first: func(l string) kmsg.Request { return joining(l) }, codes: []int16{groupMaxSize}},
		{name: "many unknown topics", ask: askForMany, first: func(string) kmsg.Request { return unknownTopics(1000) }, codes: []int16{unknownTopic}},
		{name: "many producer ids", ask: producerIDs, first: func(string) kmsg.Request { return kmsg.NewPtrInitProducerIDRequest() }},
	}
	for codec := batch.Codec(1); codec <= 4; codec++ {
		rows = append(rows, producing(fmt.Sprint("a bomb of ", codec), "recompressed", bomb(codec), 0, messageTooLarge, invalidRecord))
	}
	return rows
}

func guardedProduce() kmsg.Request {
	return produced("t", "guarded", built(batch.BuildOptions{ProducerID: 7, Transactional: true}, []byte("v")))
}

func manyHeaders() []byte {
	b := binary.AppendVarint([]byte{0, 0, 0, 1, 2, 'v'}, 1<<30)
	return append(binary.AppendVarint(nil, int64(len(b))), b...)
}

func markers() kmsg.Request {
	req := kmsg.NewPtrWriteTxnMarkersRequest()
	req.Version = 1
	m := kmsg.NewWriteTxnMarkersRequestMarker()
	m.ProducerID, m.Committed = 7, true
	t := kmsg.NewWriteTxnMarkersRequestMarkerTopic()
	t.Topic, t.Partitions = "t", []int32{0}
	m.Topics = append(m.Topics, t)
	req.Markers = append(req.Markers, m)
	return req
}

func aclsFor(topic string, principals ...string) *kmsg.CreateACLsRequest {
	req := kmsg.NewPtrCreateACLsRequest()
	req.Version = 2
	for _, p := range principals {
		a := kmsg.NewCreateACLsRequestCreation()
		a.ResourceType, a.ResourceName, a.ResourcePatternType = kmsg.ACLResourceTypeTopic, topic, kmsg.ACLResourcePatternTypeLiteral
		a.Principal, a.Host, a.Operation, a.PermissionType = p, "*", kmsg.ACLOperationRead, kmsg.ACLPermissionTypeAllow
		req.Creations = append(req.Creations, a)
	}
	return req
}

// removesOne checks that nothing but the ACL that is named goes. Meanwhile the client has the right to change ACLs,
// with which it could write markers, too.
func removesOne(f *front, listener string) int16 {
	had := f.n.image().ACLCount()
	f.nodes.grantTo("User:*", kmsg.ACLOperationAlter, kmsg.ACLResourceTypeCluster, "kafka-cluster")
	f.nodes.grantTo("User:*", kmsg.ACLOperationDescribe, kmsg.ACLResourceTypeCluster, "kafka-cluster")
	f.nodes.eventually("the right", func() bool { return f.n.image().ACLCount() == had+2 })
	c := f.dial(listener)
	defer c.Close()
	topic := "three-" + listener
	for _, made := range asked[*kmsg.CreateACLsResponse](c, aclsFor(topic, "User:a", "User:b", "User:c")).Results {
		if made.ErrorCode != 0 {
			return made.ErrorCode
		}
	}
	remove := kmsg.NewPtrDeleteACLsRequest()
	remove.Version = 2
	filter := kmsg.NewDeleteACLsRequestFilter()
	principal, host := "User:b", "*"
	filter.ResourceType, filter.ResourceName, filter.ResourcePatternType = kmsg.ACLResourceTypeTopic, &topic, kmsg.ACLResourcePatternTypeLiteral
	filter.Principal, filter.Host, filter.Operation, filter.PermissionType = &principal, &host, kmsg.ACLOperationRead, kmsg.ACLPermissionTypeAllow
	remove.Filters = append(remove.Filters, filter)
	asked[*kmsg.DeleteACLsResponse](c, remove)
	f.nodes.eventually("it is gone", func() bool { return f.n.image().ACLCount() == had+4 })
	describe := kmsg.NewPtrDescribeACLsRequest()
	describe.Version = 2
	describe.ResourceType, describe.ResourceName, describe.ResourcePatternType = kmsg.ACLResourceTypeTopic, &topic, kmsg.ACLResourcePatternTypeLiteral
	describe.Operation, describe.PermissionType = kmsg.ACLOperationAny, kmsg.ACLPermissionTypeAny
	resp := asked[*kmsg.DescribeACLsResponse](c, describe)
	var left []string
	for _, r := range resp.Resources {
		for _, a := range r.ACLs {
			left = append(left, a.Principal)
		}
	}
	slices.Sort(left)
	if !slices.Equal(left, []string{"User:a", "User:c"}) {
		c.t.Errorf("left are %q", left)
	}
	everybody, cluster := "User:*", "kafka-cluster"
	filter.ResourceType, filter.ResourceName, filter.Principal, filter.Operation = kmsg.ACLResourceTypeCluster, &cluster, &everybody, kmsg.ACLOperationAny
	remove.Filters = []kmsg.DeleteACLsRequestFilter{filter}
	asked[*kmsg.DeleteACLsResponse](c, remove)
	f.nodes.eventually("the right is gone", func() bool { return f.n.image().ACLCount() == had+2 })
	return 0
}

func fetched() *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.MaxBytes, req.SessionEpoch = 11, 1<<20, 0
	t := kmsg.NewFetchRequestTopic()
	t.Topic = "t"
	p := kmsg.NewFetchRequestTopicPartition()
	p.PartitionMaxBytes = 1 << 20
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}

// fetchSessions asks for ten times as many as there may be: the rest is answered without one.
func fetchSessions(c *caller, _ string) int16 {
	ids := map[int32]bool{}
	for range 100 {
		resp := asked[*kmsg.FetchResponse](c, fetched())
		if resp.ErrorCode != 0 {
			return resp.ErrorCode
		}
		if resp.SessionID != 0 {
			ids[resp.SessionID] = true
		}
	}
	if len(ids) > 10 {
		c.t.Errorf("%d sessions", len(ids))
	}
	return 0
}

func joining(listener string) *kmsg.JoinGroupRequest {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Version = 3 // no member id is asked for first
	req.Group, req.ProtocolType, req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = "crowd-"+listener, "consumer", 10_000, 10_000
	p := kmsg.NewJoinGroupRequestProtocol()
	p.Name, p.Metadata = "range", []byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
	req.Protocols = append(req.Protocols, p)
	return req
}

// joinMany has more members join than group.max.size: some are refused while the others wait for the group.
func joinMany(f *front, listener string) int16 {
	first := f.dial(listener)
	defer first.Close()
	find, heartbeat := kmsg.NewPtrFindCoordinatorRequest(), kmsg.NewPtrHeartbeatRequest()
	find.Version, find.CoordinatorKey, heartbeat.Version, heartbeat.Group = 2, "crowd-"+listener, 3, "crowd-"+listener
	for asked[*kmsg.FindCoordinatorResponse](first, find).ErrorCode != 0 || asked[*kmsg.HeartbeatResponse](first, heartbeat).ErrorCode < unknownMember {
		time.Sleep(10 * time.Millisecond) // the coordinator is not ready: errors 14 to 16
	}
	codes := make(chan int16, 8)
	for range cap(codes) {
		c := f.dial(listener)
		f.t.Cleanup(func() { c.Close() })
		_, err := c.Write(kmsg.NewRequestFormatter().AppendRequest(nil, joining(listener), 7))
		if err != nil {
			f.t.Fatal(err)
		}
		go func() {
			answer := make([]byte, 14) // length, correlation, throttling, error
			if _, err := io.ReadFull(c, answer); err != nil {
				codes <- unknownServerError
				return
			}
			codes <- int16(binary.BigEndian.Uint16(answer[12:]))
		}()
	}
	for range cap(codes) {
		if code := <-codes; code == groupMaxSize {
			return code
		}
	}
	return 0
}

func unknownTopics(n int) *kmsg.MetadataRequest {
	req := kmsg.NewPtrMetadataRequest()
	req.Version, req.AllowAutoTopicCreation = 9, true
	for i := range n {
		name := fmt.Sprint("unknown-", i)
		req.Topics = append(req.Topics, kmsg.MetadataRequestTopic{Topic: &name})
	}
	return req
}

func askForMany(c *caller, _ string) int16 {
	resp := asked[*kmsg.MetadataResponse](c, unknownTopics(10_000))
	for _, t := range resp.Topics {
		if t.ErrorCode != unknownTopic {
			return t.ErrorCode
		}
	}
	return unknownTopic
}

func producerIDs(c *caller, _ string) int16 {
	for range 2000 {
		if resp := asked[*kmsg.InitProducerIDResponse](c, kmsg.NewPtrInitProducerIDRequest()); resp.ErrorCode != 0 {
			return resp.ErrorCode
		}
	}
	return 0
}
