package clients

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"grete/compat-tests/kafka"
)

func startTLS(t *testing.T, properties map[string]string) *kafka.TLSBroker {
	t.Helper()
	if kafka.Apache() {
		t.Skip("the certificates are made by grete certs, and the listener is ours")
	}
	b, err := kafka.StartTLS(t.Context(), kafka.Options{Dir: t.TempDir(), Properties: properties})
	kafka.SkipOrFail(t, err)
	t.Cleanup(func() { _ = b.Stop() })
	return b
}

// librdkafka, by kcat, over TLS 1.3 and 1.2, with a certificate of its own.
func TestKcatOverTLS(t *testing.T) {
	for _, protocol := range []string{"TLSv1.3", "TLSv1.2"} {
		b := startTLS(t, map[string]string{"ssl.enabled.protocols": protocol})
		file := func(name string) string { return filepath.Join(b.PKI, name) }
		ssl := []string{
			"-X", "security.protocol=SSL", "-X", "ssl.ca.location=" + file("ca.pem"),
			"-X", "ssl.certificate.location=" + file("client.pem"), "-X", "ssl.key.location=" + file("client.pem"),
		}
		large := strings.Repeat("x", 200_000)
		kcat(t, b.SSLAddr, "small\n"+large+"\n", append(ssl, "-P", "-t", "t", "-X", "message.max.bytes=1000000")...)
		got := kcatRecords(t, kcat(t, b.SSLAddr, "", append(ssl, "-C", "-t", "t", "-o", "beginning", "-e", "-J")...))
		if len(got) != 2 || *got[0].Payload != "small" || *got[1].Payload != large {
			t.Fatalf("%s: %d records", protocol, len(got))
		}
	}
}

// franz-go over TLS, with what was produced over the plain listener, and large batches in both directions.
func TestFranzOverTLS(t *testing.T) {
	b := startTLS(t, nil)
	pool := x509.NewCertPool()
	pem, err := os.ReadFile(filepath.Join(b.PKI, "ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	pool.AppendCertsFromPEM(pem)
	pair, err := tls.LoadX509KeyPair(filepath.Join(b.PKI, "client.pem"), filepath.Join(b.PKI, "client.pem"))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := kgo.NewClient(kgo.SeedBrokers(b.Addr), kgo.AllowAutoTopicCreation(), kgo.ProducerBatchCompression(kgo.NoCompression()))
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	ssl, err := kgo.NewClient(kgo.SeedBrokers(b.SSLAddr), kgo.DialTLSConfig(&tls.Config{RootCAs: pool, Certificates: []tls.Certificate{pair}, ServerName: "127.0.0.1"}),
		kgo.ConsumeTopics("t"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.ProducerBatchCompression(kgo.NoCompression()))
	if err != nil {
		t.Fatal(err)
	}
	defer ssl.Close()
	const each = 500
	for _, cl := range []*kgo.Client{plain, ssl} {
		var records []*kgo.Record
		for i := range each {
			records = append(records, &kgo.Record{Topic: "t", Value: fmt.Appendf(make([]byte, 0, 10_000), "%010000d", i)})
		}
		if err := cl.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	for next := 0; next < 2*each; {
		fetches := ssl.PollFetches(t.Context())
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		for _, r := range fetches.Records() {
			if string(r.Value) != fmt.Sprintf("%010000d", next%each) {
				t.Fatalf("record %d differs", next)
			}
			next++
		}
	}
}
