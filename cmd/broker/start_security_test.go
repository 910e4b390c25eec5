package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"grete/internal/security/certs"
)

const (
	certsData   = "../../internal/security/certs/testdata/"
	plainModule = "org.apache.kafka.common.security.plain.PlainLoginModule required "
)

// refusedStart is a row: properties beside those of a listener, and what the line says. FILE is a file with the text.
type refusedStart struct {
	name, listener, properties, text string
	want                             []string
}

func refusedStarts() []refusedStart {
	const keystore, truststore = "ssl.keystore.location", "ssl.truststore.location"
	pem := "ssl.keystore.type=PEM\nssl.keystore.location=" + certsData + "node-all.pem\nssl.key.password=keysecret\n"
	jks := func(name, password string) string {
		return "ssl.keystore.type=JKS\nssl.keystore.location=" + certsData + name + "\nssl.keystore.password=" + password + "\n"
	}
	sasl := func(mechanism, rest string) string { return "sasl.enabled.mechanisms=" + mechanism + "\n" + rest }
	const keys = "sasl.oauthbearer.jwks.endpoint.url="
	bearer := func(url, allowed string) string {
		return sasl("OAUTHBEARER", "sasl.oauthbearer.expected.audience=a\nsasl.oauthbearer.expected.issuer=i\n"+keys+url+"\norg.apache.kafka.sasl.oauthbearer.allowed.urls="+allowed)
	}
	return []refusedStart{
		{"no certificate at all", "SSL", "", "", []string{keystore, "needs a key and a certificate"}},
		{"no such file", "SSL", "ssl.keystore.type=PEM\nssl.keystore.location=/nowhere/node.pem", "", []string{keystore + "=/nowhere/node.pem", "no such file"}},
		{"a directory", "SSL", "ssl.keystore.type=PEM\nssl.keystore.location=/", "", []string{keystore + "=/"}},
		{"an empty file", "SSL", "ssl.keystore.type=PEM\nssl.keystore.location=FILE", "", []string{keystore + "=FILE"}},
		{"nonsense", "SSL", "ssl.keystore.type=PEM\nssl.keystore.location=FILE", "hunter2", []string{keystore + "=FILE", "private key"}},
		{"a certificate without a key", "SSL", "ssl.keystore.type=PEM\nssl.keystore.location=" + certsData + "ca.pem", "", []string{keystore, "ca.pem", "there is no private key"}},
		{"the key of another", "SSL", "ssl.keystore.type=PEM\nssl.keystore.location=FILE", foreignPair(), []string{keystore + "=FILE", "certificate"}},
		{"an encrypted key, and no password", "SSL", "ssl.keystore.type=PEM\nssl.keystore.location=FILE", read(certsData+"node.key.enc") + read(certsData+"chain.pem"), []string{keystore + "=FILE", "password"}},
		{"an encrypted key, and a wrong password", "SSL", "ssl.keystore.type=PEM\nssl.keystore.location=FILE\nssl.key.password=hunter2", read(certsData+"node.key.enc") + read(certsData+"chain.pem"), []string{keystore + "=FILE", "password"}},
		{"a wrong password of PKCS12", "SSL", "ssl.keystore.type=PKCS12\nssl.keystore.location=" + certsData + "node.p12\nssl.keystore.password=hunter2", "", []string{keystore, "node.p12", "the password is wrong"}},
		{"a wrong password of JKS", "SSL", jks("node.jks", "hunter2"), "", []string{keystore, "node.jks", "the password is wrong"}},
		{"a wrong password of a key in JKS", "SSL", jks("node.jks", "secret") + "ssl.key.password=hunter2", "", []string{keystore, "node.jks", "password"}},
		{"PEM where PKCS12 is said", "SSL", "ssl.keystore.type=PKCS12\nssl.keystore.location=" + certsData + "node.pem\nssl.keystore.password=hunter2", "", []string{keystore, "node.pem", "this file is PEM: set ssl.keystore.type=PEM"}},
		{"an unknown kind of store", "SSL", "ssl.keystore.type=BKS\nssl.keystore.location=" + certsData + "node.p12", "", []string{"ssl.keystore.type", "BKS"}},
		{"no such trust store", "SSL", pem + "ssl.truststore.type=PEM\nssl.truststore.location=/nowhere/ca.pem", "", []string{truststore + "=/nowhere/ca.pem", "no such file"}},
		{"a trust store without certificates", "SSL", pem + "ssl.truststore.type=PEM\nssl.truststore.location=FILE", "hunter2", []string{truststore + "=FILE"}},
		{"a wrong password of a trust store", "SSL", pem + "ssl.truststore.type=JKS\nssl.truststore.location=" + certsData + "trust.jks\nssl.truststore.password=hunter2", "", []string{truststore, "trust.jks", "the password is wrong"}},
		{"a rule that is none", "SSL", pem + "ssl.principal.mapping.rules=RULE:(/x/", "", []string{"ssl.principal.mapping.rules"}},
		{"an unknown protocol", "SSL", pem + "ssl.enabled.protocols=SSLv3", "", []string{"ssl.enabled.protocols", "SSLv3"}},
		{"an unknown cipher suite", "SSL", pem + "ssl.cipher.suites=NONE", "", []string{"ssl.cipher.suites", "NONE"}},
		{"client certificates wanted somehow", "SSL", pem + "ssl.client.auth=perhaps", "", []string{"ssl.client.auth=perhaps"}},
		{"a mechanism that there is not", "SASL_PLAINTEXT", sasl("CRAM-MD5", ""), "", []string{"sasl.enabled.mechanisms", "CRAM-MD5"}},
		{"PLAIN without users", "SASL_PLAINTEXT", sasl("PLAIN", ""), "", []string{"plain.sasl.jaas.config", "listener SASL_PLAINTEXT has mechanism PLAIN, and nobody can log in"}},
		{"a JAAS line without an end", "SASL_PLAINTEXT", sasl("PLAIN", "listener.name.sasl_plaintext.plain.sasl.jaas.config="+plainModule+"user_a=\"hunter2\""), "", []string{"jaas.config=[hidden]"}},
		{"a JAAS line of another module", "SASL_PLAINTEXT", sasl("PLAIN", "listener.name.sasl_plaintext.plain.sasl.jaas.config=a.B required user_a=\"hunter2\";"), "", []string{"jaas.config=[hidden]", "PlainLoginModule"}},
		{"no such file of users", "SASL_PLAINTEXT", sasl("PLAIN", "sasl.plain.users.file=/nowhere/users"), "", []string{"sasl.plain.users.file=/nowhere/users", "no such file"}},
		{"a file of users that is none", "SASL_PLAINTEXT", sasl("PLAIN", "sasl.plain.users.file=FILE"), "hunter2", []string{"sasl.plain.users.file=FILE"}},
		{"first users that are none", "SASL_PLAINTEXT", sasl("SCRAM-SHA-256", "sasl.bootstrap.users=hunter2"), "", []string{"sasl.bootstrap.users=[hidden]"}},
		{"no such file of keys", "SASL_PLAINTEXT", bearer("file:///nowhere/keys", "file:///nowhere/keys"), "", []string{keys + "file:///nowhere/keys: "}},
		{"a file of users that names one twice", "SASL_PLAINTEXT", sasl("PLAIN", "sasl.plain.users.file=FILE"), "ann:hunter2\nann:hunter2\n", []string{"sasl.plain.users.file=FILE: line 2 names a user that another line names"}},
		{"a directory of users", "SASL_PLAINTEXT", sasl("PLAIN", "sasl.plain.users.file=/"), "", []string{"sasl.plain.users.file=/: "}},
		{"a JAAS line of one word", "SASL_PLAINTEXT", sasl("PLAIN", "listener.name.sasl_plaintext.plain.sasl.jaas.config=hunter2"), "", []string{"[hidden]", "login module control flag not specified in JAAS config"}},
		{"a mechanism that is not implemented", "SASL_PLAINTEXT", sasl("SCRAM-SHA-1", ""), "", []string{"has mechanism SCRAM-SHA-1, which is not implemented"}},
		{"sessions that end soon", "SASL_PLAINTEXT", sasl("SCRAM-SHA-256", "connections.max.reauth.ms=soon"), "", []string{"connections.max.reauth.ms=soon"}},
		{"a file of keys that is none", "SASL_PLAINTEXT", bearer("file://FILE", "file://FILE"), "hunter2", []string{keys + "file://FILE: "}},
		{"a file without keys", "SASL_PLAINTEXT", bearer("file://FILE", "file://FILE"), `{"keys":[]}`, []string{keys + "file://FILE: "}},
		{"keys from where none are allowed", "SASL_PLAINTEXT", bearer("file://FILE", ""), `{"keys":[]}`, []string{"must be one of org.apache.kafka.sasl.oauthbearer.allowed.urls"}},
		{"an issuer that does not answer", "SASL_PLAINTEXT", bearer("http://127.0.0.1:1/", "http://127.0.0.1:1/"), "", []string{keys + "http://127.0.0.1:1/: "}},
		{"PEM where JKS is said", "SSL", "ssl.keystore.type=JKS\nssl.keystore.location=" + certsData + "node.pem\nssl.keystore.password=hunter2", "", []string{keystore, "node.pem"}},
		{"another authorizer", "PLAINTEXT", "authorizer.class.name=a.B\nsuper.users=User:ann", "", []string{"authorizer.class.name=a.B"}},
		{"a key of gossip that is none", "PLAINTEXT", "gossip.key=hunter2", "", []string{"gossip.key=[hidden]"}},
		{"a super user without a type", "PLAINTEXT", "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer\nsuper.users=admin", "", []string{"super.users"}},
	}
}

func read(name string) string {
	b, err := os.ReadFile(name)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// foreignPair is a key, and the certificate of another.
func foreignPair() string {
	a, err := certs.NewAuthority("a", rand.Reader, time.Now())
	if err != nil {
		panic(err)
	}
	key, err := a.Key()
	if err != nil {
		panic(err)
	}
	return string(key) + read(certsData+"chain.pem")
}

// A wrong certificate, key, password, file or rule ends the start with one line that names the file or the property,
// and the reason, and shows no secret; the exit code is 1.
func TestSecurityThatCannotBeHonoured(t *testing.T) {
	for _, row := range refusedStarts() {
		t.Run(row.name, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, "file")
			write(t, file, row.text)
			write(t, filepath.Join(dir, "server.properties"), strings.ReplaceAll("admin.listen=\nlisteners="+row.listener+"://127.0.0.1:0\nsecurity.inter.broker.protocol="+row.listener+"\n"+row.properties+"\n", "FILE", file))
			var stderr bytes.Buffer
			args := []string{"serve", "--data-dir", filepath.Join(dir, "data"), "--config", filepath.Join(dir, "server.properties")}
			ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second) // a start that succeeds ends then
			defer cancel()
			code := run(ctx, process{args: args, stdout: io.Discard, stderr: &stderr, signals: make(chan os.Signal)})
			got := stderr.String()
			if code != 1 || strings.Count(got, "\n") != 1 || !strings.HasPrefix(got, "grete: ") || strings.Contains(got, "hunter2") {
				t.Errorf("exit code %d, %q", code, got)
			}
			for _, want := range row.want {
				if !strings.Contains(got, strings.ReplaceAll(want, "FILE", file)) {
					t.Errorf("%q does not say %q", got, want)
				}
			}
		})
	}
}
