package logstore

import (
	"errors"
	"os"
	"path"
	"strings"
	"syscall"
	"testing"
	"time"

	"grete/internal/clock"
	"grete/internal/vfs"
	"grete/protocol/batch"
)

// scrubbed is a store whose damage the test hears of.
type scrubbed struct {
	*Store
	fs   *vfs.Mem
	log  *Log
	told []Damage
}

func newScrubbed(t testing.TB, batches int) *scrubbed {
	t.Helper()
	x := &scrubbed{fs: vfs.NewMem()}
	o := testOptions(x.fs)
	o.Scrub.MaxBytesPerSecond = 1e12
	o.OnDamage = func(d Damage) { x.told = append(x.told, d) }
	x.Store = openTest(t, o)
	t.Cleanup(func() { _ = x.Close() })
	x.log = createTest(t, x.Store, testConfig())
	for range batches {
		appendTest(t, x.log, plain(t, 3, 20, 1000))
	}
	flushTest(t, x.log)
	return x
}

func (x *scrubbed) scrub() []Damage {
	x.told = nil
	x.scrubber.round()
	return x.told
}

func (x *scrubbed) file(s *segment) string {
	return path.Join(testDir, testID.String(), fileName(s.base, logSuffix))
}

// flip alters a byte of a segment's file.
func (x *scrubbed) flip(t testing.TB, s *segment, pos int64) {
	t.Helper()
	f, err := x.fs.OpenFile(x.file(s), os.O_RDWR, 0)
	must(t, err)
	defer f.Close()
	var b [1]byte
	_, err = f.ReadAt(b[:], pos)
	must(t, err)
	b[0] ^= 0x10
	_, err = f.WriteAt(b[:], pos)
	must(t, err)
}

// readAll reads on from 0 and steps over what is damaged. It returns the offsets that were read and those that were
// refused.
func readAll(t testing.TB, l *Log, damage []Damage) (read, refused map[int64]bool) {
	t.Helper()
	read, refused = map[int64]bool{}, map[int64]bool{}
	for at := int64(0); at < l.EndOffset(); {
		span, err := l.Read(at, ReadOptions{MaxBytes: 1 << 20, Bound: l.EndOffset(), MinOneBatch: true})
		if errors.Is(err, ErrCorrupt) {
			next := at + 1
			for _, d := range damage {
				if at >= d.From && at < d.To {
					next = d.To
				}
			}
			for ; at < next; at++ {
				refused[at] = true
			}
			continue
		}
		must(t, err)
		raw, err := span.ReadAll()
		must(t, err)
		span.Release()
		for rest := raw; len(rest) > 0; {
			b, after, err := batch.Next(rest)
			must(t, err)
			rest = after
			if !b.ChecksumOK() {
				t.Fatalf("a damaged batch at %d was served", b.BaseOffset())
			}
			for o := b.BaseOffset(); o <= b.LastOffset(); o++ {
				read[o] = true
			}
			at = b.LastOffset() + 1
		}
	}
	return read, refused
}

// Whichever byte of a batch is altered: the records of that batch are refused, all others can be read.
func TestDamageOfEveryByte(t *testing.T) {
	x := newScrubbed(t, 100)
	s := x.log.settled()[1]
	victim, err := s.locate(s.base + 12)
	must(t, err)
	step := int64(1)
	if testing.Short() {
		step = 7
	}
	for at := int64(0); at < victim.size; at += step {
		if at >= 8+4 && at < 16 {
			continue // the leader epoch, which no checksum covers
		}
		x.flip(t, s, victim.pos+at)
		damage := x.scrub()
		if len(damage) == 0 {
			t.Fatalf("byte %d: nothing was found", at)
		}
		if damage[0].From != victim.baseOffset || damage[0].Log != x.log {
			t.Fatalf("byte %d: %+v, want from %d", at, damage, victim.baseOffset)
		}
		read, refused := readAll(t, x.log, damage)
		if len(read)+len(refused) != 300 || !refused[victim.baseOffset] || len(refused) > 60 {
			t.Fatalf("byte %d: %d read, %d refused, %+v", at, len(read), len(refused), damage)
		}
		if at >= 21 && len(refused) != 3 { // the length is good, and so is what follows
			t.Fatalf("byte %d: %d refused", at, len(refused))
		}
		x.flip(t, s, victim.pos+at)
		if again := x.scrub(); len(again) != 0 || x.ScrubStats().DamagedSegments != 0 {
			t.Fatalf("byte %d: it is good again, and still counts as damaged", at)
		}
	}
}

// What recovery reads is not read, nor what is written to.
func TestScrubberLeavesTheTailAlone(t *testing.T) {
	x := newScrubbed(t, 100)
	x.flip(t, x.log.active(), 70)
	segments := x.log.segments()
	x.log.recovery.Store(segments[3].base)
	x.flip(t, segments[3], 70)
	if damage := x.scrub(); len(damage) != 0 {
		t.Errorf("%+v", damage)
	}
	x.flip(t, segments[2], 70)
	if damage := x.scrub(); len(damage) != 1 {
		t.Errorf("%+v", damage)
	}
}

// A sector that cannot be read is damage like any other. Everything else goes on.
func TestUnreadableSector(t *testing.T) {
	x := newScrubbed(t, 0)
	faulty := vfs.NewFaulty(vfs.NewMem())
	o := testOptions(faulty)
	o.Scrub.MaxBytesPerSecond = 1e12
	o.OnDamage = func(d Damage) { x.told = append(x.told, d) }
	x.Store = openTest(t, o)
	l := createTest(t, x.Store, testConfig())
	for range 100 {
		appendTest(t, l, plain(t, 3, 20, 1000))
	}
	flushTest(t, l)
	bad := path.Base(x.file(l.settled()[1]))
	faulty.Inject(vfs.FailMatching(func(op vfs.Op) bool { return op.Kind == vfs.OpRead && strings.HasSuffix(op.Name, bad) }, syscall.EIO))
	damage := x.scrub()
	if len(damage) != 1 || damage[0].From != l.settled()[1].base || damage[0].To != l.settled()[2].base || !errors.Is(damage[0].Err, syscall.EIO) {
		t.Errorf("%+v", damage)
	}
	if read, refused := readAll(t, l, damage); len(read)+len(refused) != 300 || len(refused) != int(damage[0].To-damage[0].From) {
		t.Errorf("%d read, %d refused", len(read), len(refused))
	}
}

// A damaged log is cut where the damage begins, and is whole again with what is appended then.
func TestTruncationAtDamage(t *testing.T) {
	x := newScrubbed(t, 100)
	want := readBatches(t, x.log, 0, 300)
	s := x.log.settled()[1]
	victim, err := s.locate(s.base + 12)
	must(t, err)
	x.flip(t, s, victim.pos+100)
	damage := x.scrub()
	must(t, x.log.TruncateTo(damage[0].From))
	if end := x.log.EndOffset(); end != victim.baseOffset {
		t.Fatalf("cut at %d, want %d", end, victim.baseOffset)
	}
	for _, b := range want {
		if b.BaseOffset() >= victim.baseOffset {
			must(t, x.log.AppendAsFollower(b))
		}
	}
	flushTest(t, x.log)
	if damage := x.scrub(); len(damage) != 0 {
		t.Errorf("%+v", damage)
	}
	if read, refused := readAll(t, x.log, nil); len(read) != 300 || len(refused) != 0 {
		t.Errorf("%d read, %d refused", len(read), len(refused))
	}
}

// Damage below the log's start is nobody's loss.
func TestDamageOfDeletedRecords(t *testing.T) {
	x := newScrubbed(t, 100)
	s := x.log.segments()[0]
	x.flip(t, s, 70)
	x.log.SetHighWatermark(300)
	must(t, x.log.AdvanceStart(s.base+20))
	if damage := x.scrub(); len(damage) != 0 {
		t.Errorf("%+v", damage)
	}
}

// Truncation while a segment is read must not look like damage.
func TestScrubberAgainstTruncation(t *testing.T) {
	x := newScrubbed(t, 0)
	done := make(chan bool)
	go func() {
		defer close(done)
		for range 40 {
			for range 40 {
				_, _ = x.log.Append(plain(t, 2, 30, 1000), 0)
			}
			_ = flush(x.log, x.log.EndOffset())
			_ = x.log.TruncateTo(x.log.EndOffset() / 3)
		}
	}()
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		if damage := x.scrub(); len(damage) != 0 {
			t.Fatalf("%+v", damage)
		}
	}
}

// The rate is kept, and the end of the store ends a round. Logs to be skipped are.
func TestScrubberKeepsItsRate(t *testing.T) {
	const rate = 10_000
	ticks := clock.NewManual(time.UnixMilli(1_000_000))
	o := testOptions(vfs.NewMem())
	o.Clock = ticks
	o.Scrub = ScrubConfig{Interval: time.Minute, MaxBytesPerSecond: rate, Skip: func(id ID) bool { return id != testID }}
	s := openTest(t, o)
	l := createTest(t, s, testConfig())
	other, err := s.Create(ID{"skipped", 0}, [16]byte{2}, testConfig())
	must(t, err)
	for range 400 {
		appendTest(t, l, plain(t, 3, 20, 1000))
		appendTest(t, other, plain(t, 3, 20, 1000))
	}
	flushTest(t, l)
	flushTest(t, other)
	for range 60 {
		ticks.Advance(time.Second)
	}
	total := int64(0)
	for _, seg := range l.settled() {
		total += seg.size.Load()
	}
	for began, deadline := ticks.Now(), time.Now().Add(10*time.Second); s.ScrubStats().Bytes < total; time.Sleep(100 * time.Microsecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d bytes", s.ScrubStats().Bytes, total)
		}
		ticks.Advance(5 * time.Millisecond)
		passed := ticks.Now().Sub(began).Seconds()
		if got := float64(s.ScrubStats().Bytes); got > rate*(passed+0.1)+scrubChunkBytes/50 {
			t.Fatalf("%v bytes in %v s", got, passed)
		}
	}
	must(t, s.Close())
	if got := s.ScrubStats().Bytes; got > total+total/2 {
		t.Errorf("%d bytes of %d were read", got, total)
	}
}
