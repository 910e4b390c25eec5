package tools

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"grete/compat-tests/kafka"
)

// Java's clients and librdkafka log in by Kerberos, over SASL_PLAINTEXT and SASL_SSL, against a KDC of Debian's
// packages. A user whom no rule gives a name does not get in.
func TestKerberos(t *testing.T) {
	t.Parallel()
	k := newSecuredBench(t)
	b, err := kafka.StartKerberos(t.Context(), kafka.Options{Dir: t.TempDir(), Properties: map[string]string{"sasl.kerberos.principal.to.local.rules": "RULE:[1:$1]"}})
	kafka.SkipOrFail(t, err)
	t.Cleanup(func() { _ = b.Stop() })
	k.b, k.jvm = b.Broker, []string{"-Djava.security.krb5.conf=" + b.KDC.Conf}
	as := func(protocol string) []string {
		login := k.properties(t, "security.protocol="+protocol, "sasl.mechanism=GSSAPI", "sasl.kerberos.service.name=kafka", "ssl.truststore.type=PEM",
			"ssl.truststore.location="+b.CA, "sasl.jaas.config="+kafka.Krb5Login(b.Keytab, "ann"))
		return []string{"--bootstrap-server", b.ByProtocol[protocol], "--command-config", login, "--topic", "t"}
	}
	k.run("one\ntwo\n", consoleProduce, as("SASL_SSL")...)
	k.want(k.run("", consoleConsume, append(as("SASL_PLAINTEXT"), "--from-beginning", "--max-messages", "2", "--timeout-ms", "20000")...), "one", "two")
	for protocol, address := range b.ByProtocol {
		librdkafka(t, b, protocol, address)
	}
	other, err := b.KDC.Keytab("other", "ann/admin")
	if err != nil {
		t.Fatal(err)
	}
	unmapped := k.properties(t, "security.protocol=SASL_PLAINTEXT", "sasl.mechanism=GSSAPI", "sasl.kerberos.service.name=kafka", "sasl.jaas.config="+kafka.Krb5Login(other, "ann/admin"))
	cmd := k.command(t.Context(), "", topics, "--bootstrap-server", b.ByProtocol["SASL_PLAINTEXT"], "--command-config", unmapped, "--list")
	said, err := cmd.CombinedOutput()
	if want := "Authentication failed during authentication due to invalid credentials with SASL mechanism GSSAPI"; err == nil || !strings.Contains(string(said), want) {
		t.Errorf("%v: %s", err, said)
	}
}

// librdkafka has kcat, which is librdkafka with Cyrus' SASL, produce and consume.
func librdkafka(t *testing.T, b *kafka.KerberosBroker, protocol, address string) {
	t.Helper()
	if _, err := exec.LookPath("kcat"); err != nil {
		_ = kafka.Install("", "apt-get", "install", "-y", "-qq", "kcat")
	}
	if _, err := exec.LookPath("kcat"); err != nil {
		t.Log("kcat is not installed and cannot be: it is Debian's package kcat")
		return
	}
	run := func(stdin string, args ...string) string {
		args = append([]string{"-q", "-b", address, "-t", "kcat-" + protocol, "-X", "security.protocol=" + protocol, "-X", "sasl.mechanism=GSSAPI", "-X", "ssl.ca.location=" + b.CA,
			"-X", "sasl.kerberos.service.name=kafka", "-X", "sasl.kerberos.principal=ann@" + kafka.Realm, "-X", "sasl.kerberos.keytab=" + b.Keytab,
			"-X", "sasl.kerberos.kinit.cmd=kinit -t %{sasl.kerberos.keytab} -k %{sasl.kerberos.principal}"}, args...)
		cmd := exec.CommandContext(t.Context(), "kcat", args...)
		cmd.Stdin = strings.NewReader(stdin)
		cmd.Env = append(os.Environ(), "KRB5_CONFIG="+b.KDC.Conf, "KRB5CCNAME="+filepath.Join(t.TempDir(), "tickets"))
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("kcat %v: %v: %s", args, err, out)
		}
		return string(out)
	}
	run("three\n", "-P")
	if got := run("", "-C", "-o", "beginning", "-e"); got != "three\n" {
		t.Errorf("%s: kcat read %q", protocol, got)
	}
}
