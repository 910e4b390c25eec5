package coordinator

import (
	"testing"
	"time"
)

// TestLaterLetsRequestsIn: work in slices takes a round for each, and requests that came meanwhile run between them.
func TestLaterLetsRequestsIn(t *testing.T) {
	b := newBench(t)
	const slices = 5
	done, between := 0, make(chan int, 1)
	over := make(chan struct{})
	var slice func(*Tx)
	slice = func(tx *Tx) {
		if done++; done == slices {
			close(over)
			return
		}
		if done == 1 {
			b.rt.Submit(0, Op[*ledger]{Run: func(*ledger, *Tx) { between <- done }, Refuse: func(err error) { t.Error(err) }})
		}
		tx.Later("", slice)
	}
	b.rt.Submit(0, Op[*ledger]{Run: func(_ *ledger, tx *Tx) { slice(tx) }, Refuse: func(err error) { t.Error(err) }})
	await(t, over)
	if n := <-between; n >= slices {
		t.Errorf("the request ran after %d slices of %d", n, slices)
	}
}

// TestLaterEndsWithLeadership: what was to run later is dropped with the shard.
func TestLaterEndsWithLeadership(t *testing.T) {
	b := newBench(t)
	ran := false
	err := b.do("", func(_ *ledger, tx *Tx) {
		b.rt.Resign(0, 1)
		tx.Later("", func(*Tx) { ran = true })
	})
	b.rt.Close()
	if ran {
		t.Errorf("it ran after the leadership had ended (%v)", err)
	}
}

// TestBackgroundIsNotTheSubmitters: the goroutine that submits a background operation does not run it.
func TestBackgroundIsNotTheSubmitters(t *testing.T) {
	b := newBench(t)
	hold, ran := make(chan struct{}), make(chan struct{})
	b.rt.Submit(0, Op[*ledger]{
		Run:        func(*ledger, *Tx) { <-hold; close(ran) },
		Refuse:     func(err error) { t.Error(err) },
		Background: true,
	}) // would wait for itself
	close(hold)
	await(t, ran)
}

func await(t *testing.T, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(10 * time.Second):
		t.Fatal("does not end")
	}
}
