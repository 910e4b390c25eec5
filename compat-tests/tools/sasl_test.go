package tools

import (
	"strings"
	"testing"

	"grete/compat-tests/kafka"
)

// Java's clients over SASL_PLAINTEXT and SASL_SSL by each mechanism, and a user whom kafka-configs adds.
func TestSASL(t *testing.T) {
	t.Parallel()
	k := newSecuredBench(t)
	b, err := kafka.StartSASL(t.Context(), kafka.Options{
		Dir: t.TempDir(), Properties: map[string]string{"super.users": "User:admin;User:bob"},
	})
	kafka.SkipOrFail(t, err)
	t.Cleanup(func() { _ = b.Stop() })
	k.b = b.Broker
	as := func(protocol, mechanism, user, password string) string {
		module := "org.apache.kafka.common.security.scram.ScramLoginModule"
		if mechanism == "PLAIN" {
			module = "org.apache.kafka.common.security.plain.PlainLoginModule"
		}
		return k.properties(t, "security.protocol="+protocol, "sasl.mechanism="+mechanism, "ssl.truststore.type=PEM", "ssl.truststore.location="+b.CA,
			"sasl.jaas.config="+module+` required username="`+user+`" password="`+password+`";`)
	}
	plain := []string{"--bootstrap-server", b.ByProtocol["SASL_PLAINTEXT"]}
	ssl := []string{"--bootstrap-server", b.ByProtocol["SASL_SSL"]}
	k.run("", topics, append(plain, "--command-config", as("SASL_PLAINTEXT", "PLAIN", "admin", "admin-secret"), "--create", "--topic", "t")...)
	k.run("", configs, append(ssl, "--command-config", as("SASL_SSL", "SCRAM-SHA-256", "admin", "admin-secret"), "--alter", "--add-config",
		"SCRAM-SHA-512=[iterations=8192,password=bobs]", "--entity-type", "users", "--entity-name", "bob")...)
	k.run("one\ntwo\n", consoleProduce, append(ssl, "--command-config", as("SASL_SSL", "SCRAM-SHA-512", "bob", "bobs"), "--topic", "t")...)
	out := k.run("", consoleConsume, append(plain, "--command-config", as("SASL_PLAINTEXT", "SCRAM-SHA-512", "bob", "bobs"), "--topic", "t", "--from-beginning", "--max-messages", "2",
		"--timeout-ms", "20000")...)
	k.want(out, "one", "two")
	cmd := k.command(t.Context(), "", topics, append(plain, "--command-config", as("SASL_PLAINTEXT", "SCRAM-SHA-256", "bob", "bobs"), "--list")...)
	said, err := cmd.CombinedOutput()
	if want := "Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-256"; err == nil || !strings.Contains(string(said), want) {
		t.Errorf("%v: %s", err, said)
	}
}
