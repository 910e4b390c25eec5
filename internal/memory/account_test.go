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

// A loan that was elected and holds nothing any more leaves its place to the next, whichever way it came to hold
// nothing.
func TestElectedLoanThatHoldsNothing(t *testing.T) {
	for name, end := range map[string]func(*Loan){
		"returned":           (*Loan).Return,
		"shrunk":             func(l *Loan) { l.Shrink(0) },
		"shrunk, returned":   func(l *Loan) { l.Shrink(0); l.Return() },
		"shrunk in two":      func(l *Loan) { l.Shrink(50); l.Shrink(0) },
		"shrunk to below it": func(l *Loan) { l.Shrink(-1) },
	} {
		synctest.Test(t, func(t *testing.T) {
			a := &Account{share: 100}
			first, second := Loan{account: a}, Loan{account: a}
			if !first.Grow(200, nil, nil) {
				t.Fatalf("%s: the first was refused", name)
			}
			gone, got := make(chan struct{}), make(chan bool, 1)
			go func() { got <- second.Grow(200, nil, gone) }()
			synctest.Wait()
			end(&first)
			synctest.Wait()
			close(gone)
			if !<-got {
				t.Errorf("%s: the second still waits", name)
			}
			second.Return()
			if a.UsedBytes() != 0 || a.elected {
				t.Errorf("%s: in the end %d bytes are lent, elected %v", name, a.UsedBytes(), a.elected)
			}
		})
	}
}

// What is forced comes and goes without an end: a loan of more than the share does not wait for a moment without any.
func TestLoanBeyondTheShareDoesNotStarve(t *testing.T) {
	a := &Account{share: 100}
	a.Force(10)
	l, stop := Loan{account: a}, make(chan struct{})
	close(stop)
	if !l.Grow(200, stop, nil) {
		t.Fatal("it waits for an account that is at rest")
	}
	l.Return()
	if a.Give(10); a.UsedBytes() != 0 || a.Waiting() != 0 {
		t.Errorf("in the end %d bytes are lent, %d wait", a.UsedBytes(), a.Waiting())
	}
}
