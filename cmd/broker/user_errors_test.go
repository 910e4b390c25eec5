package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kerr"

	"grete/cmd/broker/node"
	"grete/internal/config"
	"grete/internal/vfs"
	"grete/protocol"
)

// secured is a broker with a listener of each protocol, on which ann is allowed what bob is not, and the files that
// clients need.
func secured(t *testing.T) (n *node.Node, file func(name string) string) {
	t.Helper()
	dir := t.TempDir()
	file = func(name string) string { return filepath.Join(dir, name) }
	for _, pki := range []string{"pki", "other"} {
		code := run(t.Context(), process{args: []string{"certs", file(pki), "--node", "n", "--client", "ann"}, stdout: io.Discard, stderr: io.Discard})
		if code != 0 {
			t.Fatal("grete certs fails")
		}
	}
	write(t, file("ann"), "hunter2\n")
	write(t, file("bob"), "hunter3\n")
	cfg, err := config.Load(config.Sources{FileName: "f", File: []byte("listeners=PLAIN://127.0.0.1:0,TLS://127.0.0.1:0,SASL://127.0.0.1:0,BOTH://127.0.0.1:0\n" +
		"listener.security.protocol.map=PLAIN:PLAINTEXT,TLS:SSL,SASL:SASL_PLAINTEXT,BOTH:SASL_SSL,CONTROLLER:PLAINTEXT\ninter.broker.listener.name=PLAIN\n" +
		"admin.listen=\nlog.dirs=" + file("data") + "\nsasl.enabled.mechanisms=SCRAM-SHA-256\nsasl.bootstrap.users=ann:hunter2;bob:hunter3\n" +
		"authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer\nsuper.users=User:ann;User:CN=ann,O=Grete\nssl.client.auth=required\n" +
		"ssl.keystore.type=PEM\nssl.keystore.location=" + file("pki/n.pem") + "\nssl.truststore.type=PEM\nssl.truststore.location=" + file("pki/ca.pem") + "\n" +
		"connection.failed.authentication.delay.ms=0\n")})
	if err != nil {
		t.Fatal(err)
	}
	n, err = node.Start(t.Context(), node.Options{Config: cfg, FS: vfs.OS, Entropy: rand.Reader, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return n, file
}

// Each reason for which grete user fails has a line of its own, which names the flag that helps.
func TestUserSaysWhyItFails(t *testing.T) {
	n, file := secured(t)
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	const users = "ann\tSCRAM-SHA-256"
	for _, tt := range []struct{ args, out, errs string }{
		{closed.Addr().String(), "", "no connection to " + closed.Addr().String()},
		{"127.0.0.1", "", "no connection to 127.0.0.1: "},
		{"PLAIN --as ann --as-password-file ann", "", " is no listener with SASL (it goes without --as): "},
		{"PLAIN --ca pki/ca.pem", "", " closed the connection, as a listener without TLS does (it goes without --ca and --cert): "},
		{"PLAIN", "", "not authorized: this client needs ALTER on the cluster to change users, DESCRIBE to list them: "},
		{"SASL --as ann --as-password-file ann", users, ""},
		{"SASL --as ann --as-password-file bob", "", " does not log in ann by SCRAM-SHA-256: the password is wrong, or the user has none for that mechanism: "},
		{"SASL --as ann --as-password-file ann --as-mechanism PLAIN", "", " does not take --as-mechanism=PLAIN: "},
		{"SASL --as bob --as-password-file bob", "", "not authorized: bob needs ALTER"},
		{"SASL", "", " wants a login (--as, --as-password-file, --as-mechanism): "},
		{"TLS", "", " closed the connection, as a listener with TLS does (--ca, --cert): "},
		{"TLS --ca pki/ca.pem", "", " wants a client's certificate (--cert, --key): "},
		{"TLS --ca pki/ca.pem --cert pki/ann.pem", users, ""},
		{"TLS --ca pki/ca.pem --cert pki/ann.pem --key pki/ann.pem", users, ""},
		{"TLS --ca pki/ca.pem --cert other/ann.pem", "", " does not trust the certificate of --cert: "},
		{"TLS --ca other/ca.pem --cert pki/ann.pem", "", " is not trusted (--ca names the file of its authority): "},
		{"TLS --cert pki/ann.pem", "", " is not trusted (--ca names the file of its authority): "},
		{"TLS --ca pki/ca.pem --key pki/ann.pem", "", "--key needs --cert"},
		{"TLS --ca nothing --cert pki/ann.pem", "", "nothing: "},
		{"TLS --ca pki/ca.pem --cert pki/ca.pem", "", "--cert="},
		{"TLS --ca pki/ca.pem --cert pki/ann.pem --key other/ann.pem", "", "--cert="},
		{"BOTH --ca pki/ca.pem --cert pki/ann.pem", "", " wants a login (--as, --as-password-file, --as-mechanism): the peer takes SCRAM-SHA-256"},
		{"BOTH --ca pki/ca.pem --as ann --as-password-file ann", users, ""},
		{"BOTH --ca other/ca.pem --as ann --as-password-file ann", "", " is not trusted (--ca names the file of its authority): "},
	} {
		args := strings.Fields(tt.args)
		if at := n.Addr(args[0]); at != "" {
			args[0] = at
		}
		for i := 2; i < len(args); i += 2 {
			if args[i] != "PLAIN" && args[i-1] != "--as" {
				args[i] = file(args[i])
			}
		}
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), process{args: append([]string{"user", "list", "--bootstrap-server"}, args...), stdout: &stdout, stderr: &stderr})
		switch {
		case tt.errs == "" && (code != 0 || !strings.HasPrefix(stdout.String(), tt.out)):
			t.Errorf("%s: %d, %q, %q", tt.args, code, stdout.String(), stderr.String())
		case tt.errs != "" && (code != 1 || strings.Count(stderr.String(), "\n") != 1 || !strings.Contains(stderr.String(), tt.errs)):
			t.Errorf("%s: %d, %q, want %q", tt.args, code, stderr.String(), tt.errs)
		}
	}
}

// A broker or a cluster that is too old for users of SCRAM, and one that does not answer.
func TestUserExplains(t *testing.T) {
	f := userFlags{server: "a:1"}
	for err, want := range map[error]string{
		kerr.UnsupportedVersion:                             "a:1 has no users of SCRAM: its version, or the feature level of its cluster (metadata.version), is too old: ",
		fmt.Errorf("api key 51: %w", protocol.ErrNoVersion): "feature level",
		context.DeadlineExceeded:                            "no answer from a:1 within 30s",
		errors.New("there is no user x"):                    "there is no user x",
	} {
		if got := f.explain(t.Context(), protocol.ClientOptions{}, err); !strings.Contains(got.Error(), want) {
			t.Errorf("%v, want %q", got, want)
		}
	}
}
