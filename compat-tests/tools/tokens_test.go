package tools

import (
	"regexp"
	"strings"
	"testing"

	"grete/compat-tests/kafka"
)

const (
	tokensCommand = "org.apache.kafka.tools.DelegationTokenCommand"
	plainModule   = "org.apache.kafka.common.security.plain.PlainLoginModule"
	scramModule   = "org.apache.kafka.common.security.scram.ScramLoginModule"
)

// tokenRow is a line of the table that kafka-delegation-tokens prints: id and HMAC.
var tokenRow = regexp.MustCompile(`(?m)^([\w-]{22})\s+([A-Za-z0-9+/=]{88})\s`)

// Java's tool makes, renews, lists and expires a token, with one broker and with three, and Java's clients log in by it
// on each.
func TestDelegationTokens(t *testing.T) {
	t.Parallel()
	k := newSecuredBench(t)
	const users = plainModule + ` required username="node" password="n" user_node="n" user_ann="a";`
	properties := map[string]string{
		"listener.security.protocol.map": "CLIENT:SASL_PLAINTEXT,REPLICATION:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT", "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
		"sasl.mechanism.inter.broker.protocol": "PLAIN", "sasl.mechanism.controller.protocol": "PLAIN", "delegation.token.secret.key": "the secret",
		"listener.name.client.plain.sasl.jaas.config": users, "listener.name.replication.plain.sasl.jaas.config": users, "listener.name.controller.plain.sasl.jaas.config": users,
	}
	for _, brokers := range []int{1, 3} {
		c, err := kafka.StartCluster(t.Context(), kafka.ClusterOptions{Dir: t.TempDir(), Brokers: brokers, Properties: properties})
		kafka.SkipOrFail(t, err)
		k.b = c.Nodes[0].Broker
		k.handleToken(t, c)
		c.Kill()
	}
}

func (k *bench) handleToken(t *testing.T, c *kafka.Cluster) {
	as := func(mechanism, jaas string) string {
		return k.properties(t, "security.protocol=SASL_PLAINTEXT", "sasl.mechanism="+mechanism, "sasl.jaas.config="+jaas+";")
	}
	ann := as("PLAIN", plainModule+` required username="ann" password="a"`)
	tokens := func(args ...string) string {
		return k.run("", tokensCommand, append([]string{"--bootstrap-server", "{b}", "--command-config", ann}, args...)...)
	}
	row := tokenRow.FindStringSubmatch(tokens("--create", "--max-life-time-period", "-1", "--renewer-principal", "User:bob"))
	if row == nil {
		t.Fatal("no token was printed")
	}
	k.want(tokens("--renew", "--renew-time-period", "3600000", "--hmac", row[2]), "Completed renew operation")
	k.want(tokens("--describe", "--owner-principal", "User:ann"), row[1], row[2], "User:ann", "[User:bob]")
	for i, n := range c.Nodes {
		mechanism := []string{"SCRAM-SHA-256", "SCRAM-SHA-512"}[i%2]
		by := as(mechanism, scramModule+` required username="`+row[1]+`" password="`+row[2]+`" tokenauth="true"`)
		k.run("", topics, "--bootstrap-server", n.Addr(), "--command-config", by, "--list")
	}
	k.want(tokens("--expire", "--expiry-time-period", "-1", "--hmac", row[2]), "Completed expire operation")
	if out := tokens("--describe"); strings.Contains(out, row[1]) {
		t.Errorf("a token that was expired is listed:\n%s", out)
	}
}
