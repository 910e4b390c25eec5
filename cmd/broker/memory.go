package main

import (
	"math"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"sync"
	"time"

	"grete/internal/clock"
	"grete/internal/memory"
	"grete/internal/vfs"
)

const (
	mib = 1 << 20
	// runtimeShare of the limit, in percent, is the Go runtime's. The rest is for what it does not count, such as page
	// tables, and the page cache that a control group is charged for.
	runtimeShare = 90
	// As much garbage as a part of the limit may gather between two collections, at most gcMost and at least gcLeast
	// percent of what is live: what is live is small in most brokers, so that collections at the default rate would be
	// the larger cost.
	garbagePart     = 8
	mostGarbage     = 256 * mib
	gcMost, gcLeast = 400, 50
	// lookEvery is how often the pace is set anew. Every giveLooks looks, what the heap has beyond what is live goes
	// back to the system, if that is idleBytes more than last time and less than quietBytes were allocated meanwhile.
	lookEvery  = time.Second
	giveLooks  = 10
	idleBytes  = 96 * mib
	quietBytes = 64 * mib
)

// openLedger finds what this process may use. It limits the Go runtime to a part of it, unless GOMEMLIMIT does.
// requestBytes is queued.max.request.bytes.
func openLedger(files vfs.FS, env []string, requestBytes int64) *memory.Ledger {
	goLimit, own := int64(math.MaxInt64), isSet(env, "GOMEMLIMIT")
	if own {
		goLimit = debug.SetMemoryLimit(-1)
	}
	physical, known := memory.PhysicalBytes()
	if !known {
		physical = math.MaxInt64
	}
	limit := memory.Limit(files, physical, goLimit)
	if limit > 0 && !own {
		debug.SetMemoryLimit(limit / 100 * runtimeShare)
	}
	return memory.New(limit).WithRequests(requestBytes)
}

func isSet(env []string, name string) bool {
	for _, pair := range env {
		if strings.HasPrefix(pair, name+"=") {
			return true
		}
	}
	return false
}

// keeper sets the collector's pace, and gives back to the system what a burst has left.
type keeper struct {
	garbageBytes int64 // 0: GOGC sets the pace
	percent      int
	looks        int
	allocated    int64 // at the last look that could give
	left         int64 // idle after the last time
	samples      []metrics.Sample

	stop chan struct{}
	done sync.WaitGroup
}

// Indexes of keeper.samples.
const (
	liveSample = iota
	objectsSample
	freeSample
	unusedSample
	allocatedSample
)

// keepMemory starts a keeper.
func keepMemory(ledger *memory.Ledger, env []string, c clock.Clock) *keeper {
	k := &keeper{stop: make(chan struct{}), samples: []metrics.Sample{
		liveSample: {Name: "/gc/heap/live:bytes"}, objectsSample: {Name: "/memory/classes/heap/objects:bytes"},
		freeSample: {Name: "/memory/classes/heap/free:bytes"}, unusedSample: {Name: "/memory/classes/heap/unused:bytes"},
		allocatedSample: {Name: "/gc/heap/allocs:bytes"},
	}}
	if !isSet(env, "GOGC") {
		k.garbageBytes = min(ledger.LimitBytes()/garbagePart, mostGarbage)
	}
	k.look()
	k.done.Go(func() { k.run(c.NewTicker(lookEvery)) })
	return k
}

// Stop ends it.
func (k *keeper) Stop() {
	close(k.stop)
	k.done.Wait()
}

func (k *keeper) run(ticker clock.Ticker) {
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C():
			k.look()
		case <-k.stop:
			return
		}
	}
}

func (k *keeper) look() {
	metrics.Read(k.samples)
	if k.garbageBytes > 0 {
		k.setPace(gcPercent(k.garbageBytes, k.sample(liveSample)))
	}
	if k.looks++; k.looks%giveLooks != 0 {
		return
	}
	allocated := k.sample(allocatedSample)
	quiet := allocated-k.allocated < quietBytes
	k.allocated = allocated
	if quiet && k.idle() >= k.left+idleBytes {
		debug.FreeOSMemory()
		metrics.Read(k.samples)
		k.left = k.idle()
	}
	k.left = min(k.left, k.idle())
}

func (k *keeper) sample(i int) int64 { return int64(k.samples[i].Value.Uint64()) }

// idle is what the heap has and nothing live uses, as far as the system has not got it back.
func (k *keeper) idle() int64 {
	garbage := k.sample(objectsSample) - k.sample(liveSample)
	return max(garbage, 0) + k.sample(freeSample) + k.sample(unusedSample)
}

func (k *keeper) setPace(percent int) {
	if percent != k.percent {
		k.percent = percent
		debug.SetGCPercent(percent)
	}
}

// gcPercent is the pace that lets garbageBytes gather, in steps of a quarter, so that it is set seldom.
func gcPercent(garbageBytes, live int64) int {
	const step = 25
	percent := math.Ceil(float64(garbageBytes)*100/float64(max(live, 1))/step) * step
	return int(min(max(percent, gcLeast), gcMost))
}

// forgetStart gives back what the start has left behind: reading many logs makes several times the garbage of what
// stays, and the next collection may be hours away.
func forgetStart() { debug.FreeOSMemory() }
