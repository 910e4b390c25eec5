package cluster

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/jcmturner/gokrb5/v8/client"
	"github.com/jcmturner/gokrb5/v8/config"
	"github.com/jcmturner/gokrb5/v8/keytab"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/kerberos"

	"grete/compat-tests/kafka"
)

// ticketLife is how long tickets of brokers are good in the test.
const ticketLife = 5 * time.Second

// Three brokers log in to each other by Kerberos, as controllers too, and go on when their tickets have ended; a client
// logs in by franz-go's plugin, which does not ask that a broker prove itself.
func TestKerberosBetweenBrokers(t *testing.T) {
	if kafka.Apache() {
		t.Skip("the listeners are ours")
	}
	dir := t.TempDir()
	kdc, err := kafka.StartKDC(t.Context(), filepath.Join(dir, "kdc"))
	kafka.SkipOrFail(t, err)
	t.Cleanup(kdc.Stop)
	service, err := kdc.Keytab("service", "kafka/127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	if err := kdc.Limit("kafka/127.0.0.1", ticketLife); err != nil {
		t.Fatal(err)
	}
	ann, err := kdc.Keytab("ann", "ann")
	if err != nil {
		t.Fatal(err)
	}
	properties := map[string]string{
		"listener.security.protocol.map": "CLIENT:SASL_PLAINTEXT,REPLICATION:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
		"sasl.enabled.mechanisms":        "GSSAPI", "sasl.mechanism.inter.broker.protocol": "GSSAPI", "sasl.mechanism.controller.protocol": "GSSAPI",
		"sasl.kerberos.keytab": service, "sasl.kerberos.principal": "kafka/127.0.0.1@" + kafka.Realm,
		"sasl.kerberos.service.name": "kafka", "java.security.krb5.conf": kdc.Conf, "connections.max.reauth.ms": "2000",
		"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer", "super.users": "User:kafka;User:ann",
	}
	c, err := kafka.StartCluster(t.Context(), kafka.ClusterOptions{Dir: dir, Properties: properties})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Kill)
	cl := kerberosClient(t, c, kdc, ann)
	logins := func() int {
		n, err := kdc.Logins("kafka/127.0.0.1")
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	began, first, sent := time.Now(), logins(), 0
	for ; logins() < first+3 || time.Since(began) < ticketLife+time.Second; sent++ {
		if time.Since(began) > time.Minute {
			t.Fatalf("brokers whose tickets end have logged in %d times in a minute", logins()-first)
		}
		if err := cl.ProduceSync(t.Context(), kgo.StringRecord(fmt.Sprint(sent))).FirstErr(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond)
	}
	for got := 0; got < sent; {
		fetches := cl.PollFetches(t.Context())
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		fetches.EachRecord(func(*kgo.Record) { got++ })
	}
	for _, n := range c.Nodes {
		log, err := os.ReadFile(n.LogPath())
		if err != nil || bytes.Contains(log, []byte("authentication failure")) {
			t.Errorf("%v: broker %d:\n%s", err, n.ID, log)
		}
	}
	kdcRefuses(t, c.Nodes[0], kdc)
}

// kdcRefuses has a node start whose keys the KDC has replaced: it says so, and ends.
func kdcRefuses(t *testing.T, n *kafka.Node, kdc *kafka.KDC) {
	t.Helper()
	if err := n.Stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := kdc.Keytab("new", "kafka/127.0.0.1"); err != nil {
		t.Fatal(err)
	}
	err := n.Start(t.Context())
	if log, _ := os.ReadFile(n.LogPath()); err == nil || !bytes.Contains(log, []byte("login of kafka/127.0.0.1@"+kafka.Realm+": ")) {
		t.Errorf("%v:\n%s", err, log)
	}
}

// kerberosClient is ann's, for a topic of three replicas that it makes.
func kerberosClient(t *testing.T, c *kafka.Cluster, kdc *kafka.KDC, file string) *kgo.Client {
	t.Helper()
	conf, err := config.Load(kdc.Conf)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := keytab.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	as := kerberos.Auth{Client: client.NewWithKeytab("ann", kafka.Realm, keys, conf, client.DisablePAFXFAST(true)), Service: "kafka"}
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.Addrs()...), kgo.SASL(as.AsMechanismWithClose()), kgo.DefaultProduceTopic("t"), kgo.ConsumeTopics("t"),
		kgo.AllowAutoTopicCreation())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}
