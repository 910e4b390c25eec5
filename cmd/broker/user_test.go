package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"grete/cmd/broker/node"
	"grete/internal/config"
	"grete/internal/vfs"

	"crypto/rand"

	"github.com/rs/zerolog"
)

// A first user, who came with the cluster, adds another, who removes the first.
func TestUserCommands(t *testing.T) {
	cfg, err := config.Load(config.Sources{FileName: "f", File: []byte("listeners=SASL_PLAINTEXT://127.0.0.1:0\nadmin.listen=\nsasl.enabled.mechanisms=SCRAM-SHA-256,SCRAM-SHA-512\nsasl.bootstrap.users=admin:hunter2")})
	if err != nil {
		t.Fatal(err)
	}
	n, err := node.Start(t.Context(), node.Options{Config: cfg, FS: vfs.NewMem(), Entropy: rand.Reader, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := n.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	first, second, empty := file("first", "hunter2\n"), file("second", "hunter3\r\nmore\n"), file("empty", "\n")
	as := func(name, password string, args ...string) []string {
		return append([]string{"user", "--bootstrap-server", n.Addr("SASL_PLAINTEXT"), "--as", name, "--as-password-file", password}, args...)
	}
	for _, tt := range []struct {
		args           []string
		code           int
		stdout, stderr string
	}{
		{as("admin", first, "add", "bob", "--password-file", second, "--iterations", "5000"), 0, "", ""},
		{as("bob", second, "list"), 0, "admin\tSCRAM-SHA-256 (4096 iterations), SCRAM-SHA-512 (4096 iterations)\nbob\tSCRAM-SHA-256 (5000 iterations), SCRAM-SHA-512 (5000 iterations)\n", ""},
		{as("bob", second, "remove", "admin", "--mechanism", "SCRAM-SHA-256"), 0, "", ""},
		{as("admin", first, "list"), 1, "", "does not log in admin by SCRAM-SHA-256"},
		{as("admin", first, "list", "--as-mechanism", "SCRAM-SHA-512"), 0, "admin\tSCRAM-SHA-512 (4096 iterations)\nbob\tSCRAM-SHA-256 (5000 iterations), SCRAM-SHA-512 (5000 iterations)\n", ""},
		{as("bob", second, "remove", "nobody"), 1, "", "there is no user nobody"},
		{as("bob", second, "add", "x", "--password-file", second, "--iterations", "1"), 1, "", "Too few iterations"},
		{as("bob", second, "add", "x", "--password-file", empty), 1, "", "the first line is empty"},
		{as("bob", second, "add", "x"), 2, "", "password-file"},
		{as("bob", first, "list"), 1, "", "invalid credentials"},
		{as("bob", second, "list", "--as-mechanism", "GSSAPI"), 1, "", "must be PLAIN"},
		{as("bob", second, "remove", "bob", "--mechanism", "MD5"), 1, "", "must be SCRAM-SHA-256 or SCRAM-SHA-512"},
	} {
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), process{args: tt.args, stdout: &stdout, stderr: &stderr})
		if code != tt.code || stdout.String() != tt.stdout || !strings.Contains(stderr.String(), tt.stderr) || strings.Contains(stderr.String(), "hunter") {
			t.Errorf("%v: %d, %q, %q", tt.args[7:], code, stdout.String(), stderr.String())
		}
	}
}
