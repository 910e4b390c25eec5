package tool

import (
	"bytes"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// buffer is a bytes.Buffer that a test may read while a command writes.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// until waits until a command has written something.
func (b *buffer) until(t *testing.T, want string) {
	t.Helper()
	for deadline := time.Now().Add(commandTimeout); !strings.Contains(b.String(), want); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("no %q in %q", want, b.String())
		}
	}
}

func (r *rig) must(t *testing.T, stdin io.Reader, args ...string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if code := r.run(stdin, &stdout, &stderr, args...); code != 0 {
		t.Fatalf("%v: %d, %s", args, code, stderr.String())
	}
	return stdout.String()
}

// A member of a group is seen by describe, and keeps its group from being reset. After a signal it has committed what
// it has written.
func TestMemberOfAGroup(t *testing.T) {
	r := newRig(startBroker(t, "PLAINTEXT", ""))
	r.must(t, nil, "topic", "create", "t", "-p", "1")
	r.must(t, strings.NewReader("a\nb\n"), "produce", "t")
	var out, errs buffer
	member := *r
	member.signals = make(chan os.Signal, 1)
	ended := make(chan int, 1)
	go func() { ended <- member.run(nil, &out, &errs, "consume", "t", "-g", "g") }()
	out.until(t, "a\nb\n")
	if text := r.must(t, nil, "group", "describe", "g", "-o", "wide"); !strings.Contains(text, "g  classic, Stable, 1 member") || !strings.Contains(text, "t:0") {
		t.Error(text)
	}
	var stderr bytes.Buffer
	if code := r.run(nil, io.Discard, &stderr, "group", "reset", "g", "t", "--to", "start", "-y"); code != 1 || !strings.Contains(stderr.String(), "group g has 1 member, of which the first is grete on /127.0.0.1: stop them first") {
		t.Error(code, stderr.String())
	}
	member.signals <- os.Interrupt
	if code := <-ended; code != 0 || errs.String() != "" {
		t.Errorf("%d, %s", code, errs.String())
	}
	if text := r.must(t, nil, "group", "describe", "g"); !strings.Contains(text, "g  classic, Empty, 0 members, lag 0") {
		t.Error(text)
	}
}

// A signal ends a produce, which says how much is written; in a transaction nothing is.
func TestInterruptedProduce(t *testing.T) {
	for id, want := range map[string]string{
		"":  "grete: interrupted; 1 record of 1 that were read are written\n",
		"x": "grete: interrupted; the transaction of 1 record is aborted: nothing of it counts\n",
	} {
		r := newRig(startBroker(t, "PLAINTEXT", ""))
		r.must(t, nil, "topic", "create", "t", "-p", "1")
		input, feed := io.Pipe()
		defer feed.Close()
		args := []string{"produce", "t", "--print", "%v"}
		if id != "" {
			args = append(args, "--transactional-id", id)
		}
		var errs buffer
		ended := make(chan int, 1)
		go func() { ended <- r.run(input, io.Discard, &errs, args...) }()
		if _, err := io.WriteString(feed, "a\n"); err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(commandTimeout); ; time.Sleep(time.Millisecond) {
			if text := r.must(t, nil, "consume", "t", "-e", "--read-uncommitted"); strings.Contains(text, "a\n") {
				break
			} else if time.Now().After(deadline) {
				t.Fatal("nothing arrives")
			}
		}
		r.signals <- os.Interrupt
		if code := <-ended; code != 1 || errs.String() != want {
			t.Errorf("%q: %d, %s", id, code, errs.String())
		}
		if text := r.must(t, nil, "consume", "t", "-e"); (text == "a\n") != (id == "") {
			t.Errorf("%q: %q", id, text)
		}
	}
}

// A question is asked where somebody can answer it.
func TestQuestion(t *testing.T) {
	r := newRig(startBroker(t, "PLAINTEXT", ""))
	r.asks = true
	r.must(t, nil, "topic", "create", "t")
	var stderr bytes.Buffer
	if code := r.run(strings.NewReader("n\n"), io.Discard, &stderr, "topic", "delete", "t"); code != 1 || stderr.String() != "delete 1 topic with all records: t? [y/N] grete: nothing was done\n" {
		t.Errorf("%d, %q", code, stderr.String())
	}
	r.must(t, strings.NewReader("y\n"), "topic", "delete", "t")
	if text := r.must(t, nil, "topic", "list", "-o", "json"); text != "[]\n" {
		t.Error(text)
	}
}

// Shells complete names of the cluster.
func TestCompletion(t *testing.T) {
	r := newRig(startBroker(t, "PLAINTEXT", ""))
	r.must(t, nil, "topic", "create", "orders", "payments")
	r.must(t, nil, "group", "reset", "readers", "orders", "--to", "start", "-y")
	r.must(t, nil, "profile", "set", "here", "-b", "a:1", "-X", "client.id=x")
	for line, want := range map[string]string{
		"topic describe |": "orders\npayments\n", "topic describe orders |": "payments\n", "consume |": "orders\npayments\n", "group describe |": "readers\n",
		"config get topic |": "orders\npayments\n", "produce -z |": "none\ngzip\nsnappy\nlz4\nzstd\n", "profile use |": "here\n",
	} {
		args := append([]string{"__complete"}, strings.Fields(line)...)
		args[len(args)-1] = ""
		if text := r.must(t, nil, args...); !strings.HasPrefix(text, want+":") {
			t.Errorf("%s: %q", line, text)
		}
	}
}
