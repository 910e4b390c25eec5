package faults

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	ossignal "os/signal"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"grete/compat-tests/kafka"
)

// load produces numbered values with acks=all over one connection each, until stop, and notes the acknowledged ones.
type load struct {
	topic string
	stop  atomic.Bool
	done  sync.WaitGroup
	mu    sync.Mutex
	acked map[string]int64 // value → offset
	sent  int
	fails int
	last  error
}

func startLoad(t *testing.T, b *kafka.Broker, topic string, opts ...kgo.Opt) *load {
	t.Helper()
	l := &load{topic: topic, acked: map[string]int64{}}
	cl := client(t, b, append([]kgo.Opt{kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0), kgo.RecordDeliveryTimeout(3 * time.Second), kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond })}, opts...)...)
	prefix := fmt.Sprintf("%d-", goodTopics.Add(1))
	l.done.Go(func() {
		for i := 0; !l.stop.Load(); i++ {
			value := fmt.Sprintf("%s%d", prefix, i)
			cl.Produce(context.Background(), &kgo.Record{Topic: topic, Value: []byte(value)}, func(r *kgo.Record, err error) {
				l.mu.Lock()
				defer l.mu.Unlock()
				if l.sent++; err != nil {
					l.fails, l.last = l.fails+1, err
				} else {
					l.acked[value] = r.Offset
				}
			})
			time.Sleep(200 * time.Microsecond)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		_ = cl.Flush(ctx) // in vain when the broker is gone
		cl.Close()
	})
	return l
}

// finish ends the load and returns what was acknowledged.
func (l *load) finish() map[string]int64 {
	l.stop.Store(true)
	l.done.Wait()
	return l.acked
}

func (l *load) ackedCount() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.acked)
}

// assertHolds reads the topic from the start: every acknowledged value is at its offset, once, and offsets have no
// hole.
func assertHolds(t *testing.T, b *kafka.Broker, topic string, acked map[string]int64) {
	t.Helper()
	end := latest(t, b, topic)
	if end == 0 && len(acked) == 0 {
		return
	}
	cl := client(t, b, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer cl.Close()
	seen, next := map[string]int64{}, int64(0)
	for ctx := within(t, patience); next < end; {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("at offset %d of %d: %v", next, end, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if r.Offset != next {
				t.Errorf("offset %d after %d", r.Offset, next-1)
			}
			next = r.Offset + 1
			if _, twice := seen[string(r.Value)]; twice {
				t.Errorf("%s is there twice", r.Value)
			}
			seen[string(r.Value)] = r.Offset
		})
	}
	lost := 0
	for value, offset := range acked {
		if at, ok := seen[value]; !ok || at != offset {
			lost++
		}
	}
	if lost > 0 {
		t.Errorf("%d of %d acknowledged records are lost or moved", lost, len(acked))
	}
}

// Killed in the middle of producing, several times: what was acknowledged is there, once, in order.
func TestKilledWhileProducing(t *testing.T) {
	dir := t.TempDir()
	rounds := 4
	if long {
		rounds = 40
	}
	all := map[string]int64{}
	for i := range rounds {
		b := startIn(t, dir, properties{"log.segment.bytes": "1048576"})
		if i == 0 {
			createTopic(t, b, "kept", 1, nil)
		}
		l := startLoad(t, b, "kept")
		waitFor(t, "some records", func() bool { return l.ackedCount() > 300 })
		if err := b.Kill(); err != nil {
			t.Fatal(err)
		}
		for value, offset := range l.finish() {
			all[value] = offset
		}
	}
	b := startIn(t, dir, nil)
	assertHolds(t, b, "kept", all)
	assertServes(t, b)
}

// SIGTERM while producing: what was acknowledged is there, the stop is clean, quick, and says so.
func TestStoppedWhileProducing(t *testing.T) {
	dir := t.TempDir()
	b := startIn(t, dir, nil)
	createTopic(t, b, "kept", 1, nil)
	l := startLoad(t, b, "kept")
	waitFor(t, "some records", func() bool { return l.ackedCount() > 300 })
	began := time.Now()
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("stopping took %v", took)
	}
	if b.ExitCode() != 0 {
		t.Errorf("exit code %d", b.ExitCode())
	}
	if _, err := os.Stat(filepath.Join(dir, "data", ".kafka_cleanshutdown")); err != nil {
		t.Errorf("no mark of a clean stop: %v", err)
	}
	acked := l.finish()
	b = startIn(t, dir, nil)
	if strings.Contains(logOf(b), `"warn"`) {
		t.Errorf("the start after a clean stop has warnings:\n%s", logOf(b))
	}
	assertHolds(t, b, "kept", acked)
}

// The end of a terminal is a clean stop, as it is for the JVM.
func TestHangUp(t *testing.T) {
	hangUps := make(chan os.Signal, 1) // a program under nohup ignores them, and so does what it starts, unless it handles them
	ossignal.Notify(hangUps, syscall.SIGHUP)
	defer ossignal.Stop(hangUps)
	dir := t.TempDir()
	b := startIn(t, dir, nil)
	createTopic(t, b, "kept", 1, nil)
	signal(t, b, syscall.SIGHUP)
	select {
	case <-b.Done():
	case <-time.After(patience):
		t.Fatal("still running")
	}
	if b.ExitCode() != 0 || !strings.Contains(logOf(b), `"stopped"`) {
		t.Errorf("exit code %d:\n%s", b.ExitCode(), logOf(b))
	}
	if _, err := os.Stat(filepath.Join(dir, "data", ".kafka_cleanshutdown")); err != nil {
		t.Errorf("no mark of a clean stop: %v", err)
	}
}

// A second signal stops at once, whatever is parked.
func TestTwoSignals(t *testing.T) {
	b := start(t, nil)
	signal(t, b, syscall.SIGTERM)
	signal(t, b, syscall.SIGTERM)
	select {
	case <-b.Done():
	case <-time.After(patience):
		t.Fatal("still running")
	}
}

// Paused longer than clients wait, then woken: requests of before are answered, nothing is lost.
func TestPaused(t *testing.T) {
	b := start(t, nil)
	createTopic(t, b, "kept", 1, nil)
	l := startLoad(t, b, "kept", kgo.RecordDeliveryTimeout(30*time.Second))
	waitFor(t, "some records", func() bool { return l.ackedCount() > 100 })
	for range 3 {
		signal(t, b, syscall.SIGSTOP)
		time.Sleep(700 * time.Millisecond)
		signal(t, b, syscall.SIGCONT)
		n := l.ackedCount()
		waitFor(t, "records after the pause", func() bool { return l.ackedCount() > n+100 })
	}
	acked := l.finish()
	if l.fails > 0 {
		t.Errorf("%d records failed: %v", l.fails, l.last)
	}
	assertHolds(t, b, "kept", acked)
}

// smallDisk mounts a tmpfs of that size.
func smallDisk(t *testing.T, sizeBytes int) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("mounting a small disk needs root")
	}
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", sizeBytes)); err != nil {
		t.Skipf("mounting a small disk: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	return dir
}

// fill takes all space of a directory's volume, but for leave bytes.
func fill(t *testing.T, dir string, leave int) (free func()) {
	t.Helper()
	name := filepath.Join(dir, "filler")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	size := int64(0)
	for block := make([]byte, 64<<10); ; {
		n, err := f.Write(block)
		size += int64(n)
		if err != nil {
			break
		}
	}
	if err := f.Truncate(max(0, size-int64(leave))); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
}

// A full disk: producers get errors and no false acknowledgement; topics cannot be made; once there is space again all
// goes on without a restart.
func TestDiskFull(t *testing.T) {
	disk := smallDisk(t, 24<<20)
	b := startIn(t, disk, properties{"request.timeout.ms": "2000"})
	createTopic(t, b, "kept", 1, nil)
	assertServes(t, b)
	l := startLoad(t, b, "kept", kgo.DisableIdempotentWrite(), kgo.RecordRetries(0), kgo.MaxBufferedRecords(100))
	waitFor(t, "some records", func() bool { return l.ackedCount() > 100 })
	free := fill(t, disk, 0)
	waitFor(t, "errors", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.fails > 50
	})
	t.Logf("while the disk is full: %v", l.last)
	t.Logf("creating a topic: error %d", tryCreateTopic(t, b, "hungry", 4, nil))
	for i := range 100 { // until the metadata log has no room left in its last page
		if code := tryCreateTopic(t, b, fmt.Sprintf("hungry-%d", i), 50, nil); code != 0 {
			t.Logf("creating topic %d: error %d", i, code)
			break
		}
	}
	nc := dial(t, b)
	p := produceTo(t, nc, "kept", goodBatch(make([]byte, 200_000)).bytes())
	if p.ErrorCode == 0 {
		t.Error("a record is acknowledged that cannot have been stored")
	}
	free()
	n := l.ackedCount()
	waitFor(t, "records after there is space", func() bool { return l.ackedCount() > n+100 })
	acked := l.finish()
	waitFor(t, "topics to be made again", func() bool { return tryCreateTopic(t, b, "fed", 4, nil) == 0 })
	assertServes(t, b)
	if tryCreateTopic(t, b, "hungry", 4, nil) == topicAlreadyExists {
		waitFor(t, "the topic that was made meanwhile to work", func() bool {
			return produceTo(t, nc, "hungry", goodBatch([]byte("v")).bytes()).ErrorCode == 0
		})
	}
	// Values that failed may be there all the same; acknowledged ones must be.
	assertHolds(t, b, "kept", acked)
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	b = startIn(t, disk, nil)
	assertHolds(t, b, "kept", acked)
}

// The disk is full from the start.
func TestStartOnFullDisk(t *testing.T) {
	disk := smallDisk(t, 8<<20)
	b := startIn(t, disk, nil)
	createTopic(t, b, "kept", 1, nil)
	nc := dial(t, b)
	produceTo(t, nc, "kept", goodBatch([]byte("v")).bytes())
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	free := fill(t, disk, 0)
	code, out := runUntilExit(t, 3*time.Second, "--data-dir", filepath.Join(disk, "data"))
	t.Logf("code %d: %s", code, lastLines(out, 3))
	free()
	b = startIn(t, disk, nil)
	assertHolds(t, b, "kept", map[string]int64{"v": 0})
	assertServes(t, b)
}

// runUntilExit runs the broker on a free port and returns its exit code and what it wrote; -1 when it went on running
// for d.
func runUntilExit(t *testing.T, d time.Duration, args ...string) (code int, out string) {
	t.Helper()
	bin, err := kafka.GreteBin()
	kafka.SkipOrFail(t, err)
	var b bytes.Buffer
	cmd := exec.Command(bin, append([]string{"serve", "--listen", "127.0.0.1:0", "--set", "admin.listen="}, args...)...)
	cmd.Stdout, cmd.Stderr = &b, &b
	cmd.Dir = t.TempDir()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	select {
	case <-ended:
		return cmd.ProcessState.ExitCode(), b.String()
	case <-time.After(d):
		_ = cmd.Process.Signal(syscall.SIGTERM)
		<-ended
		return -1, b.String()
	}
}

// lineCount is the lines of out that are not of the log.
func lineCount(out string) int {
	n := 0
	for s := bufio.NewScanner(strings.NewReader(out)); s.Scan(); {
		if !strings.HasPrefix(s.Text(), "{") {
			n++
		}
	}
	return n
}
