package node

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/internal/config"
	"grete/internal/security/certs"
	"grete/internal/vfs"
	"grete/protocol"
)

// ca issues the certificates of a test.
type ca struct {
	t *testing.T
	*certs.Authority
}

func newCA(t *testing.T) ca {
	t.Helper()
	a, err := certs.NewAuthority("test", rand.Reader, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return ca{t, a}
}

// put writes a file with a key and a certificate of that name.
func (a ca) put(fs vfs.FS, file, name string, days int) {
	a.t.Helper()
	pem, err := a.Issue(name, []string{"localhost", "127.0.0.1"}, days)
	if err != nil {
		a.t.Fatal(err)
	}
	if old, err := vfs.ReadFile(fs, file, 1<<20); err == nil && len(old) >= len(pem) { // another size: vfs.Mem knows no times
		pem = append(pem, bytes.Repeat([]byte("\n"), len(old)-len(pem)+1)...)
	}
	write(a.t, fs, file, pem)
}

func write(t *testing.T, fs vfs.FS, name string, content []byte) {
	t.Helper()
	f, err := fs.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err == nil {
		_, err = f.WriteAt(content, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
}

// client is the configuration of a client, with a certificate of that name unless it is "".
func (a ca) client(name string) *tls.Config {
	a.t.Helper()
	s := certs.Settings{Truststore: certs.Truststore{Type: "PEM", Certificates: string(a.Certificate())}, Now: time.Now, VerifyHost: true}
	if name != "" {
		pem, err := a.Issue(name, nil, 1)
		if err != nil {
			a.t.Fatal(err)
		}
		s.Keystore = certs.Keystore{Type: "PEM", Key: string(pem), Chain: string(pem)}
	}
	src, err := certs.Open(s)
	if err != nil {
		a.t.Fatal(err)
	}
	return src.Client("localhost")
}

const tlsProperties = "ssl.keystore.type=PEM\nssl.keystore.location=/node.pem\nssl.truststore.type=PEM\nssl.truststore.location=/ca.pem"

// newTLSNodes lays out brokers with TLS, and certificates of both sides, on all listeners.
func newTLSNodes(t *testing.T, count int) (*nodes, ca) {
	a := newCA(t)
	at := freePorts(t, count)
	var voters []string
	for i := range at {
		voters = append(voters, fmt.Sprintf("%d@%s", i+1, at[i]))
	}
	c := emptyCluster(t)
	for i := range at {
		c.add("controller.quorum.voters="+strings.Join(voters, ","), "listeners=SSL://127.0.0.1:0,CONTROLLER://"+at[i],
			"listener.security.protocol.map=SSL:SSL,CONTROLLER:SSL", "security.inter.broker.protocol=SSL", "ssl.client.auth=required", tlsProperties)
		a.put(c.disks[i], "/node.pem", fmt.Sprint("node-", i+1), 365)
		write(t, c.disks[i], "/ca.pem", a.Certificate())
	}
	return c, a
}

// Brokers with TLS on every listener make a cluster that replicates, and nobody without a certificate gets a byte of
// Kafka's out of them.
func TestTLSEverywhere(t *testing.T) {
	c, a := newTLSNodes(t, 3)
	c.start(0, 1, 2)
	var seeds []string
	for _, n := range c.running {
		seeds = append(seeds, n.Addr("SSL"))
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(seeds...), kgo.DialTLSConfig(a.client("ann")), kgo.ConsumeTopics("t"))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	createTopic(t, cl, "t", 3)
	values := [][]byte{[]byte("small"), bytes.Repeat([]byte("large"), 100_000)}
	for _, value := range values {
		if err := cl.ProduceSync(ctx, &kgo.Record{Topic: "t", Value: value}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	for read := 0; read < len(values); {
		for _, r := range cl.PollFetches(ctx).Records() {
			if !bytes.Equal(r.Value, values[read]) {
				t.Fatalf("record %d differs", read)
			}
			read++
		}
		if ctx.Err() != nil {
			t.Fatal("not all records are read")
		}
	}
	stranger := newCA(t).client("eve")
	stranger.RootCAs = a.client("").RootCAs
	for i, n := range c.running {
		controllerAt, _ := n.controllerAddress(int32(i + 1))
		for _, address := range []string{n.Addr("SSL"), controllerAt} {
			for name, dial := range map[string]func(ctx context.Context, address string) (net.Conn, error){
				"plain":            nil,
				"no certificate":   dialTLS(a.client("")),
				"another's issuer": dialTLS(stranger),
			} {
				if c, err := protocol.Dial(ctx, address, protocol.ClientOptions{Dial: dial}); err == nil {
					c.Close()
					t.Errorf("%s is served at %s", name, address)
				}
			}
		}
	}
}

// Nodes with TLS everywhere find each other by gossip, which has a key, and form a cluster; a fourth joins.
func TestNodesWithTLSFormByGossip(t *testing.T) {
	key := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("k"), 32))
	c, _ := newFinders(t, 4, 3, key, "listener.security.protocol.map=PLAINTEXT:SSL,CONTROLLER:SSL", "ssl.client.auth=required", tlsProperties)
	a := newCA(t)
	for i, disk := range c.disks {
		a.put(disk, "/node.pem", fmt.Sprint("node-", i+1), 365)
		write(t, disk, "/ca.pem", a.Certificate())
	}
	c.start(0, 1, 2, 3)
	c.requireVoters(1, 2, 3)
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.running[3].Addr("PLAINTEXT")), kgo.DialTLSConfig(a.client("ann")))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	createTopic(t, cl, "t", 4)
	c.eventually("the topic", func() bool {
		topic := c.running[1].image().Topic("t")
		return topic != nil && len(topic.Partitions[0].ISR) == len(topic.Partitions[0].Replicas)
	})
}

func dialTLS(config *tls.Config) func(ctx context.Context, address string) (net.Conn, error) {
	return func(ctx context.Context, address string) (net.Conn, error) {
		return (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", address)
	}
}

// logBuffer collects a node's log.
type logBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.b.String(), text)
}

// served is the name in the certificate that a listener shows.
func served(t *testing.T, address string, config *tls.Config) string {
	t.Helper()
	nc, err := tls.Dial("tcp", address, config)
	if err != nil {
		return err.Error()
	}
	defer nc.Close()
	return certs.DN(nc.ConnectionState().PeerCertificates[0]) + " " + nc.ConnectionState().PeerCertificates[0].SerialNumber.String()
}

// Certificates change while clients are served: connections that are there stay, new ones see the new certificate; what
// cannot be honoured leaves the old in force and is one line of the log, or the answer to the one that wants the
// change.
func TestReloadOfCertificates(t *testing.T) {
	a, fs, log := newCA(t), vfs.NewMem(), &logBuffer{}
	a.put(fs, "/node.pem", "node", 20)
	write(t, fs, "/ca.pem", a.Certificate())
	o := options(t, fs, "listeners=SSL://127.0.0.1:0", tlsProperties)
	o.Log = zerolog.New(log)
	n := start(t, o)
	config := a.client("")
	cl, err := kgo.NewClient(kgo.SeedBrokers(n.Addr("SSL")), kgo.DialTLSConfig(config))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	createTopic(t, cl, "t", 1)
	old, errs := load(t, cl)
	wait := func(what string, f func() bool) {
		t.Helper()
		for deadline := time.Now().Add(15 * time.Second); !f(); time.Sleep(20 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("not in time: %s", what)
			}
		}
	}
	first := served(t, n.Addr("SSL"), config)
	a.put(fs, "/node.pem", "node", 365)
	wait("another certificate is served", func() bool { return served(t, n.Addr("SSL"), config) != first })
	second := served(t, n.Addr("SSL"), config)
	write(t, fs, "/node.pem", []byte("nonsense"))
	wait("a line in the log", func() bool { return log.count("cannot be read anew") == 1 })
	if now := served(t, n.Addr("SSL"), config); now != second {
		t.Errorf("%s is served", now)
	}
	if log.count("the certificate expires on ") != 1 {
		t.Errorf("the warning of the first certificate's end came %d times", log.count("the certificate expires on "))
	}

	const property = "listener.name.ssl.ssl.keystore.location"
	text := func(s string) *string { return &s }
	if code, message := alterConfig(t, cl, kmsg.ConfigResourceTypeBroker, "1", property, text("/absent.pem")); code != 42 ||
		!strings.Contains(message, "ssl.keystore.location=/absent.pem") {
		t.Errorf("error %d, %s", code, message)
	}
	a.put(fs, "/other.pem", "stranger", 365)
	if code, message := alterConfig(t, cl, kmsg.ConfigResourceTypeBroker, "1", property, text("/other.pem")); code != 42 ||
		!strings.Contains(message, "ssl.allow.dn.changes") {
		t.Errorf("error %d, %s", code, message)
	}
	a.put(fs, "/third.pem", "node", 100)
	if code, message := alterConfig(t, cl, kmsg.ConfigResourceTypeBroker, "1", property, text("/third.pem")); code != 0 {
		t.Fatalf("error %d, %s", code, message)
	}
	wait("the third certificate is served", func() bool { return served(t, n.Addr("SSL"), config) != second })
	if code, _ := alterConfig(t, cl, kmsg.ConfigResourceTypeBroker, "1", "listener.name.ssl.ssl.client.auth", text("required")); code != 0 {
		t.Fatal(code)
	}
	wait("a certificate is wanted of clients", func() bool {
		c, err := protocol.Dial(t.Context(), n.Addr("SSL"), protocol.ClientOptions{Dial: dialTLS(config)})
		if err == nil {
			c.Close()
		}
		return err != nil
	})
	close(old)
	if err := <-errs; err != nil {
		t.Errorf("a client that was connected all the time: %v", err)
	}
}

// load produces until the channel is closed, on the connection that it has.
func load(t *testing.T, cl *kgo.Client) (stop chan struct{}, done chan error) {
	stop, done = make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			select {
			case <-stop:
				done <- nil
				return
			default:
			}
			if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: "t", Value: []byte("v")}).FirstErr(); err != nil {
				done <- err
				return
			}
		}
	}()
	return stop, done
}

// What cannot be honoured ends the start, with one line that names listener, property and file, and no secret.
func TestStartWithoutWhatTLSNeeds(t *testing.T) {
	a, fs := newCA(t), vfs.NewMem()
	a.put(fs, "/node.pem", "node", 365)
	a.put(fs, "/other.pem", "node", 365)
	write(t, fs, "/ca.pem", a.Certificate())
	for properties, want := range map[string]string{
		"": "config: listener SSL: ssl.keystore.location: a listener with TLS needs a key and a certificate",
		"ssl.keystore.type=PEM\nssl.keystore.location=/absent":                              "ssl.keystore.location=/absent: ",
		"ssl.keystore.location=/node.pem\nssl.keystore.password=hunter2":                    "ssl.keystore.location=/node.pem: this file is PEM: set ssl.keystore.type=PEM",
		tlsProperties + "\nssl.truststore.location=/data":                                   "ssl.truststore.location=/data: ",
		tlsProperties + "\nssl.enabled.protocols=SSLv3":                                     "ssl.enabled.protocols: SSLv3",
		tlsProperties + "\nssl.cipher.suites=NONE":                                          "ssl.cipher.suites: NONE",
		tlsProperties + "\nssl.principal.mapping.rules=RULE:(/x/":                           "ssl.principal.mapping.rules: ",
		tlsProperties + "\nlistener.name.ssl.ssl.keystore.location=/ca.pem":                 "ssl.keystore.location=/ca.pem: there is no private key",
		"ssl.keystore.type=PEM\nssl.keystore.key=hunter2\nssl.keystore.certificate.chain=x": "ssl.keystore.key: there is no private key",
	} {
		o := options(t, fs, "listeners=SSL://127.0.0.1:0", properties)
		n, err := Start(t.Context(), o)
		if err == nil {
			stopNode(t, n)
			t.Errorf("%s: started", properties)
			continue
		}
		if got := err.Error(); !strings.Contains(got, want) || strings.Contains(got, "\n") || strings.Contains(got, "hunter2") || !strings.HasPrefix(got, "config: listener SSL: ") {
			t.Errorf("%q: %v", properties, err)
		}
	}
}

// A key that does not fit its certificate is refused, too.
func TestKeyOfAnotherCertificate(t *testing.T) {
	a, fs := newCA(t), vfs.NewMem()
	one, _ := a.Issue("one", nil, 1)
	two, _ := a.Issue("two", nil, 1)
	key, _, _ := bytes.Cut(one, []byte("-----BEGIN CERTIFICATE"))
	_, chain, _ := bytes.Cut(two, []byte("-----BEGIN CERTIFICATE"))
	write(t, fs, "/node.pem", append(key, append([]byte("-----BEGIN CERTIFICATE"), chain...)...))
	write(t, fs, "/ca.pem", a.Certificate())
	if n, err := Start(t.Context(), options(t, fs, "listeners=SSL://127.0.0.1:0", tlsProperties)); err == nil {
		stopNode(t, n)
		t.Error("started")
	}
}

func TestPrincipalOfACertificate(t *testing.T) {
	a, fs := newCA(t), vfs.NewMem()
	a.put(fs, "/node.pem", "node", 365)
	write(t, fs, "/ca.pem", a.Certificate())
	n := start(t, options(t, fs, "listeners=SSL://127.0.0.1:0", tlsProperties, "ssl.client.auth=requested", `ssl.principal.mapping.rules=RULE:^CN=(a.*),O=.*$/$1/U`))
	s := n.securities([]config.Listener{{Name: "SSL", Protocol: config.SSL}})["SSL"]
	for client, want := range map[string]string{"": "ANONYMOUS", "ann": "ANN", "bob": "error"} {
		var state tls.ConnectionState
		if client != "" {
			pem, err := a.Issue(client, nil, 1)
			if err != nil {
				t.Fatal(err)
			}
			pair, err := tls.X509KeyPair(pem, pem)
			if err != nil {
				t.Fatal(err)
			}
			state.PeerCertificates = append(state.PeerCertificates, pair.Leaf)
		}
		p, err := s.Name(state)
		if err != nil {
			p.Name = "error"
		}
		if p.Name != want {
			t.Errorf("%q is %s, want %s", client, p.Name, want)
		}
	}
}
