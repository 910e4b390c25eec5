package tool

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"grete/internal/security/certs"
	"grete/internal/vfs"
)

// write puts a file where commands see it.
func (r *rig) write(t *testing.T, name, text string) string {
	t.Helper()
	if err := vfs.WriteFile(r.files, name, false, func(w io.Writer) error { _, err := io.WriteString(w, text); return err }); err != nil {
		t.Fatal(err)
	}
	return name
}

// Every way to log in, by flags and by the properties of Kafka's clients and of librdkafka.
func TestLogins(t *testing.T) {
	address := startBroker(t, "SASL_PLAINTEXT", "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER\nsasl.bootstrap.users=admin:hunter2\n"+
		"listener.name.sasl_plaintext.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required user_ann=\"hunter3\";\n"+
		"listener.name.sasl_plaintext.oauthbearer.sasl.server.callback.handler.class=org.apache.kafka.common.security.oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler\n"+
		"listener.name.sasl_plaintext.oauthbearer.sasl.jaas.config=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub=\"bob\";\n")
	r := newRig(address)
	admin, ann, wrong := r.write(t, "admin", "hunter2\nmore\n"), r.write(t, "ann", "hunter3\r\n"), r.write(t, "wrong", "hunter4\n")
	jaas := func(module, user, password string) string {
		return fmt.Sprintf("security.protocol=SASL_PLAINTEXT\nkey.serializer=x\nsasl.jaas.config=org.apache.kafka.common.security.%s required username=\"%s\" password=\"%s\";\n", module, user, password)
	}
	scram := r.write(t, "scram.properties", jaas("scram.ScramLoginModule", "admin", "hunter2")+"sasl.mechanism=SCRAM-SHA-512\n")
	plain := r.write(t, "plain.properties", jaas("plain.PlainLoginModule", "ann", "hunter3")+"sasl.mechanism=PLAIN\n")
	bearer := r.write(t, "bearer.properties", "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\n"+
		"sasl.jaas.config=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub=\"bob\";\n")
	for _, tt := range []struct {
		args   string
		code   int
		stderr string
	}{
		{"--as admin --as-password-file " + admin, 0, ""},
		{"--as admin --as-password-file " + admin + " --as-mechanism SCRAM-SHA-512", 0, ""},
		{"--as ann --as-password-file " + ann + " --as-mechanism PLAIN", 0, ""},
		{"--command-config " + scram, 0, ""},
		{"--command-config " + plain, 0, ""},
		{"--command-config " + bearer, 0, ""},
		{"-X security.protocol=SASL_PLAINTEXT -X sasl.mechanisms=PLAIN -X sasl.username=ann -X sasl.password=hunter3", 0, ""},
		{"--as admin --as-password-file " + wrong, 1, "does not log in admin by SCRAM-SHA-256: the password is wrong"},
		{"--as admin --as-password-file " + admin + " --as-mechanism GSSAPI", 1, "must be PLAIN, SCRAM-SHA-256"},
		{"", 1, "as a listener with TLS (--tls, --ca) or with SASL (--as, --as-password-file) does"},
	} {
		var stdout, stderr bytes.Buffer
		code := r.run(nil, &stdout, &stderr, append([]string{"topic", "list", "--timeout", "10s"}, strings.Fields(tt.args)...)...)
		if code != tt.code || !strings.Contains(stderr.String(), tt.stderr) || strings.Contains(stderr.String(), "hunter") || strings.Count(stderr.String(), "\n") > 1 {
			t.Errorf("%s: %d, %s", tt.args, code, stderr.String())
		}
	}
}

// TLS with an authority of one's own, with and without a client's certificate, and what is said when it is wrong.
func TestTLS(t *testing.T) {
	dir := t.TempDir()
	file := func(name string, text []byte, err error) string {
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		return filepath.Join(dir, name)
	}
	authority, err := certs.NewAuthority("tests", rand.Reader, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	other, err := certs.NewAuthority("others", rand.Reader, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	ca, otherCA := file("ca.pem", authority.Certificate(), nil), file("other.pem", other.Certificate(), nil)
	issue := func(name string) string {
		text, err := authority.Issue(name, []string{"127.0.0.1"}, 1)
		return file(name+".pem", text, err)
	}
	server, client := issue("server"), issue("client")
	mem := newRig("").files
	for _, name := range []string{ca, server} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := mem.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		(&rig{files: mem}).write(t, name, string(text))
	}
	address := startBrokerOn(t, mem, "SSL", "ssl.client.auth=required\nssl.keystore.type=PEM\nssl.truststore.type=PEM\nssl.keystore.location="+server+"\nssl.truststore.location="+ca+"\n")
	r := newRig(address)
	r.files = vfs.OS
	r.env = append(r.env, "GRETE_PROFILES="+filepath.Join(dir, "profiles.yaml"))
	properties := file("client.properties", []byte("security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location="+ca+"\nssl.keystore.type=PEM\nssl.keystore.location="+client+"\n"), nil)
	for _, tt := range []struct {
		args   string
		code   int
		stderr string
	}{
		{"--ca " + ca + " --cert " + client, 0, ""},
		{"--ca " + ca + " --cert " + client + " --key-file " + client, 0, ""},
		{"--command-config " + properties, 0, ""},
		{"-X security.protocol=ssl --ca " + ca + " --cert " + client, 0, ""},
		{"--ca " + otherCA + " --cert " + client, 1, "is not trusted (--ca names"},
		{"--tls", 1, "is not trusted (--ca names"},
		{"--ca " + ca, 1, "--cert"},
		{"--ca " + filepath.Join(dir, "missing"), 1, "missing"},
		{"", 1, "as a listener with TLS"},
	} {
		var stdout, stderr bytes.Buffer
		code := r.run(nil, &stdout, &stderr, append([]string{"topic", "list", "--timeout", "10s"}, strings.Fields(tt.args)...)...)
		if code != tt.code || !strings.Contains(stderr.String(), tt.stderr) || strings.Count(stderr.String(), "\n") > 1 {
			t.Errorf("%s: %d, %s", tt.args, code, stderr.String())
		}
	}
}
