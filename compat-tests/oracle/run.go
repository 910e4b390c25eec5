package oracle

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// parallelism is how many scenarios run at once: most of their time they wait.
const parallelism = 16

// Transcripts are what a run recorded, by scenario.
type Transcripts map[string][]Step

// RunAll runs scenarios against t: first the serial ones, then the others side by side.
func RunAll(t Target, scenarios []Scenario) Transcripts {
	out := Transcripts{}
	var mu sync.Mutex
	one := func(sc Scenario) {
		steps := Run(t, sc)
		mu.Lock()
		defer mu.Unlock()
		out[sc.Name] = steps
	}
	var parallel []Scenario
	for _, sc := range scenarios {
		if sc.Serial {
			one(sc)
		} else {
			parallel = append(parallel, sc)
		}
	}
	work := make(chan Scenario)
	var wg sync.WaitGroup
	for range parallelism {
		wg.Go(func() {
			for sc := range work {
				one(sc)
			}
		})
	}
	for _, sc := range parallel {
		work <- sc
	}
	close(work)
	wg.Wait()
	return out
}

// Run runs one scenario; every run has topic and group names of its own, all of the same length.
func Run(t Target, sc Scenario) []Step { return newSession(t, sc.Name, nextNonce()).run(sc) }

// nonces is how many runs have names of their own, on a broker that only this process talks to.
const nonces = 9000

var lastNonce = func() *atomic.Int64 { n := &atomic.Int64{}; n.Store(rand.Int64N(nonces)); return n }()

// nextNonce counts, from anywhere: drawn at random, two of a few hundred runs would meet now and then, and the second
// would find the first one's topics.
func nextNonce() string { return strconv.FormatInt(1000+lastNonce.Add(1)%nonces, 10) }

// Warm waits until the group coordinator serves every one of its partitions and the transaction coordinator has a
// topic: a cold broker answers 14, 15 or 16, and for how long is not what the scenarios are about.
func Warm(t Target) (err error) {
	s := newSession(t, "warm", "0000")
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("warm %s: %v", t.Name, r)
		}
		if s.setupConn != nil {
			s.setupConn.Close()
		}
	}()
	const groups = 40 // enough to meet each of few partitions
	for i := range groups {
		group := fmt.Sprintf("warm-%d", i)
		s.await(func() bool { return s.coordinatorReady(group) }, "group coordinator")
	}
	s.await(func() bool { return s.findsCoordinator("warm", coordinatesTransactions) }, "transaction coordinator")
	s.await(func() bool {
		return s.setup(4, initProducerID(nil)).(*kmsg.InitProducerIDResponse).ErrorCode == 0
	}, "producer ids")
	return nil
}

const (
	coordinatesGroups       = int8(0)
	coordinatesTransactions = int8(1)
)

func (s *Session) findsCoordinator(key string, kind int8) bool {
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.CoordinatorKey, req.CoordinatorType = key, kind
	return s.setup(3, req).(*kmsg.FindCoordinatorResponse).ErrorCode == 0
}

func (s *Session) coordinatorReady(group string) bool {
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Group = group
	return s.findsCoordinator(group, coordinatesGroups) && s.setup(5, req).(*kmsg.OffsetFetchResponse).ErrorCode == 0
}
