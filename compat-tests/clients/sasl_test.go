package clients

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"grete/compat-tests/kafka"
)

func startSASL(t *testing.T) *kafka.SASLBroker {
	t.Helper()
	if kafka.Apache() {
		t.Skip("the users and listeners are ours")
	}
	b, err := kafka.StartSASL(t.Context(), kafka.Options{Dir: t.TempDir()})
	kafka.SkipOrFail(t, err)
	t.Cleanup(func() {
		_ = b.Stop()
		if log, err := os.ReadFile(b.LogPath); err != nil || strings.Contains(string(log), "admin-secret") || strings.Contains(string(log), "guessed") {
			t.Errorf("a password is in the log (%v)", err)
		}
	})
	return b
}

// pythonSASL has librdkafka and kafka-python produce and consume by each mechanism, and librdkafka be refused with a wrong password.
const pythonSASL = `
import sys
import confluent_kafka as ck
from kafka import KafkaProducer, KafkaConsumer
protocol, address, ca, mechanism = sys.argv[1:]
topic = "t-" + protocol + mechanism
conf = {"bootstrap.servers": address, "security.protocol": protocol, "sasl.mechanism": mechanism, "sasl.username": "admin", "sasl.password": "admin-secret",
        "ssl.ca.location": ca, "log_level": 0}
py = dict(bootstrap_servers=address, security_protocol=protocol, sasl_mechanism=mechanism, sasl_plain_username="admin", ssl_cafile=ca)
p = ck.Producer(conf)
p.produce(topic, b"librdkafka")
assert p.flush(20) == 0, "not delivered"
p = KafkaProducer(sasl_plain_password="admin-secret", **py)
p.send(topic, b"kafka-python").get(20)
p.close()
c = ck.Consumer({**conf, "group.id": topic, "auto.offset.reset": "earliest"})
c.subscribe([topic])
got = []
while len(got) < 2:
    m = c.poll(20)
    assert m is not None and m.error() is None, m and m.error()
    got.append(m.value())
c.close()
assert sorted(got) == [b"kafka-python", b"librdkafka"], got
c = KafkaConsumer(topic, sasl_plain_password="admin-secret", auto_offset_reset="earliest", consumer_timeout_ms=20000, **py)
assert sorted([next(c).value, next(c).value]) == sorted(got)
c.close()
failures = []
p = ck.Producer({**conf, "sasl.password": "guessed", "error_cb": lambda e: failures.append(e.code())})
for _ in range(20):
    p.poll(0.5)
    if ck.KafkaError._AUTHENTICATION in failures: break
assert ck.KafkaError._AUTHENTICATION in failures, failures
`

func TestPythonClientsOverSASL(t *testing.T) {
	python, err := kafka.Python("sasl", "confluent-kafka", "kafka-python")
	kafka.SkipOrFail(t, err)
	b := startSASL(t)
	for protocol, address := range b.ByProtocol {
		for _, mechanism := range kafka.SASLMechanisms {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			out, err := exec.CommandContext(ctx, python, "-c", pythonSASL, protocol, address, b.CA, mechanism).CombinedOutput()
			cancel()
			if err != nil {
				t.Errorf("%s %s: %v: %s", protocol, mechanism, err, out)
			}
		}
	}
}

// franz-go goes on over the end of sessions.
func TestFranzOverSASL(t *testing.T) {
	b := startSASL(t)
	pem, err := os.ReadFile(b.CA)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	var clients []*kgo.Client
	for protocol, address := range b.ByProtocol {
		user := scram.Auth{User: "admin", Pass: "admin-secret"}
		for _, m := range []sasl.Mechanism{plain.Auth{User: "admin", Pass: "admin-secret"}.AsMechanism(), user.AsSha256Mechanism(), user.AsSha512Mechanism()} {
			options := []kgo.Opt{kgo.SeedBrokers(address), kgo.SASL(m), kgo.AllowAutoTopicCreation(), kgo.ConsumeTopics("t"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())}
			if protocol == "SASL_SSL" {
				options = append(options, kgo.DialTLSConfig(&tls.Config{RootCAs: pool, ServerName: "127.0.0.1"}))
			}
			cl, err := kgo.NewClient(options...)
			if err != nil {
				t.Fatal(err)
			}
			defer cl.Close()
			clients = append(clients, cl)
		}
	}
	const rounds = 12
	for range rounds { // sessions are 10 s long
		for _, cl := range clients {
			if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: "t", Value: []byte("v")}).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Second)
	}
	for _, cl := range clients {
		for read := 0; read < rounds*len(clients); {
			fetches := cl.PollFetches(t.Context())
			if err := fetches.Err(); err != nil {
				t.Fatal(err)
			}
			read += fetches.NumRecords()
		}
	}
}
