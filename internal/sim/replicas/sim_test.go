package replicas

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"grete/internal/sched"
)

// mutation is a fault of the program, played.
type mutation string

const (
	none               mutation = ""
	skipDivergence     mutation = "followers do not say which epoch they fetched last"
	commitEarly        mutation = "the high watermark moves with the leader's log"
	takeBack           mutation = "a high watermark goes back"
	electAnybody       mutation = "leaders are elected from all replicas"
	leaderOutOfISR     mutation = "a leader is not in the ISR"
	forgetBrokerEpochs mutation = "a restarted broker joins an ISR with what its former life had fetched"
	acknowledgeEarly   mutation = "acks=all is answered as acks=1"
	twoLeaders         mutation = "two brokers lead at one epoch"
	alterRecords       mutation = "records change on their way"
)

// mutations says which invariants' checks may find them.
var mutations = map[mutation]string{
	skipDivergence: "1356", commitEarly: "1456", takeBack: "4", electAnybody: "1456", leaderOutOfISR: "2",
	forgetBrokerEpochs: "1456", acknowledgeEarly: "6", twoLeaders: "12356", alterRecords: "135",
}

func play(t *testing.T, seed uint64, m mutation, steps int) (wrong string) {
	sched.PauseOnContention(func() { time.Sleep(100 * time.Microsecond) })
	defer sched.PauseOnContention(nil)
	synctest.Test(t, func(t *testing.T) { wrong = newWorld(t, seed, m).run(steps) })
	return wrong
}

// seeds are SIM_SEEDS, or few; SIM_SEED plays one.
func seeds(few int) (first, last uint64) {
	if one, err := strconv.ParseUint(os.Getenv("SIM_SEED"), 10, 64); err == nil {
		return one, one + 1
	}
	if n, err := strconv.Atoi(os.Getenv("SIM_SEEDS")); err == nil {
		return 0, uint64(n)
	}
	return 0, uint64(few)
}

func TestReplication(t *testing.T) {
	first, last := seeds(10)
	for seed := first; seed < last; seed++ {
		if wrong := play(t, seed, none, 150); wrong != "" {
			t.Fatalf("seed %d: %s", seed, wrong)
		}
	}
}

func TestMutationsAreFound(t *testing.T) {
	for m, invariants := range mutations {
		t.Run(string(m), func(t *testing.T) {
			for seed := range uint64(60) {
				wrong := play(t, seed, m, 150)
				if wrong == "" || strings.HasPrefix(wrong, "healed") {
					continue
				}
				_, what, _ := strings.Cut(wrong, ": ")
				if !strings.Contains(invariants, what[:1]) {
					t.Fatalf("seed %d: %s", seed, wrong)
				}
				return
			}
			t.Error("not found")
		})
	}
}
