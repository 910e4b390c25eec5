package logstore

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"grete/internal/clock"
	"grete/internal/vfs"
)

// slow is a disk of which every fsync takes long, with a few logs to flush and what is said of it.
type slow struct {
	t     *testing.T
	disk  *vfs.Mem
	store *Store
	logs  []*Log

	mu    sync.Mutex
	lines bytes.Buffer
	took  []time.Duration
}

func newSlow(t *testing.T, logs int) *slow {
	s := &slow{t: t, disk: vfs.NewMem()}
	o := testOptions(s.disk)
	o.Clock, o.Log = clock.System, zerolog.New(s)
	o.OnFlush = func(d time.Duration) {
		s.mu.Lock()
		s.took = append(s.took, d)
		s.mu.Unlock()
	}
	s.store = openTest(t, o)
	for i := range logs {
		l, err := s.store.Create(ID{"topic", int32(i)}, [16]byte{1}, testConfig())
		must(t, err)
		s.logs = append(s.logs, l)
	}
	return s
}

// flush appends to a log and has it flushed, which ends on the channel.
func (s *slow) flush(log int) <-chan error {
	appendTest(s.t, s.logs[log], plain(s.t, 1, 10, time.Now().UnixMilli()))
	done := make(chan error, 1)
	s.logs[log].FlushAsync(s.logs[log].EndOffset(), func(err error) { done <- err })
	return done
}

// Write is the log's.
func (s *slow) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lines.Write(p)
}

// said returns the lines since it was last asked.
func (s *slow) said() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.lines.Reset()
	return s.lines.String()
}

// measured returns how long the flushes took that have ended since it was last asked. Closing the store flushes too: no
// lock is held until then.
func (s *slow) measured() []time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	took := s.took
	s.took = nil
	return took
}

func (s *slow) require(late int, lines ...string) {
	s.t.Helper()
	synctest.Wait()
	if got := s.store.Trouble().LateFlushes; got != late {
		s.t.Errorf("%d flushes are late, not %d", got, late)
	}
	said := s.said()
	if got := strings.Count(said, "\n"); got != len(lines) {
		s.t.Errorf("%d lines, not %d: %s", got, len(lines), said)
	}
	for _, line := range lines {
		if !strings.Contains(said, line) {
			s.t.Errorf("no %q in %q", line, said)
		}
	}
}

// A flush is told and counted while it is late, no sooner, and no longer; others that become late within ten seconds
// are counted in the next line.
func TestLateFlushesAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlow(t, 3)
		for i := range s.logs { // their first flushes make the files' names durable
			must(t, <-s.flush(i))
		}
		s.require(0)
		s.measured()
		const stall = 100 * time.Hour // of which a fsync takes a part that the seed chooses
		s.disk.SetPace(vfs.NewPace(clock.System, rand.NewPCG(1, 1), vfs.Delays{Sync: stall}))
		began := time.Now()
		first := s.flush(0)
		time.Sleep(lateFlush - 1)
		s.require(0)
		time.Sleep(time.Nanosecond)
		s.require(1, `"dir":"/data","log":"topic-0","after":2000,"message":"a flush to disk is late"`)
		second := s.flush(1)
		time.Sleep(lateFlush)
		s.require(2)
		time.Sleep(troubleLogEvery)
		third := s.flush(2)
		time.Sleep(lateFlush)
		s.require(3, `"suppressed":1,"dir":"/data","log":"topic-2"`)
		s.disk.SetPace(nil)
		for _, done := range []<-chan error{first, second, third} {
			must(t, <-done)
		}
		s.require(0)
		if took := s.measured(); len(took) != 3 || slices.Max(took) > time.Since(began) || slices.Max(took) < 3*lateFlush {
			t.Errorf("measured: %v", took)
		}
		must(t, s.store.Close())
	})
}
