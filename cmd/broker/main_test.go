package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"grete/internal/clock"
)

// program is run on a goroutine of the test.
type program struct {
	t       *testing.T
	signals chan os.Signal
	exit    chan int
	lines   chan string // of stderr, without waiting for a reader
}

func runProgram(t *testing.T, env []string, args ...string) *program {
	t.Helper()
	p := &program{t: t, signals: make(chan os.Signal, 2), exit: make(chan int, 1), lines: make(chan string, 1000)}
	r, w := io.Pipe()
	var reading sync.WaitGroup
	reading.Go(func() {
		for s := bufio.NewScanner(r); s.Scan(); {
			p.lines <- s.Text()
		}
	})
	go func() {
		code := run(context.Background(), process{args: args, env: env, stdout: io.Discard, stderr: w, signals: p.signals})
		w.Close()
		reading.Wait()
		close(p.lines)
		p.exit <- code
	}()
	return p
}

// event waits for a log line with this message.
func (p *program) event(message string) map[string]any {
	p.t.Helper()
	deadline := time.After(10 * time.Second)
	for {
		select {
		case line, ok := <-p.lines:
			if !ok {
				p.t.Fatalf("ended without %q", message)
			}
			var event map[string]any
			if json.Unmarshal([]byte(line), &event) != nil {
				p.t.Fatalf("not a log line: %s", line)
			}
			if event["message"] == message {
				return event
			}
		case <-deadline:
			p.t.Fatalf("no %q in time", message)
		}
	}
}

func (p *program) wait() int {
	p.t.Helper()
	select {
	case code := <-p.exit:
		return code
	case <-time.After(20 * time.Second):
		p.t.Fatal("the program does not end")
		return -1
	}
}

func TestServeUntilASignal(t *testing.T) {
	dir := t.TempDir()
	p := runProgram(t, []string{"KAFKA_NUM_PARTITIONS=3"}, "serve", "--listen", "127.0.0.1:0", "--data-dir", dir, "--set", "admin.listen=")
	listening := p.event("listening")
	p.event("started")
	cl, err := kgo.NewClient(kgo.SeedBrokers(listening["address"].(string)), kgo.AllowAutoTopicCreation())
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if err := cl.ProduceSync(context.Background(), &kgo.Record{Topic: "t", Value: []byte("v")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if listening["listener"] != "PLAINTEXT" || listening["advertised"] != listening["address"] {
		t.Errorf("%v", listening)
	}
	p.signals <- syscall.SIGTERM
	if code := p.wait(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	for _, name := range []string{"meta.properties", ".kafka_cleanshutdown", "t-2"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
}

// What nobody knows in the environment or a file is one line, whatever the number of brokers; with --strict it is the
// end.
func TestUnknownPropertiesAreOneLine(t *testing.T) {
	file := filepath.Join(t.TempDir(), "server.properties")
	write(t, file, "num.partitons=3\nconfluent.x=1\n")
	env := []string{"KAFKA_CREATE_TOPICS=a:1:1", "KAFKA_UI_PORT=tcp://10.0.0.1:80", "KAFKA_HEAP_OPTS=-Xmx1g"}
	args := []string{"serve", "--config", file, "--brokers", "2", "--listen", "127.0.0.1:0", "--data-dir", t.TempDir(), "--set", "admin.listen="}
	p := runProgram(t, env, args...)
	told, _ := p.event("properties that nobody knows change nothing")["properties"].([]any)
	if len(told) != 3 || told[0] != "confluent.x ("+file+")" && told[1] != "confluent.x ("+file+")" {
		t.Errorf("%v", told)
	}
	p.event("started")
	p.signals <- os.Interrupt
	if code := p.wait(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	var stderr bytes.Buffer
	code := run(context.Background(), process{args: append(args, "--strict"), env: env, stdout: io.Discard, stderr: &stderr, signals: make(chan os.Signal)})
	if code != 1 || strings.Count(stderr.String(), "\n") != 1 || !strings.Contains(stderr.String(), "nobody knows this property") {
		t.Errorf("--strict: exit code %d, %q", code, stderr.String())
	}
}

// What asks for protection and protects nothing is one line for each kind, and the broker starts, as Kafka does.
func TestWhatProtectsNothingIsALine(t *testing.T) {
	p := runProgram(t, nil, "serve", "--listen", "127.0.0.1:0", "--data-dir", t.TempDir(), "--set", "admin.listen=", "--set", "super.users=User:ann", "--set", "ssl.keystore.password=hunter2")
	for _, want := range []string{"super.users", "ssl.keystore.password"} {
		told := p.event("properties that protect nothing")
		if names, _ := told["properties"].([]any); len(names) != 1 || names[0] != want || strings.Contains(fmt.Sprint(told), "hunter2") {
			t.Errorf("%v, want %s", told, want)
		}
	}
	p.event("started")
	p.signals <- os.Interrupt
	if code := p.wait(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// A second signal forces the end, but not one that is an echo of the first.
func TestSecondSignal(t *testing.T) {
	c := clock.NewManual(time.Unix(0, 0))
	stopped, signals, result := make(chan error), make(chan os.Signal), make(chan error)
	go func() { result <- awaitStop(stopped, signals, c) }()
	signals <- syscall.SIGTERM
	stopped <- nil
	if err := <-result; err != nil {
		t.Error(err)
	}
	go func() { result <- awaitStop(stopped, signals, c) }()
	signals <- syscall.SIGTERM
	c.Advance(echoTime)
	signals <- syscall.SIGTERM
	if err := <-result; !errors.Is(err, errForced) {
		t.Error(err)
	}
}

func TestEphemeralLeavesNothing(t *testing.T) {
	tmp := t.TempDir()
	p := runProgram(t, []string{"TMPDIR=" + tmp}, "serve", "--listen", "127.0.0.1:0", "--ephemeral", "--set", "admin.listen=")
	p.event("started")
	if entries, _ := os.ReadDir(tmp); len(entries) != 1 {
		t.Errorf("%d entries while running", len(entries))
	}
	p.signals <- os.Interrupt
	if code := p.wait(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if entries, _ := os.ReadDir(tmp); len(entries) != 0 {
		t.Errorf("%d entries left", len(entries))
	}
}

// Whatever is in the way is said in one line, and the exit code is 1.
func TestOneLineAndExitCode1(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	inUse := t.TempDir()
	other := runProgram(t, nil, "serve", "--listen", "127.0.0.1:0", "--data-dir", inUse, "--set", "admin.listen=")
	other.event("started")
	defer func() { other.signals <- os.Interrupt; other.wait() }()
	damaged := t.TempDir()
	write(t, filepath.Join(damaged, "meta.properties"), "version=9\n")
	foreign := t.TempDir()
	write(t, filepath.Join(foreign, "meta.properties"), "version=1\nnode.id=7\ncluster.id=4L6g3nShT-eMCtK--X86sw\n")
	file := filepath.Join(t.TempDir(), "file")
	write(t, file, "")
	bad := filepath.Join(t.TempDir(), "server.properties")
	write(t, bad, "num.partitions=0\n")
	for _, tt := range []struct {
		args string
		want string
	}{
		{"serve --data-dir DIR --listen " + taken.Addr().String(), "grete: listener PLAINTEXT cannot listen on " + taken.Addr().String()},
		{"serve --listen 127.0.0.1:0 --data-dir " + inUse, "in use"},
		{"serve --listen 127.0.0.1:0 --data-dir " + damaged, "meta.properties"},
		{"serve --listen 127.0.0.1:0 --data-dir " + foreign, "node.id 7"},
		{"serve --listen 127.0.0.1:0 --data-dir " + file + "/below", "not a directory"},
		{"serve --data-dir DIR --config " + bad, "num.partitions=0 (" + bad + "): Value must be at least 1; allowed: int of at least 1"},
		{"serve --data-dir DIR --config /nowhere", "/nowhere"},
		{"serve --data-dir DIR --set num.partitons=1", "did you mean num.partitions?"},
		{"serve --data-dir DIR --set nonsense", "--set nonsense: not key=value"},
		{"serve --data-dir DIR --listen nonsense", "--listen=nonsense: not host:port"},
		{"serve --data-dir DIR --set log.retention.ms=abc", "grete: config: log.retention.ms=abc (--set): Not a number of type LONG\n"},
		{"serve --data-dir DIR --set process.roles=controller", "listeners=CONTROLLER://localhost:9093"},
		{"serve --data-dir DIR --node-id -1 --join a", "--node-id=-1: a node id is at least 0"},
		{"serve --data-dir DIR --node-id 1 --join a --expect -2", "--expect=-2: must be at least 0"},
		{"serve --data-dir DIR --join a --expect 3", "needs node.id (--node-id)"},
		{"serve --data-dir DIR --node-id 1 --expect 3", "needs gossip.join"},
		{"serve --data-dir DIR --node-id 1 --join a:b:c", "gossip.join=a:b:c (--join): a:b:c is not host:port"},
		{"serve --data-dir DIR --node-id 1 --join ,", "gossip.join=, (--join): an entry is empty"},
		{"serve --brokers 3 --data-dir DIR --listen 127.0.0.1:65534", "grete: config: --brokers=3: from port 65534 of --listen on there are only 2\n"},
		{"serve --brokers 3 --data-dir DIR --listen 127.0.0.1:9 --set admin.listen=:65535", "grete: config: --brokers=3: from port 65535 of admin.listen on there are only 1\n"},
		{"serve --data-dir=", "grete: config: --data-dir is empty\n"},
		{"serve --listen=", "grete: config: --listen is empty\n"},
		{"serve --data-dir q1,./q1/", "grete: config: log.dirs=q1,./q1/ (--data-dir): q1 and ./q1/ are the same directory\n"},
		{"serve --data-dir DIR --set authorizer.class.name=a.B", "authorizer.class.name=a.B (--set): protects, and there is no authorizer here but"},
	} {
		args := strings.Fields(strings.ReplaceAll(tt.args, "DIR", t.TempDir()))
		if args[0] == "serve" && !strings.Contains(tt.args, "admin.listen") {
			args = append(args, "--set", "admin.listen=")
		}
		requireOneLine(t, 1, tt.want, args...)
	}
}

// A command line that makes no sense has exit code 2, and nothing is done.
func TestUsageIsOneLineAndExitCode2(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"serve --ephemeral --data-dir d", "grete: --data-dir and --ephemeral exclude each other\n"},
		{"serve --brokers 3 --node-id 1", "grete: --brokers and --node-id exclude each other\n"},
		{"serve --brokers 3 --join a", "grete: --brokers and --join exclude each other\n"},
		{"serve --brokers x", "grete: --brokers=x: not a value of type int\n"},
		{"serve --nonsense", "grete: unknown flag: --nonsense\n"},
		{"serve --set", "grete: flag needs an argument: --set\n"},
		{"serve nonsense", "grete: unknown command \"nonsense\" for \"grete serve\"\n"},
		{"sevre", "grete: unknown command \"sevre\" for \"grete\"; did you mean serve?\n"},
		{"serv", "grete: unknown command \"serv\" for \"grete\"; did you mean serve or user?\n"},
		{"nonsense", "grete: unknown command \"nonsense\" for \"grete\"\n"},
		{"help nonsense", "grete: unknown command \"nonsense\" for \"grete\"\n"},
		{"help user nonsense", "grete: unknown command \"nonsense\" for \"grete user\"\n"},
		{"user nonsense", "grete: unknown command \"nonsense\" for \"grete user\"\n"},
		{"user add a", "grete: required flag(s) \"password-file\" not set\n"},
		{"user remove a b", "grete: 2 arguments where there must be one: grete user remove <name> [flags]\n"},
		{"certs", "grete: 0 arguments where there must be one: grete certs <directory> [flags]\n"},
	} {
		requireOneLine(t, 2, tt.want, strings.Fields(tt.args)...)
	}
	for _, args := range []string{"", "help", "help user add", "--help", "serve --help", "user"} {
		var stdout, stderr bytes.Buffer
		code := run(context.Background(), process{args: strings.Fields(args), stdout: &stdout, stderr: &stderr})
		if code != 0 || stderr.Len() > 0 || !strings.Contains(stdout.String(), "Usage:") {
			t.Errorf("%s: exit code %d, %q, %q", args, code, stderr.String(), stdout.String())
		}
	}
}

// requireOneLine holds the program to an exit code and one line on stderr that has a text.
func requireOneLine(t *testing.T, code int, want string, args ...string) {
	t.Helper()
	var stderr bytes.Buffer
	got := run(context.Background(), process{args: args, stdout: io.Discard, stderr: &stderr, signals: make(chan os.Signal)})
	if got != code || strings.Count(stderr.String(), "\n") != 1 || !strings.Contains(stderr.String(), want) {
		t.Errorf("%s: exit code %d, %q, want %d, %q", args, got, stderr.String(), code, want)
	}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestVersion(t *testing.T) {
	for _, arg := range []string{"version", "--version"} {
		var stdout bytes.Buffer
		code := run(context.Background(), process{args: []string{arg}, stdout: &stdout, stderr: io.Discard})
		if code != 0 || stdout.String() != "grete dev\n" {
			t.Errorf("%s: exit code %d, %q", arg, code, stdout.String())
		}
	}
}

// A node that waits for the other voters can be told to stop.
func TestSignalWhileWaitingForOthers(t *testing.T) {
	p := runProgram(t, nil, "serve", "--listen", "127.0.0.1:0", "--data-dir", t.TempDir(), "--set", "admin.listen=",
		"--set", "listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0", "--set", "controller.quorum.voters=1@127.0.0.1:1,2@127.0.0.1:2")
	p.event("waiting for other nodes to form a cluster")
	p.signals <- syscall.SIGTERM
	if code := p.wait(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// grete certs makes what a cluster with TLS needs, adds to it, and overwrites nothing.
func TestCerts(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pki")
	certsIn := func(args ...string) (int, string) {
		var out, errs bytes.Buffer
		code := run(context.Background(), process{args: append([]string{"certs", dir}, args...), stdout: &out, stderr: &errs})
		return code, out.String() + errs.String()
	}
	if code, said := certsIn("--node", "node-1,broker.example,10.0.0.7", "--client", "ann"); code != 0 || strings.Count(said, "\n") != 4 {
		t.Fatalf("code %d: %s", code, said)
	}
	before := map[string]string{}
	for _, name := range []string{"ca.pem", "ca.key", "node-1.pem", "ann.pem"} {
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		before[name] = string(content)
	}
	for _, args := range [][]string{{"--node", "node-2", "--client", "ann"}, {"--client", "ca"}, {"--client", "../x"}, {"--node", "a", "--client", "a"}, {"--node", "b", "--days", "0"}} {
		if code, said := certsIn(args...); code != 1 || strings.Count(said, "\n") != 1 {
			t.Errorf("%v: code %d: %s", args, code, said)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "node-2.pem")); err == nil {
		t.Error("a refused call has made a file")
	}
	if code, said := certsIn("--node", "node-2"); code != 0 || strings.Count(said, "\n") != 1 {
		t.Fatalf("code %d: %s", code, said)
	}
	for name, content := range before {
		if now, _ := os.ReadFile(filepath.Join(dir, name)); string(now) != content {
			t.Errorf("%s has changed", name)
		}
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(before["ca.pem"]))
	for file, hosts := range map[string][]string{"node-1.pem": {"broker.example", "10.0.0.7", "localhost", "::1"}, "node-2.pem": {"127.0.0.1"}} {
		pair, err := tls.LoadX509KeyPair(filepath.Join(dir, file), filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		for _, host := range hosts {
			if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: pool, DNSName: host}); err != nil {
				t.Errorf("%s: %v", file, err)
			}
		}
	}
}
