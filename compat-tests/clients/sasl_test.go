package clients

import (
	"crypto/tls"
	"crypto/x509"
	"os"
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
		log, err := os.ReadFile(b.LogPath)
		for _, secret := range []string{kafka.Password(kafka.Admin), kafka.Password(kafka.Ann), guessed} {
			if err != nil || strings.Contains(string(log), secret) {
				t.Errorf("a password is in the log (%v)", err)
			}
		}
	})
	return b
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
		user := scram.Auth{User: kafka.Admin, Pass: kafka.Password(kafka.Admin)}
		for _, m := range []sasl.Mechanism{plain.Auth{User: kafka.Admin, Pass: kafka.Password(kafka.Admin)}.AsMechanism(), user.AsSha256Mechanism(), user.AsSha512Mechanism()} {
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
