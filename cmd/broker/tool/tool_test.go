package tool

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"grete/cmd/broker/node"
	"grete/internal/clock"
	"grete/internal/config"
	"grete/internal/transcript"
	"grete/internal/vfs"
)

// startBroker starts a broker of these properties in memory, and returns the address of a listener.
func startBroker(t *testing.T, listener, more string) string {
	t.Helper()
	return startBrokerOn(t, vfs.NewMem(), listener, more)
}

// startBrokerOn starts a broker on a file system.
func startBrokerOn(t *testing.T, files vfs.FS, listener, more string) string {
	t.Helper()
	text := "listeners=" + listener + "://127.0.0.1:0\nadmin.listen=\nnum.partitions=2\noffsets.topic.num.partitions=1\ntransaction.state.log.num.partitions=1\n" +
		"group.initial.rebalance.delay.ms=0\n" + more
	cfg, err := config.Load(config.Sources{FileName: "f", File: []byte(text)})
	if err != nil {
		t.Fatal(err)
	}
	n, err := node.Start(t.Context(), node.Options{Config: cfg, FS: files, Entropy: rand.Reader, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return n.Addr(listener)
}

// rig runs command lines in this process.
type rig struct {
	env     []string
	files   vfs.FS
	asks    bool
	signals chan os.Signal
}

// commandTimeout ends a command that would go on for ever.
const commandTimeout = 20 * time.Second

func newRig(address string) *rig {
	return &rig{env: []string{"GRETE_BROKERS=" + address, "XDG_CONFIG_HOME=/home", "TZ=UTC"}, files: vfs.NewMem(), signals: make(chan os.Signal, 1)}
}

// run returns the exit code as the program would.
func (r *rig) run(stdin io.Reader, stdout, stderr io.Writer, args ...string) int {
	root := &cobra.Command{Use: "grete", SilenceUsage: true, SilenceErrors: true}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(Commands(World{
		Version: "test", Env: r.env, Stdin: stdin, Stdout: stdout, Stderr: stderr, Files: r.files, Clock: clock.System, Signals: r.signals, Asks: r.asks,
	})...)
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	began := false
	root.PersistentPreRun = func(*cobra.Command, []string) { began = true }
	ctx, cancel := context.WithTimeout(context.Background(), commandTimeout)
	defer cancel()
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	fmt.Fprintln(stderr, "grete:", err)
	if _, usage := errors.AsType[*UsageError](err); usage || !began {
		return 2
	}
	return 1
}

// words splits a command line; words in double quotes have Go's escapes.
func words(t *testing.T, line string) (out []string) {
	t.Helper()
	for line = strings.TrimSpace(line); line != ""; line = strings.TrimSpace(line) {
		if line[0] != '"' {
			word, rest, _ := strings.Cut(line, " ")
			out, line = append(out, word), rest
			continue
		}
		quoted, err := strconv.QuotedPrefix(line)
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		word, _ := strconv.Unquote(quoted)
		out, line = append(out, word), line[len(quoted):]
	}
	return out
}

// masks hide what differs from run to run.
var masks = []struct{ from, to string }{
	{`\b127\.0\.0\.1:\d+`, "BROKER"},
	{`\b127\.0\.0\.1 +\d{4,5}\b`, "BROKER"},
	{`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`, "TIME"},
	{`"timestamp": ?\d+`, `"timestamp":TIME`},
	{`\b1[78]\d{11}\b`, "TIME"},
	{`\bgrete-[0-9a-f-]{36}`, "MEMBER"},
	{`in \d+\.\d\d s: .* ms`, "in N"},
	{`in \d+\.\d\d s: .* MiB/s`, "in N"},
	{`(voter|leader|observer) +\d+ +\d+`, "$1 N N"},
	{`"port": \d+`, `"port": N`},
	{`TIME  +`, "TIME  "},
	{`(leader|epoch|watermark) \d+`, "$1 N"},
	{`\b[A-Za-z0-9_-]{21}[AQgw]\b`, "ID"},
}

// player runs the command lines of a script. What comes before a bar is the standard input. Lines of stderr begin with
// "! ", empty ones are a dot.
func player(t *testing.T) func(string) string {
	r := newRig(startBroker(t, "PLAINTEXT", ""))
	return func(line string) string {
		input := ""
		args := words(t, line)
		if len(args) > 1 && args[1] == "|" {
			input, args = args[0], args[2:]
		}
		if args[0] == "grete" {
			args = args[1:]
		}
		var stdout, stderr bytes.Buffer
		code := r.run(strings.NewReader(input), &stdout, &stderr, args...)
		out := stdout.String()
		if out != "" && !strings.HasSuffix(out, "\n") {
			out += "\n"
		}
		for line := range strings.Lines(stderr.String()) {
			out += "! " + line
		}
		if code != 0 {
			out += fmt.Sprintf("exit code %d\n", code)
		}
		for _, m := range masks {
			out = regexp.MustCompile(m.from).ReplaceAllString(out, m.to)
		}
		for strings.Contains(out, "\n\n") {
			out = strings.ReplaceAll(out, "\n\n", "\n.\n")
		}
		return out
	}
}

func TestScripts(t *testing.T) {
	transcript.Run(t, 1, player)
}

// A list of topics costs two round trips: it is there within 20 ms as soon as the machine has the time.
func TestListIsQuick(t *testing.T) {
	r := newRig(startBroker(t, "PLAINTEXT", ""))
	best := time.Hour
	for begun := time.Now(); best > 20*time.Millisecond && time.Since(begun) < commandTimeout; {
		at := time.Now()
		if code := r.run(nil, io.Discard, io.Discard, "topic", "list"); code != 0 {
			t.Fatal(code)
		}
		best = min(best, time.Since(at))
	}
	if t.Logf("%v", best); best > 20*time.Millisecond {
		t.Errorf("%v", best)
	}
}
