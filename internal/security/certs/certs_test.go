package certs

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func read(name string, maxBytes int64) ([]byte, error) {
	b, err := os.ReadFile(name)
	if int64(len(b)) > maxBytes {
		return nil, errors.New("too large")
	}
	return b, err
}

func file(name string) string { return filepath.Join("testdata", name) }

func text(t *testing.T, name string) string {
	t.Helper()
	b, err := read(file(name), maxStoreBytes)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// Every form of the same key and chain, as keytool and openssl write them, is the same.
func TestKeystores(t *testing.T) {
	inLine := strings.ReplaceAll(text(t, "node.key"), "\n", " ")
	for name, k := range map[string]Keystore{
		"PKCS12":          {Type: "PKCS12", Location: file("node.p12"), Password: "secret"},
		"PKCS12 as JKS":   {Type: "JKS", Location: file("node.p12"), Password: "secret"},
		"JKS":             {Type: "jks", Location: file("node.jks"), Password: "secret", KeyPassword: "keysecret"},
		"PEM file":        {Type: "PEM", Location: file("node-all.pem")},
		"PEM in line":     {Type: "PEM", Key: text(t, "node.key"), Chain: text(t, "chain.pem")},
		"PEM in one line": {Type: "PEM", Key: inLine, Chain: strings.ReplaceAll(text(t, "chain.pem"), "\n", " ")},
		"PEM encrypted":   {Type: "PEM", Key: text(t, "node.key.enc"), Chain: text(t, "chain.pem"), KeyPassword: "keysecret"},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := k.Load(read)
			if err != nil {
				t.Fatal(err)
			}
			if len(c.Certificate) != 2 || c.Leaf.DNSNames[0] != "localhost" {
				t.Fatalf("%d certificates, %v", len(c.Certificate), c.Leaf.DNSNames)
			}
		})
	}
}

func TestTruststores(t *testing.T) {
	for name, s := range map[string]Truststore{
		"PKCS12":      {Type: "PKCS12", Location: file("trust.p12"), Password: "catrust"},
		"JKS":         {Type: "JKS", Location: file("trust.jks"), Password: "catrust"},
		"PEM file":    {Type: "PEM", Location: file("ca.pem")},
		"PEM in line": {Type: "PEM", Certificates: text(t, "ca.pem")},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := s.Load(read)
			if err != nil || len(c) != 1 || DN(c[0]) != "CN=Test CA,O=Grete" {
				t.Fatal(c, err)
			}
		})
	}
}

// What is wrong with a store is one line that names property and file and no password.
func TestBadStores(t *testing.T) {
	for _, c := range []struct {
		keystore Keystore
		want     string
	}{
		{Keystore{Type: "PKCS12", Location: file("node.p12"), Password: "swordfish"}, "ssl.keystore.location=testdata/node.p12: the password is wrong, or the file is damaged"},
		{Keystore{Type: "JKS", Location: file("node.jks"), Password: "swordfish"}, "ssl.keystore.location=testdata/node.jks: the password is wrong, or the file is damaged"},
		{Keystore{Type: "JKS", Location: file("node.jks"), Password: "secret", KeyPassword: "swordfish"}, "ssl.key.password does not open the private key"},
		{Keystore{Type: "PEM", Key: "-----BEGIN", Chain: "x"}, "ssl.keystore.key: there is no private key in it"},
		{Keystore{Type: "PEM", Location: file("ca.pem")}, "there is no private key in it"},
		{Keystore{Type: "PEM", Location: file("node.key")}, "there is no certificate in it"},
		{Keystore{Type: "PEM", Key: text(t, "node.key"), Chain: text(t, "ca.pem")}, "the private key does not belong to the certificate"},
		{Keystore{Type: "PEM", Key: text(t, "node.key.enc"), Chain: text(t, "chain.pem")}, "there is no ssl.key.password"},
		{Keystore{Type: "PEM", Location: file("node-all.pem"), Password: "swordfish"}, "has no password"},
		{Keystore{Type: "PEM", Location: file("absent.pem")}, "no such file"},
		{Keystore{Type: "BKS", Location: file("node.p12")}, "ssl.keystore.type=BKS is none of JKS, PKCS12, PEM"},
		{Keystore{Type: "PKCS12", Location: "certs_test.go", Password: "swordfish"}, "not a PKCS12 store"},
		{Keystore{Type: "PKCS12", Location: file("ca.pem"), Password: "swordfish"}, "ssl.keystore.location=testdata/ca.pem: this file is PEM: set ssl.keystore.type=PEM"},
		{Keystore{Type: "JKS", Location: file("node-all.pem")}, "this file is PEM: set ssl.keystore.type=PEM"},
		{Keystore{Type: "JKS", Location: file("node.jks")}, "none is set: set ssl.keystore.password"},
		{Keystore{Type: "PKCS12", Location: file("node.p12")}, "none is set: set ssl.keystore.password"},
	} {
		_, err := c.keystore.Load(read)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "swordfish") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}

// A truststore that does not open says which property opens it.
func TestBadTruststores(t *testing.T) {
	for _, c := range []struct {
		truststore Truststore
		want       string
	}{
		{Truststore{Type: "JKS", Location: file("ca.pem"), Password: "swordfish"}, "ssl.truststore.location=testdata/ca.pem: this file is PEM: set ssl.truststore.type=PEM"},
		{Truststore{Type: "PKCS12", Location: file("ca.pem")}, "this file is PEM: set ssl.truststore.type=PEM"},
		{Truststore{Type: "JKS", Location: file("node.jks")}, "none is set: set ssl.truststore.password"},
		{Truststore{Type: "PKCS12", Location: file("node.p12")}, "none is set: set ssl.truststore.password"},
		{Truststore{Type: "PKCS12", Location: file("node.p12"), Password: "swordfish"}, "the password is wrong, or the file is damaged"},
	} {
		_, err := c.truststore.Load(read)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "swordfish") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}

// TestDN holds the name against the one that Java prints for the same certificate.
func TestDN(t *testing.T) {
	c, err := Keystore{Type: "PEM", Location: file("node-all.pem")}.Load(read)
	if err != nil {
		t.Fatal(err)
	}
	want := `1.2.840.113549.1.9.1=#16056140622e63,CN=node\, one,OU=Brokers,O=Grete,C=SE`
	if got := DN(c.Leaf); got != want {
		t.Fatalf("%s, want %s", got, want)
	}
}

func TestMapping(t *testing.T) {
	for _, c := range []struct{ rules, dn, want string }{
		{"", "CN=a,O=b", "CN=a,O=b"},
		{"DEFAULT", "CN=a,O=b", "CN=a,O=b"},
		{`RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/`, "CN=serviceuser,OU=ServiceUsers,O=x", "serviceuser"},
		{`RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L`, "CN=Ann,OU=Dev,O=x,L=y,ST=z,C=w", "ann@dev"},
		{`RULE:^cn=(.*)$/$1/, RULE:^CN=(\w+),.*$/$1x/U ,DEFAULT`, "CN=ann,O=b", "ANNX"},
		{`RULE:^CN=a\/b$/c\/d/`, "CN=a/b", "c/d"},
		{`RULE:^CN=z$/z/`, "CN=a", ""},
	} {
		m, err := ParseMapping(c.rules)
		if err != nil {
			t.Fatal(c.rules, err)
		}
		if got, _ := m.Name(c.dn); got != c.want {
			t.Errorf("%q makes %q of %q, want %q", c.rules, got, c.dn, c.want)
		}
	}
	for _, bad := range []string{"default", "RULE:x", "RULE:a/b/X", "RULE:(/a/", "DEFAULT DEFAULT", "RULE:a/b/L/"} {
		if _, err := ParseMapping(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

func settings() Settings {
	return Settings{
		Keystore: Keystore{Type: "PEM", Location: file("node-all.pem")}, Truststore: Truststore{Type: "PEM", Location: file("ca.pem")},
		Read: read, Now: time.Now, VerifyHost: true, NeedsKeystore: true,
	}
}

// handshake connects a client to a server and returns what each says.
func handshake(t *testing.T, server, client *tls.Config) (state tls.ConnectionState, serverErr, clientErr error) {
	t.Helper()
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	s := tls.Server(a, server)
	done := make(chan error, 1)
	go func() {
		err := s.HandshakeContext(ctx)
		if err == nil {
			_, err = s.Write([]byte("x"))
		}
		a.Close()
		done <- err
	}()
	c := tls.Client(b, client)
	clientErr = c.HandshakeContext(ctx)
	if clientErr == nil {
		_, clientErr = c.Read(make([]byte, 1)) // TLS 1.3 refuses a client's certificate after the client's handshake
	}
	b.Close()
	serverErr = <-done
	return s.ConnectionState(), serverErr, clientErr
}

func TestHandshakes(t *testing.T) {
	for name, c := range map[string]struct {
		server, client func(*Settings)
		host           string
		fails          bool
		certificates   int
	}{
		"one way":               {nil, func(s *Settings) { s.Keystore = Keystore{} }, "localhost", false, 0},
		"mutual":                {func(s *Settings) { s.ClientAuth = ClientAuthRequired }, nil, "localhost", false, 2},
		"requested, not given":  {func(s *Settings) { s.ClientAuth = ClientAuthRequested }, func(s *Settings) { s.Keystore = Keystore{} }, "localhost", false, 0},
		"required, not given":   {func(s *Settings) { s.ClientAuth = ClientAuthRequired }, func(s *Settings) { s.Keystore = Keystore{} }, "localhost", true, 0},
		"another host":          {nil, nil, "example.com", true, 0},
		"another host, unasked": {nil, func(s *Settings) { s.VerifyHost = false }, "example.com", false, 0},
		"not trusted":           {nil, func(s *Settings) { s.Truststore = Truststore{} }, "localhost", true, 0},
		"not trusted, unasked":  {nil, func(s *Settings) { s.Truststore, s.VerifyHost = Truststore{}, false }, "localhost", true, 0},
		"no version in common":  {func(s *Settings) { s.Protocols = []string{"TLSv1.3"} }, func(s *Settings) { s.Protocols = []string{"TLSv1.2"} }, "localhost", true, 0},
		"a suite of TLS 1.2":    {func(s *Settings) { s.CipherSuites = []string{"TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"} }, nil, "localhost", false, 0},
		"expired":               {nil, func(s *Settings) { s.Now = func() time.Time { return time.Now().AddDate(200, 0, 0) } }, "localhost", true, 0},
		"expired, host not asked": {nil, func(s *Settings) {
			s.VerifyHost, s.Now = false, func() time.Time { return time.Now().AddDate(200, 0, 0) }
		}, "localhost", true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			ss, cs := settings(), settings()
			cs.NeedsKeystore = false
			if c.server != nil {
				c.server(&ss)
			}
			if c.client != nil {
				c.client(&cs)
			}
			server, err := Open(ss)
			if err != nil {
				t.Fatal(err)
			}
			client, err := Open(cs)
			if err != nil {
				t.Fatal(err)
			}
			state, serverErr, clientErr := handshake(t, server.Server(), client.Client(c.host))
			if failed := serverErr != nil || clientErr != nil; failed != c.fails {
				t.Fatalf("server %v, client %v", serverErr, clientErr)
			}
			if len(state.PeerCertificates) != c.certificates {
				t.Fatalf("the server knows %d certificates of the client", len(state.PeerCertificates))
			}
		})
	}
}

// A reload that cannot be honoured leaves everything as it was.
func TestReplace(t *testing.T) {
	src, err := Open(settings())
	if err != nil {
		t.Fatal(err)
	}
	before := src.current.Load()
	for name, change := range map[string]func(*Settings){
		"no file":      func(s *Settings) { s.Keystore.Location = file("absent") },
		"no trust":     func(s *Settings) { s.Truststore.Location = file("node.key") },
		"bad protocol": func(s *Settings) { s.Protocols = []string{"SSLv3"} },
		"bad suite":    func(s *Settings) { s.CipherSuites = []string{"TLS_RSA_WITH_RC4_128_SHA"} },
		"half of 1.3":  func(s *Settings) { s.CipherSuites = []string{"TLS_AES_128_GCM_SHA256"} },
		"1.3, no suite": func(s *Settings) {
			s.Protocols, s.CipherSuites = []string{"TLSv1.3"}, []string{"TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"}
		},
	} {
		next := settings()
		change(&next)
		if err := src.Replace(next); err == nil {
			t.Errorf("%s is taken", name)
		}
		if src.current.Load() != before {
			t.Fatalf("%s changed something", name)
		}
	}
	if err := src.Reload(); err != nil || src.current.Load() == before {
		t.Fatal(err)
	}
	if at, ok := src.NotAfter(); !ok || at.Before(time.Now()) {
		t.Fatal(at, ok)
	}
}
