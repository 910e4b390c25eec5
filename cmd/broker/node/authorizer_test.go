package node

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.etcd.io/raft/v3/raftpb"

	"grete/cluster"
	"grete/internal/vfs"
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

// With an authorizer and not one ACL for themselves, nodes are a cluster: they have proven to be its nodes. They
// replicate, commit transactions that reach over brokers, and elect; a client may do what an ACL says.
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

// Who has not proven to be a node, and has no right to act as one, gets nothing of the quorum's and registers nothing,
// not even for itself; without an authorizer it may join as an observer.
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

// The metrics count each denial that the log tells, of a client on a listener of a broker.
func TestDenialsAreMeasured(t *testing.T) {
	o := options(t, vfs.NewMem(), standardAuthorizer, "admin.listen=127.0.0.1:0")
	log := &logged{}
	o.Log = zerolog.New(log)
	n := start(t, o)
	denials := func() string {
		_, body := get(t, "http://"+n.AdminAddr()+"/metrics")
		return regexp.MustCompile(`(?m)^kafka_server_authorizermetrics_authorization_denied_total .*$`).FindString(body)
	}
	if got := denials(); !strings.HasSuffix(got, " 0") {
		t.Errorf("before any: %q", got)
	}
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.Topics = []kmsg.DeleteTopicsRequestTopic{{Topic: kmsg.StringPtr("t")}}
	if _, err := req.RequestWith(t.Context(), client(t, n)); err != nil {
		t.Fatal(err)
	}
	if lines := log.count(`"message":"denied"`); lines == 0 || !strings.HasSuffix(denials(), fmt.Sprint(" ", lines)) {
		t.Errorf("%d lines, %q", lines, denials())
	}
}
