package group

import (
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/coordinator"
)

func (r *rig) heartbeatCode() int16 {
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group, req.MemberID = "g", "m"
	code := make(chan int16, 1)
	r.s.Heartbeat(req, func(c int16) { code <- c })
	return <-code
}

// Only a shard that loads keeps its members whatever they send. One that is overloaded does not: its members must know
// that their heartbeat was not taken.
func TestRefusedHeartbeat(t *testing.T) {
	r := newRig(t, DefaultConfig())
	r.log.Hold()
	r.s.rt.Submit(0, op{Run: func(_ *shard, tx *coordinator.Tx) {
		tx.Append(groupMetadataKey("filler"), nil)
		for range 1 << 15 {
			tx.Reply(func(error) {})
		}
	}, Refuse: func(err error) { t.Error(err) }})
	for n, refused := 0, error(nil); !errors.Is(refused, coordinator.ErrOverloaded); n++ {
		if n == 5000 {
			t.Fatal("not overloaded")
		}
		probe := make(chan error, 1)
		r.s.rt.Submit(0, op{Run: func(*shard, *coordinator.Tx) { probe <- nil }, Refuse: func(err error) { probe <- err }})
		refused = <-probe
		time.Sleep(time.Millisecond)
	}
	if got := r.heartbeatCode(); got != kerr.CoordinatorNotAvailable.Code {
		t.Errorf("an overloaded shard answers %d", got)
	}
	r.log.Commit()
	for err, want := range map[error]int16{
		coordinator.ErrLoading: 0, coordinator.ErrNotCoordinator: kerr.NotCoordinator.Code, coordinator.ErrClosed: kerr.CoordinatorNotAvailable.Code,
	} {
		if got := refusedHeartbeat(err); got != want {
			t.Errorf("%v: %d, want %d", err, got, want)
		}
	}
}
