package clients

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"grete/compat-tests/kafka"
)

// guessed is a wrong password.
const guessed = "guessed"

var everyWay = []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "SSL"}

// kcatWays are those of Debian's kcat. It takes no token from its caller for OAUTHBEARER. Its librdkafka is older than
// 2.6.1 and repeats its nonce in SCRAM, which Kafka since 4.0 refuses, too (librdkafka's pull request 4895).
var kcatWays = []string{"PLAIN", "SSL"}

// errorNames are what a client calls its errors.
type errorNames struct {
	login, token, certificate, topic, group, txn string
}

var (
	codeNames = errorNames{
		"SASL_AUTHENTICATION_FAILED", "SASL_AUTHENTICATION_FAILED", "unknown certificate authority",
		"TOPIC_AUTHORIZATION_FAILED", "GROUP_AUTHORIZATION_FAILED", "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
	}
	javaNames = errorNames{
		"SaslAuthenticationException", "SaslAuthenticationException", "SslAuthenticationException",
		"TopicAuthorizationException", "GroupAuthorizationException", "TransactionalIdAuthorizationException",
	}
	librdkafkaNames = errorNames{
		"_AUTHENTICATION", "_AUTHENTICATION", "alert unknown ca", codeNames.topic, codeNames.group, codeNames.txn,
	}
	kcatNames = errorNames{
		"SASL authentication error", "", "alert unknown ca",
		"Topic authorization failed", "Group authorization failed", "",
	}
	// kafka-python drops what it has read when it meets the end of the connection behind it, and the broker's last
	// answer comes with that end, as Kafka's does: so it knows the reason, or it does not.
	pythonNames = errorNames{
		"SaslAuthenticationFailedError|KafkaConnectionError", "SaslAuthenticationFailedError|KafkaConnectionError",
		"KafkaConnectionError",
		"TopicAuthorizationFailedError", "GroupAuthorizationFailedError", "TransactionalIdAuthorizationFailedError",
	}
	// aiokafka and kafkajs take the broker's first answer for success, and meet the end of the connection then.
	aiokafkaNames = errorNames{
		"SaslAuthenticationFailed", "KafkaConnectionError", "KafkaConnectionError",
		"TopicAuthorizationFailedError", "GroupAuthorizationFailedError", "TransactionalIdAuthorizationFailed",
	}
	// kafkajs forgets why no broker tells it of a coordinator.
	kafkajsNames = errorNames{
		"KafkaJSSASLAuthenticationError", "KafkaJSConnectionClosedError", "KafkaJSConnectionError",
		"TOPIC_AUTHORIZATION_FAILED", "KafkaJSGroupCoordinatorNotFound", "KafkaJSGroupCoordinatorNotFound",
	}
	saramaNames = errorNames{
		sarama.ErrSASLAuthenticationFailed.Error(), sarama.ErrSASLAuthenticationFailed.Error(),
		"unknown certificate authority",
		sarama.ErrTopicAuthorizationFailed.Error(), sarama.ErrGroupAuthorizationFailed.Error(),
		sarama.ErrTransactionalIDAuthorizationFailed.Error(),
	}
)

// securedClients are the clients, and what they call what they are refused.
var securedClients = []struct {
	name string
	ways []string
	errorNames
	run func(secured) ([]said, error)
}{
	{"franz-go", everyWay, codeNames, securedFranz},
	{"sarama", everyWay, saramaNames, securedSarama},
	{"java", everyWay, javaNames, securedJava},
	{"kcat", kcatWays, kcatNames, securedKcat},
	{"librdkafka", everyWay, librdkafkaNames, func(c secured) ([]said, error) {
		return securedPython(c, "confluent", "confluent-kafka")
	}},
	{"kafka-python", everyWay, pythonNames, func(c secured) ([]said, error) {
		return securedPython(c, "kafka-python", "kafka-python", "python-snappy", "lz4", "zstandard")
	}},
	{"aiokafka", everyWay, aiokafkaNames, func(c secured) ([]said, error) {
		return securedPython(c, "aiokafka", "aiokafka", "cramjam")
	}},
	{"kafkajs", everyWay, kafkajsNames, securedNode},
}

// TestSecuredClients has every client get in by every mechanism of SASL and by a certificate, over TLS, and do what
// its user may: produce, consume in a group, and a transaction. What it may not, and what it cannot prove, must be the
// client's own error for that. GSSAPI has its tests where a KDC is.
func TestSecuredClients(t *testing.T) {
	b := startSASL(t)
	prepareSecured(t, b)
	var checks []func()
	for _, client := range securedClients {
		c := configOf(t, b)
		c.Client, c.Ways = client.name, client.ways
		type result struct {
			all []said
			err error
		}
		done := make(chan result, 1)
		go func() { // all at once: they wait more than they work
			all, err := client.run(c)
			done <- result{all, err}
		}()
		checks = append(checks, func() {
			t.Run(client.name, func(t *testing.T) {
				r := <-done
				kafka.SkipOrFail(t, r.err)
				client.check(t, client.name != "kcat", client.ways, r.all)
			})
		})
	}
	for _, check := range checks {
		check()
	}
}

// check compares what a client said with what it must say; | is between names of which it may say either.
func (n errorNames) check(t *testing.T, transactions bool, ways []string, all []said) {
	t.Helper()
	got := map[[2]string]string{}
	for _, s := range all {
		got[[2]string{s.Way, s.Step}] = s.Outcome
	}
	for _, way := range ways {
		want := map[string]string{"produce": "ok", "consume": "ok", "login": n.login, "topic": n.topic, "group": n.group}
		switch way {
		case "SSL":
			want["login"] = n.certificate
		case "OAUTHBEARER":
			want["login"] = n.token
		}
		if transactions {
			want["transact"], want["txn"] = "ok", n.txn
		}
		for step, outcome := range want {
			is := got[[2]string{way, step}]
			one := slices.ContainsFunc(strings.Split(outcome, "|"), func(name string) bool { return strings.Contains(is, name) })
			if !one || (outcome == "ok") != (is == "ok") {
				t.Errorf("%s %s: %q, not %q", way, step, is, outcome)
			}
		}
	}
}

func configOf(t *testing.T, b *kafka.SASLBroker) secured {
	t.Helper()
	c := secured{
		SASL: b.ByProtocol["SASL_SSL"], SSL: b.SSLAddr, CA: b.CA, Pem: filepath.Join(b.PKI, "ann.pem"), OtherPem: filepath.Join(filepath.Dir(b.PKI), "other", "ann.pem"),
		User: kafka.Ann, Password: kafka.Password(kafka.Ann), OtherPassword: guessed, TokenFile: filepath.Join(t.TempDir(), "token"), OtherTokenFile: filepath.Join(t.TempDir(), "other"),
	}
	var err error
	if c.Token, err = b.Token(kafka.Ann); err != nil {
		t.Fatal(err)
	}
	if c.OtherToken, err = b.ForgedToken(kafka.Ann); err != nil {
		t.Fatal(err)
	}
	for file, token := range map[string]string{c.TokenFile: c.Token, c.OtherTokenFile: c.OtherToken} {
		if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// prepareSecured makes the topics, and Ann's rights.
func prepareSecured(t *testing.T, b *kafka.SASLBroker) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.ByProtocol["SASL_PLAINTEXT"]), kgo.SASL(kafka.Login(kafka.Admin, "PLAIN")))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	topics := []string{"secret"}
	for _, client := range securedClients {
		topics = append(topics, "t-"+client.name)
	}
	created, err := adm.CreateTopics(context.Background(), 1, 1, nil, topics...)
	if err == nil {
		err = created.Error()
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, rights := range []*kadm.ACLBuilder{
		kadm.NewACLs().Topics("t-").Operations(kadm.OpRead, kadm.OpWrite), kadm.NewACLs().Groups("g-").Operations(kadm.OpRead),
		kadm.NewACLs().TransactionalIDs("x-").Operations(kadm.OpWrite),
	} {
		made, err := adm.CreateACLs(context.Background(), rights.Allow("User:"+kafka.Ann).AllowHosts("127.0.0.1").ResourcePatternType(kadm.ACLPatternPrefixed))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range made {
			if m.Err != nil {
				t.Fatal(m.Err)
			}
		}
	}
}
