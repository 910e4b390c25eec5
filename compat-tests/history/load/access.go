package load

import (
	"context"
	"crypto/tls"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/compat-tests/kafka"
)

// role is what one kind of client may do, and no more.
type role struct {
	user, mechanism string
	may             []grant
}

type grant struct {
	op     kmsg.ACLOperation
	on     kmsg.ACLResourceType
	name   string
	prefix bool
}

const (
	topicResource = kmsg.ACLResourceTypeTopic
	groupResource = kmsg.ACLResourceTypeGroup
	txnResource   = kmsg.ACLResourceTypeTransactionalId
)

var (
	readEverything = grant{kmsg.ACLOperationRead, topicResource, "h-", true}

	plainWriter = role{"plain", "PLAIN", []grant{{kmsg.ACLOperationWrite, topicResource, plainTopic, false}}}
	idempotent  = role{"idem", "SCRAM-SHA-256", []grant{
		{kmsg.ACLOperationWrite, topicResource, IdempotentTopic, false}, {kmsg.ACLOperationWrite, topicResource, txnTopic, false},
		{kmsg.ACLOperationWrite, topicResource, compactedTopic, false},
	}}
	transactor = role{"txn", "SCRAM-SHA-512", []grant{
		{kmsg.ACLOperationWrite, topicResource, txnTopic, false}, {kmsg.ACLOperationWrite, topicResource, compactedTopic, false},
		{kmsg.ACLOperationWrite, txnResource, "h-txn-", true},
	}}
	copying = role{"copier", "SCRAM-SHA-256", []grant{
		{kmsg.ACLOperationRead, topicResource, IdempotentTopic, false}, {kmsg.ACLOperationWrite, topicResource, copiesTopic, false},
		{kmsg.ACLOperationRead, groupResource, copiersGroup, false}, {kmsg.ACLOperationWrite, txnResource, "h-copier-", true},
	}}
	reading = role{"reader", "PLAIN", []grant{readEverything}}
	joining = role{"member", "SCRAM-SHA-512", []grant{
		readEverything, {kmsg.ACLOperationRead, groupResource, membersGroup, false}, {kmsg.ACLOperationRead, groupResource, balancedGroup, false},
	}}
	admin = role{user: kafka.Admin, mechanism: "SCRAM-SHA-256"}

	roles = []role{plainWriter, idempotent, transactor, copying, reading, joining}
)

// Users are those that the clients of a run log in as.
func Users() (names []string) {
	for _, r := range roles {
		names = append(names, r.user)
	}
	return names
}

// sessionMs has every client and every node authenticate again, often.
const sessionMs = 4000

// SecuredOptions are ClusterOptions where everybody authenticates over TLS, and has the rights alone that they need.
func SecuredOptions(brokers int, controllers string) kafka.ClusterOptions {
	o := ClusterOptions(brokers)
	o.Security = &kafka.Security{Controllers: controllers, Users: Users(), Sessions: sessionMs}
	return o
}

// as are the options of a client of that role without faults.
func (r *run) as(who role) []kgo.Opt {
	opts := []kgo.Opt{kgo.SeedBrokers(r.addrs...)}
	if r.cfg.Access == nil {
		return opts
	}
	return append(opts, kgo.SASL(kafka.Login(who.user, who.mechanism)), kgo.DialTLSConfig(r.cfg.Access.TLS))
}

// through are the options of every client that works during the run.
func (r *run) through(l *link, who role) []kgo.Opt {
	opts := []kgo.Opt{kgo.SeedBrokers(r.addrs...), kgo.Dialer(l.dial), kgo.MetadataMinAge(100 * time.Millisecond), kgo.RetryTimeout(20 * time.Second)}
	if r.cfg.Access == nil {
		return opts
	}
	return append(opts, kgo.SASL(kafka.Login(who.user, who.mechanism)))
}

// link is a new client's network.
func (r *run) link() *link {
	var secured *tls.Config
	if r.cfg.Access != nil {
		secured = r.cfg.Access.TLS
	}
	return newLink(secured)
}

// grantAll gives each role its rights, and returns once every broker knows them: from then on nobody is denied
// anything.
func (r *run) grantAll(ctx context.Context, cl *kgo.Client) error {
	if r.cfg.Access == nil {
		return nil
	}
	req := kmsg.NewPtrCreateACLsRequest()
	for _, who := range roles {
		for _, g := range who.may {
			c := kmsg.NewCreateACLsRequestCreation()
			c.ResourceType, c.ResourceName, c.ResourcePatternType = g.on, g.name, kmsg.ACLResourcePatternTypeLiteral
			if g.prefix {
				c.ResourcePatternType = kmsg.ACLResourcePatternTypePrefixed
			}
			c.Principal, c.Host, c.Operation, c.PermissionType = "User:"+who.user, "127.0.0.1", g.op, kmsg.ACLPermissionTypeAllow
			req.Creations = append(req.Creations, c)
		}
	}
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return err
	}
	for _, result := range resp.Results {
		if result.ErrorCode != 0 {
			return fmt.Errorf("an ACL: error %d", result.ErrorCode)
		}
	}
	for _, broker := range cl.SeedBrokers() {
		if err := awaitACLs(ctx, broker, len(req.Creations)); err != nil {
			return err
		}
	}
	return nil
}

// awaitACLs waits until a broker knows that many.
func awaitACLs(ctx context.Context, broker *kgo.Broker, count int) error {
	all := kmsg.NewPtrDescribeACLsRequest()
	all.ResourceType, all.ResourcePatternType, all.Operation, all.PermissionType =
		kmsg.ACLResourceTypeAny, kmsg.ACLResourcePatternTypeAny, kmsg.ACLOperationAny, kmsg.ACLPermissionTypeAny
	for {
		resp, err := all.RequestWith(ctx, broker)
		if err != nil {
			return err
		}
		known := 0
		for _, resource := range resp.Resources {
			known += len(resource.ACLs)
		}
		if known >= count {
			return nil
		}
		if !wait(ctx, 20*time.Millisecond) {
			return ctx.Err()
		}
	}
}
