package node

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	internal "grete/internal/security/sasl"
)

const saslUsers = "org.apache.kafka.common.security.plain.PlainLoginModule required username=\"node\" password=\"hunter2\" user_node=\"hunter2\" user_ann=\"x\";"

// saslClient is a client of a listener that authenticates.
func saslClient(t *testing.T, n *Node, listener string, m sasl.Mechanism) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(n.Addr(listener)), kgo.SASL(m), kgo.RetryTimeout(10*time.Second), kgo.ConsumeTopics("t"), kgo.RequestRetries(3))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

func ping(t *testing.T, cl *kgo.Client) error {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	return cl.Ping(ctx)
}

// Brokers that authenticate by SASL on every listener make a cluster that replicates, over the end of sessions, and that nobody else gets into.
func TestSASLEverywhere(t *testing.T) {
	for _, mechanism := range []string{"PLAIN", "SCRAM-SHA-512"} {
		t.Run(mechanism, func(t *testing.T) {
			at := freePorts(t, 3)
			var voters []string
			for i := range at {
				voters = append(voters, fmt.Sprintf("%d@%s", i+1, at[i]))
			}
			c := emptyCluster(t)
			for i := range at {
				c.add("controller.quorum.voters="+strings.Join(voters, ","), "listeners=SASL_PLAINTEXT://127.0.0.1:0,CONTROLLER://"+at[i],
					"listener.security.protocol.map=SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT", "security.inter.broker.protocol=SASL_PLAINTEXT",
					"sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512", "sasl.mechanism.inter.broker.protocol="+mechanism, "sasl.mechanism.controller.protocol="+mechanism,
					"listener.name.sasl_plaintext.plain.sasl.jaas.config="+saslUsers, "listener.name.controller.plain.sasl.jaas.config="+saslUsers,
					"sasl.bootstrap.users=node:hunter2", "sasl.node.username=node", "sasl.node.password=hunter2", "connections.max.reauth.ms=3000")
			}
			log := c.logs(0)
			c.start(0, 1, 2)
			ann := saslClient(t, c.running[0], "SASL_PLAINTEXT", plain.Auth{User: "ann", Pass: "x"}.AsMechanism())
			c.eventually("topic", func() bool { return c.createOn(0, "t", 3) == nil && c.running[0].image().Topic("t") != nil })
			for i := range 8 {
				if err := ann.ProduceSync(t.Context(), &kgo.Record{Topic: "t", Value: fmt.Append(nil, i)}).FirstErr(); err != nil {
					t.Fatal(err)
				}
				time.Sleep(500 * time.Millisecond) // longer, in all, than a session
			}
			for read := 0; read < 8; {
				fetches := ann.PollFetches(t.Context())
				if err := fetches.Err(); err != nil {
					t.Fatal(err)
				}
				read += fetches.NumRecords()
			}
			if image := c.running[0].image(); len(image.Topic("t").Partitions[0].ISR) != 3 {
				t.Errorf("in sync: %v", image.Topic("t").Partitions[0].ISR)
			}
			for _, listener := range []string{"SASL_PLAINTEXT", "CONTROLLER"} {
				eve := saslClient(t, c.running[0], listener, plain.Auth{User: "node", Pass: "guessed"}.AsMechanism())
				if err := ping(t, eve); !errors.Is(err, kerr.SaslAuthenticationFailed) {
					t.Errorf("%s: %v", listener, err)
				}
			}
			if log.count("hunter2") > 0 || log.count("guessed") > 0 || log.count("authentication failed") == 0 {
				t.Error("the log has a secret, or does not tell of the failure")
			}
		})
	}
}

// The first user of SCRAM comes with the cluster and adds another, who can log in at once, on this broker and after its next start.
func TestScramUsers(t *testing.T) {
	c := emptyCluster(t)
	c.add("listeners=SASL_PLAINTEXT://127.0.0.1:0", "sasl.enabled.mechanisms=SCRAM-SHA-256,SCRAM-SHA-512", "sasl.bootstrap.users=SCRAM-SHA-256=[name=admin,password=a]")
	c.start(0)
	as := func(user, password string) *kgo.Client {
		return saslClient(t, c.running[0], "SASL_PLAINTEXT", scram.Auth{User: user, Pass: password}.AsSha256Mechanism())
	}
	admin := as("admin", "a")
	salted, err := internal.SHA256.SaltPassword("b", []byte("salt"), 8192)
	if err != nil {
		t.Fatal(err)
	}
	req := kmsg.NewPtrAlterUserSCRAMCredentialsRequest()
	up := kmsg.NewAlterUserSCRAMCredentialsRequestUpsertion()
	up.Name, up.Mechanism, up.Iterations, up.Salt, up.SaltedPassword = "bob", 1, 8192, []byte("salt"), salted
	req.Upsertions = append(req.Upsertions, up)
	resp, err := req.RequestWith(t.Context(), admin)
	if err != nil || len(resp.Results) != 1 || resp.Results[0].ErrorCode != 0 {
		t.Fatal(resp, err)
	}
	if err := ping(t, as("bob", "b")); err != nil {
		t.Error(err)
	}
	for _, wrong := range []*kgo.Client{as("bob", "a"), as("admin", "b"), as("nobody", "a"), saslClient(t, c.running[0], "SASL_PLAINTEXT", plain.Auth{User: "admin", Pass: "a"}.AsMechanism())} {
		if err := ping(t, wrong); err == nil {
			t.Error("got in")
		}
	}
	c.stop(0)
	c.stopped[0] = false
	c.start(0)
	if err := ping(t, as("bob", "b")); err != nil {
		t.Error(err)
	}
	if err := ping(t, as("admin", "a")); err != nil {
		t.Error(err)
	}
}

func TestUsersFileThatCannotBeRead(t *testing.T) {
	c := emptyCluster(t)
	c.add("listeners=SASL_PLAINTEXT://127.0.0.1:0", "sasl.enabled.mechanisms=PLAIN", "sasl.plain.users.file=/users")
	for _, content := range []string{"", "hunter2"} {
		if content != "" {
			write(t, c.disks[0], "/users", []byte(content))
		}
		n, err := Start(t.Context(), c.options[0])
		if err == nil {
			stopNode(t, n)
		}
		if err == nil || !strings.HasPrefix(err.Error(), "config: sasl.plain.users.file=/users: ") || strings.Contains(err.Error(), "hunter2") {
			t.Error(err)
		}
	}
	write(t, c.disks[0], "/users", []byte("ann:x\n"))
	c.start(0)
	if err := ping(t, saslClient(t, c.running[0], "SASL_PLAINTEXT", plain.Auth{User: "ann", Pass: "x"}.AsMechanism())); err != nil {
		t.Error(err)
	}
}
