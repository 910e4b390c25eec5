package tools

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"grete/compat-tests/kafka"
)

// Java's clients over TLS, with PEM files and with stores of keytool's, while kafka-configs changes the broker's
// certificate.
func TestTLS(t *testing.T) {
	t.Parallel()
	k := newSecuredBench(t)
	b, err := kafka.StartTLS(t.Context(), kafka.Options{Dir: t.TempDir()})
	kafka.SkipOrFail(t, err)
	t.Cleanup(func() { _ = b.Stop() })
	k.b = b.Broker
	file := func(name string) string { return filepath.Join(b.PKI, name) }
	pem := k.properties(t, "security.protocol=SSL", "ssl.keystore.type=PEM", "ssl.keystore.location="+file("client.pem"),
		"ssl.truststore.type=PEM", "ssl.truststore.location="+file("ca.pem"))
	at := []string{"--bootstrap-server", b.SSLAddr}
	k.run("", topics, append(at, "--command-config", pem, "--create", "--topic", "t", "--partitions", "2")...)
	k.run("one\ntwo\n", consoleProduce, append(at, "--command-config", pem, "--topic", "t")...)

	k.store(file("trust.jks"), "-importcert", "-noprompt", "-alias", "ca", "-file", file("ca.pem"))
	k.pkcs12(file("client.pem"), file("client.p12"))
	jks := k.properties(t, "security.protocol=SSL", "ssl.truststore.type=JKS", "ssl.truststore.location="+file("trust.jks"), "ssl.truststore.password=swordfish",
		"ssl.keystore.type=PKCS12", "ssl.keystore.location="+file("client.p12"), "ssl.keystore.password=swordfish")
	out := k.run("", consoleConsume, append(at, "--command-config", jks, "--topic", "t", "--from-beginning", "--max-messages", "2", "--timeout-ms", "20000")...)
	k.want(out, "one", "two")

	alter := []string{"--command-config", pem, "--alter", "--entity-type", "brokers", "--entity-name", "1", "--add-config"}
	k.pkcs12(file("node.pem"), file("node.p12"))
	k.run("", configs, append(at, append(alter, "listener.name.ssl.ssl.keystore.type=PKCS12,listener.name.ssl.ssl.keystore.password=swordfish,listener.name.ssl.ssl.keystore.location="+file("node.p12"))...)...)
	k.run("three\n", consoleProduce, append(at, "--command-config", jks, "--topic", "t")...)
	for _, wrong := range []string{file("other.pem"), file("absent")} {
		cmd := k.command(t.Context(), "", configs, append(at, append(alter, "listener.name.ssl.ssl.keystore.location="+wrong)...)...)
		if out, err := cmd.CombinedOutput(); err == nil && !strings.Contains(string(out), "Exception") {
			t.Errorf("%s was taken: %s", wrong, out)
		}
	}
	described := k.run("", configs, append(at, "--command-config", pem, "--describe", "--entity-type", "brokers", "--entity-name", "1", "--all")...)
	if strings.Contains(described, "swordfish") {
		t.Error("a password is described")
	}
	if log, err := os.ReadFile(b.LogPath); err != nil || strings.Contains(string(log), "swordfish") {
		t.Errorf("a password is in the log (%v)", err)
	}
}

// properties writes a file of them.
func (k *bench) properties(t *testing.T, lines ...string) string {
	t.Helper()
	f, err := os.CreateTemp(t.TempDir(), "*.properties")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(strings.Join(lines, "\n")); err != nil {
		t.Fatal(err)
	}
	return f.Name()
}

// store runs keytool on a JKS file.
func (k *bench) store(name string, args ...string) {
	k.t.Helper()
	tool, err := exec.LookPath("keytool")
	if err != nil {
		k.t.Skip("keytool is not there: it comes with Java")
	}
	k.exec(tool, append(args, "-keystore", name, "-storetype", "JKS", "-storepass", "swordfish")...)
}

// pkcs12 puts key and certificates of a PEM file into a PKCS12 file.
func (k *bench) pkcs12(from, to string) {
	k.t.Helper()
	tool, err := exec.LookPath("openssl")
	if err != nil {
		k.t.Skip("openssl is not there")
	}
	k.exec(tool, "pkcs12", "-export", "-in", from, "-out", to, "-passout", "pass:swordfish")
}

func (k *bench) exec(name string, args ...string) {
	k.t.Helper()
	ctx, cancel := context.WithTimeout(k.t.Context(), time.Minute)
	defer cancel()
	if out, err := exec.CommandContext(ctx, name, args...).CombinedOutput(); err != nil {
		k.t.Fatalf("%s %v: %v: %s", name, args, err, out)
	}
}
