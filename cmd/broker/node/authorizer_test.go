package node

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.etcd.io/raft/v3/raftpb"

	"grete/cluster"
	"grete/protocol"
)

const standardAuthorizer = "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer"

// grant makes ACLs for everybody, past the listeners: nobody has the right to yet.
func (c *nodes) grant(op kmsg.ACLOperation, t kmsg.ACLResourceType, name string) {
	c.t.Helper()
	req := kmsg.NewPtrCreateACLsRequest()
	a := kmsg.NewCreateACLsRequestCreation()
	a.ResourceType, a.ResourceName, a.ResourcePatternType = t, name, kmsg.ACLResourcePatternTypeLiteral
	a.Principal, a.Host, a.Operation, a.PermissionType = "User:*", "*", op, kmsg.ACLPermissionTypeAllow
	req.Creations = append(req.Creations, a)
	resp, err := c.running[0].controller.Do(context.Background(), controllerPrincipal, req)
	if err != nil || resp.(*kmsg.CreateACLsResponse).Results[0].ErrorCode != 0 {
		c.t.Fatalf("%+v, %v", resp, err)
	}
}

// With an authorizer and not one ACL for themselves, nodes are a cluster: they have proven to be its nodes. They replicate, commit transactions that
// reach over brokers, and elect; a client may do what an ACL says.
func TestNodesNeedNoACL(t *testing.T) {
	c := newNodes(t, 3, standardAuthorizer, "min.insync.replicas=2")
	c.start(0, 1, 2)
	if err := c.create(0, "t", 3); err != kerr.TopicAuthorizationFailed {
		t.Fatalf("a topic of a client without any right: %v", err)
	}
	if err := c.createOn(0, "t", 3); err != nil {
		t.Fatal(err)
	}
	for i := range c.running {
		c.eventually("the topic", func() bool { return c.partition(i, "t").Leader > 0 })
	}
	c.grant(kmsg.ACLOperationWrite, kmsg.ACLResourceTypeTopic, "t")
	c.grant(kmsg.ACLOperationWrite, kmsg.ACLResourceTypeTransactionalId, "x")
	for i := range c.running {
		c.eventually("the ACLs", func() bool { return c.running[i].image().ACLCount() == 2 })
	}
	acked := 0
	writeMore(t, c.client(kgo.DefaultProduceTopic("t"), kgo.RequiredAcks(kgo.AllISRAcks())), &acked, 5)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	tx := c.client(kgo.DefaultProduceTopic("t"), kgo.TransactionalID("x"))
	if err := tx.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := tx.ProduceSync(ctx, kgo.StringRecord("in a transaction")).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if err := tx.EndTransaction(ctx, kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
	if err := c.client(kgo.DefaultProduceTopic("u")).ProduceSync(ctx, kgo.StringRecord("v")).FirstErr(); err == nil {
		t.Error("a client wrote to a topic that no ACL names")
	}
}

// Who has not proven to be a node, and has no right to act as one, gets nothing of the quorum's and registers nothing, not even for itself; without an
// authorizer it may join as an observer.
func TestStrangersDoNotJoinAuthorizedClusters(t *testing.T) {
	c := newNodes(t, 1, standardAuthorizer)
	c.start(0)
	before := c.standing()
	in := c.intrude(0)
	if code := in.hello(77); code != 0 {
		t.Fatalf("hello: error %d", code)
	}
	run := &kmsg.BrokerRegistrationRequest{BrokerID: 77, ClusterID: in.cluster, IncarnationID: cluster.IncarnationOf(make([]byte, cluster.NonceBytes))}
	for what, code := range map[string]int16{
		"join":         in.call(&protocol.JoinRequest{ClusterID: in.cluster, NodeID: 77}).(*protocol.JoinResponse).ErrorCode,
		"registration": in.forward(run),
		"messages":     in.raft(77, 1, raftMessage(raftpb.MsgHeartbeatResp, 77, 1, 1)),
		"a topic":      in.forward(createRequest("forged")),
	} {
		if code != denied {
			t.Errorf("%s: error %d", what, code)
		}
	}
	if after := c.standing(); after != before || c.running[0].image().Broker(77) != nil {
		t.Errorf("%s became %s", before, after)
	}
}
