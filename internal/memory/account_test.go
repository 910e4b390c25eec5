package memory

import (
	"testing"
	"testing/synctest"
)

func TestSharesAreOfTheLimit(t *testing.T) {
	for _, limit := range []int64{64 * mib, 512 * mib, 24 << 30} {
		var sum int64
		for _, a := range New(limit).Accounts() {
			if a.ShareBytes() <= 0 {
				t.Errorf("%s has no share of %d", a.Name(), limit)
			}
			sum += a.ShareBytes()
		}
		if sum > limit/10*7 {
			t.Errorf("shares of %d take %d; what is not lent, and garbage, need the rest", limit, sum)
		}
	}
	l := New(512 * mib)
	if got := l.WithRequests(1 << 40).Requests.ShareBytes(); got != 256*mib {
		t.Errorf("requests got %d", got)
	}
	if l.WithRequests(0) != l || l.WithRequests(77).Requests.ShareBytes() != 77 {
		t.Error("queued.max.request.bytes does not set the share")
	}
}

// Loans that all want more than there is advance one at a time, and the share is exceeded by one of them at most.
func TestOneLoanIsElected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const share, whole, loans = 100, 90, 20
		a := &Account{share: share}
		done := make(chan int64, loans)
		for range loans {
			go func() {
				l := Loan{account: a}
				for l.Bytes() < whole {
					if !l.Grow(10, nil, nil) {
						t.Error("a loan was refused")
					}
				}
				done <- a.UsedBytes()
				l.Return()
			}()
		}
		for range loans {
			if used := <-done; used > share+whole {
				t.Errorf("%d bytes were lent of %d", used, share)
			}
		}
		synctest.Wait()
		if a.UsedBytes() != 0 || a.Waiting() != 0 || a.elected {
			t.Errorf("in the end %d bytes are lent, %d wait, elected %v", a.UsedBytes(), a.Waiting(), a.elected)
		}
	})
}

func TestGivenUpWaitMakesRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &Account{share: 100}
		held, first, second := Loan{account: a}, Loan{account: a}, Loan{account: a}
		held.Grow(60, nil, nil)
		stop, gone := make(chan struct{}), make(chan struct{})
		got := make(chan bool, 2)
		go func() { got <- first.Grow(70, stop, nil) }()
		synctest.Wait()
		go func() { got <- second.Grow(40, nil, gone) }()
		synctest.Wait()
		if a.Take(1) {
			t.Error("one overtook the waiting")
		}
		close(stop)
		if <-got {
			t.Error("the first got what there is not")
		}
		if !<-got {
			t.Error("the second did not get what there is")
		}
		second.Shrink(10)
		if second.Return(); a.UsedBytes() != 60 {
			t.Errorf("%d bytes are lent", a.UsedBytes())
		}
	})
}
