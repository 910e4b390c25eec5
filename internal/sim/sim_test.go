package sim

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// play runs a world and returns what is wrong with it.
func play(t *testing.T, p plan) (wrong string, done figures) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, p)
		if wrong = w.run(); wrong != "" {
			wrong = fmt.Sprintf("seed %d, tempo %d, %v: %s\nthe last troubles:\n  %s", p.seed, p.tempo, p.lasts, wrong, strings.Join(w.notes, "\n  "))
		}
		done = w.done
		done.reassigned, done.packets = w.clients.reassigned.Load(), w.net.arrived.Load()
		done.handovers, done.commits = w.clients.owners.handovers, w.clients.owners.commits
	})
	return wrong, done
}

// number is that of an environment variable, or def.
func number(name string, def uint64) uint64 {
	if n, err := strconv.ParseUint(os.Getenv(name), 10, 64); err == nil {
		return n
	}
	return def
}

// few is the default run: an hour and more of worlds in half a minute.
var few = plan{tempo: 2, lasts: 10 * time.Minute}

// TestCluster plays SIM_SEEDS worlds, or the one of SIM_SEED, for SIM_SECONDS each at SIM_TEMPO.
func TestCluster(t *testing.T) {
	first, count := uint64(0), number("SIM_SEEDS", fewWorlds)
	if os.Getenv("SIM_SEED") != "" {
		first, count = number("SIM_SEED", 0), 1
	}
	var failed atomic.Bool
	for seed := first; seed < first+count; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			if failed.Load() {
				t.Skip("another world has failed")
			}
			wrong, done := play(t, plan{seed, int64(number("SIM_TEMPO", uint64(few.tempo))), time.Duration(number("SIM_SECONDS", uint64(few.lasts.Seconds()))) * time.Second})
			t.Logf("%+v", done)
			if wrong != "" {
				failed.Store(true)
				t.Fatal(wrong)
			}
		})
	}
}

// long are the worlds of the long target: of six hours each, with all times thirty times as long, so that what happens
// in an hour is what else happens in two minutes; what passes between is skipped.
var long = plan{tempo: 30, lasts: 6 * time.Hour}

// TestLong plays SIM_HOURS simulated hours, from the world of SIM_FIRST on, on all processors.
func TestLong(t *testing.T) {
	if os.Getenv("GRETE_LONG") == "" && os.Getenv("SIM_HOURS") == "" {
		t.Skip("GRETE_LONG=1 plays 10,000 simulated hours")
	}
	hours, first := number("SIM_HOURS", 10_000), number("SIM_FIRST", 1000)
	worlds := int64((time.Duration(hours)*time.Hour + long.lasts - 1) / long.lasts)
	var next, done atomic.Int64
	var mu sync.Mutex
	var total figures
	began := time.Now()
	for worker := range runtime.GOMAXPROCS(0) {
		t.Run(fmt.Sprint(worker), func(t *testing.T) {
			t.Parallel()
			for i := next.Add(1) - 1; i < worlds && !t.Failed(); i = next.Add(1) - 1 {
				p := long
				p.seed = first + uint64(i)
				wrong, figures := play(t, p)
				if wrong != "" {
					t.Error(wrong)
				}
				mu.Lock()
				total.add(figures)
				if n := done.Add(1); n%4 == 0 || n == worlds {
					fmt.Printf("%v of simulated time in %v: %+v\n", time.Duration(n)*long.lasts, time.Since(began).Round(time.Second), total)
				}
				mu.Unlock()
			}
		})
	}
}

func (f *figures) add(o figures) {
	f.steps += o.steps
	f.crashes += o.crashes
	f.powerLosses += o.powerLosses
	f.wipes += o.wipes
	f.lostDisks += o.lostDisks
	f.cuts += o.cuts
	f.jumps += o.jumps
	f.slanders += o.slanders
	f.halfJoins += o.halfJoins
	f.stops += o.stops
	f.failedFsyncs += o.failedFsyncs
	f.changes += o.changes
	f.tablesRead += o.tablesRead
	f.rowsGone += o.rowsGone
	f.slowDisks += o.slowDisks
	f.lacks += o.lacks
	f.unlooked += o.unlooked
	f.adopted += o.adopted
	f.reassigned += o.reassigned
	f.packets += o.packets
	f.handovers += o.handovers
	f.commits += o.commits
	f.Sends += o.Sends
	f.Acked += o.Acked
	f.Read += o.Read
	f.Committed += o.Committed
	f.Aborted += o.Aborted
	f.Copies += o.Copies
}
