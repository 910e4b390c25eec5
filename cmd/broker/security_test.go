package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A setting of security that cannot be honoured, for its value or for its file, ends the start with one line that names
// it and the reason, and repeats no secret.
func TestSecurityThatCannotBeHonouredIsOneLine(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"garbage": "hunter2\n", "empty": "", "twice": "ann:hunter2\nann:hunter2\n", "no-keys": `{"keys":[]}`} {
		write(t, filepath.Join(dir, name), text)
	}
	var out bytes.Buffer
	if code := run(context.Background(), process{args: []string{"certs", dir, "--node", "node"}, stdout: &out, stderr: &out}); code != 0 {
		t.Fatal(out.String())
	}
	const (
		sasl   = "listeners=SASL_PLAINTEXT://127.0.0.1:0 "
		plain  = sasl + "sasl.enabled.mechanisms=PLAIN "
		jaas   = "listener.name.sasl_plaintext.plain.sasl.jaas.config="
		bearer = sasl + "sasl.enabled.mechanisms=OAUTHBEARER sasl.oauthbearer.expected.audience=a sasl.oauthbearer.expected.issuer=i "
		keys   = "sasl.oauthbearer.jwks.endpoint.url="
		allows = " org.apache.kafka.sasl.oauthbearer.allowed.urls="
		ssl    = "listeners=SSL://127.0.0.1:0 ssl.keystore.type=PEM ssl.truststore.type=PEM ssl.truststore.location=DIR/ca.pem "
		good   = ssl + "ssl.keystore.location=DIR/node.pem "
	)
	for _, tt := range []struct{ properties, want string }{
		{plain, "nobody can log in"},
		{plain + "sasl.plain.users.file=DIR/absent", "sasl.plain.users.file=DIR/absent: "},
		{plain + "sasl.plain.users.file=DIR/garbage", "sasl.plain.users.file=DIR/garbage: line 1 is not name:password"},
		{plain + "sasl.plain.users.file=DIR/twice", "sasl.plain.users.file=DIR/twice: line 2 names a user that another line names"},
		{plain + "sasl.plain.users.file=DIR", "sasl.plain.users.file=DIR: "},
		{plain + jaas + "hunter2", jaas + "[hidden] (--set): login module control flag not specified in JAAS config"},
		{plain + jaas + "a.B/**/required/**/user_ann=hunter2;", "the login module of PLAIN is "},
		{sasl + "sasl.enabled.mechanisms=SCRAM-SHA-1", "has mechanism SCRAM-SHA-1, which is not implemented"},
		{sasl + "sasl.enabled.mechanisms=SCRAM-SHA-256 sasl.bootstrap.users=hunter2", "sasl.bootstrap.users=[hidden] (--set): user 1: not name:password"},
		{sasl + "sasl.enabled.mechanisms=SCRAM-SHA-256 connections.max.reauth.ms=soon", "connections.max.reauth.ms=soon (--set): "},
		{bearer + keys + "file://DIR/absent" + allows + "file://DIR/absent", keys + "file://DIR/absent: "},
		{bearer + keys + "file://DIR/garbage" + allows + "file://DIR/garbage", keys + "file://DIR/garbage: "},
		{bearer + keys + "file://DIR/no-keys" + allows + "file://DIR/no-keys", keys + "file://DIR/no-keys: "},
		{bearer + keys + "file://DIR/no-keys", "must be one of org.apache.kafka.sasl.oauthbearer.allowed.urls"},
		{bearer + keys + "http://127.0.0.1:1/" + allows + "http://127.0.0.1:1/", keys + "http://127.0.0.1:1/: "},
		{ssl + "ssl.keystore.location=DIR/absent", "ssl.keystore.location=DIR/absent: "},
		{ssl + "ssl.keystore.location=DIR/garbage", "ssl.keystore.location=DIR/garbage: "},
		{ssl + "ssl.keystore.location=DIR/ca.pem", "ssl.keystore.location=DIR/ca.pem: there is no private key"},
		{good + "ssl.truststore.location=DIR/empty", "ssl.truststore.location=DIR/empty: "},
		{good + "ssl.keystore.type=PKCS12 ssl.keystore.password=hunter2", "ssl.keystore.location=DIR/node.pem: this file is PEM: set ssl.keystore.type=PEM"},
		{good + "ssl.keystore.type=JKS ssl.keystore.password=hunter2", "ssl.keystore.location=DIR/node.pem: "},
		{good + "ssl.principal.mapping.rules=RULE:(/x/", "ssl.principal.mapping.rules: "},
		{good + "ssl.client.auth=perhaps", "ssl.client.auth=perhaps (--set): "},
		{"gossip.key=hunter2", "gossip.key=[hidden] (--set): "},
		{"super.users=hunter authorizer.class.name=a.B", "authorizer.class.name=a.B (--set): "},
	} {
		args := []string{"serve", "--data-dir", t.TempDir(), "--set", "admin.listen="}
		for _, property := range strings.Fields(strings.ReplaceAll(tt.properties, "DIR", dir)) {
			args = append(args, "--set", property)
		}
		var stderr bytes.Buffer
		ctx, cancel := context.WithCancel(t.Context())
		code := run(ctx, process{args: args, stdout: io.Discard, stderr: &stderr, signals: make(chan os.Signal)})
		cancel()
		got, want := stderr.String(), strings.ReplaceAll(tt.want, "DIR", dir)
		if code != 1 || strings.Count(got, "\n") != 1 || !strings.HasPrefix(got, "grete: config: ") || !strings.Contains(got, want) || strings.Contains(got, "hunter2") {
			t.Errorf("%s: exit code %d, %q, want %q", tt.properties, code, got, want)
		}
	}
}
