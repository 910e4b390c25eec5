package memory

import (
	"sync/atomic"

	"grete/internal/sched"
)

// Account is one borrower's share of the ledger. Taking within the share costs one atomic operation. Beyond it, Take
// refuses and Grow waits in order.
//
// Loans that wait for more hold what they have. When all that is lent, but for a part in calmPart of the share, belongs
// to loans that wait, the first of them is elected: it may go beyond the share until it is returned. That part is there
// because what is forced may come and go without an end. At most one loan is elected, so that the share is exceeded by
// one request at most, and some request always advances.
type Account struct {
	name  string
	share int64
	used  atomic.Int64

	holders atomic.Int64 // among whom the share is divided, as Crowded does

	waiting atomic.Int32 // len(queue), read without the lock

	mu          sched.Mutex
	queue       []*waiter
	waitersHold int64
	elected     bool
}

type waiter struct {
	loan  *Loan
	n     int64
	ready chan struct{}
}

const calmPart = 4

// Name is the borrower's, as the metrics show it.
func (a *Account) Name() string { return a.name }

// ShareBytes is what the borrower may hold.
func (a *Account) ShareBytes() int64 { return a.share }

// UsedBytes is what the borrower holds.
func (a *Account) UsedBytes() int64 { return a.used.Load() }

// Waiting is how many loans wait for more.
func (a *Account) Waiting() int { return int(a.waiting.Load()) }

// Take takes n bytes if the share has them and no loan waits.
func (a *Account) Take(n int64) bool { return a.waiting.Load() == 0 && a.take(n) }

func (a *Account) take(n int64) bool {
	for {
		used := a.used.Load()
		if used+n > a.share {
			return false
		}
		if a.used.CompareAndSwap(used, used+n) {
			return true
		}
	}
}

// Has says whether the share has n bytes now; that of a nil account always has.
func (a *Account) Has(n int64) bool { return a == nil || a.used.Load()+n <= a.share }

// Holders counts holders that come, or go where more is negative, and tells how many there are.
func (a *Account) Holders(more int64) int64 { return a.holders.Add(more) }

// Crowded says whether a holder of heldBytes has to give some back before it takes n more: the share lacks them, and
// the holder has its even part of it.
func (a *Account) Crowded(heldBytes, n int64) bool {
	return !a.Has(n) && heldBytes >= a.share/max(a.holders.Load(), 1)
}

// Force takes n bytes, beyond the share if need be. It is for what exists already, and for the cluster's own work.
func (a *Account) Force(n int64) { a.used.Add(n) }

// Change takes n bytes, beyond the share if need be, or returns -n; a nil account counts nothing.
func (a *Account) Change(n int64) {
	switch {
	case a == nil:
	case n > 0:
		a.Force(n)
	case n < 0:
		a.Give(-n)
	}
}

// Give returns n bytes.
func (a *Account) Give(n int64) {
	a.used.Add(-n)
	if a.waiting.Load() > 0 {
		a.mu.Lock()
		a.admit()
		a.mu.Unlock()
	}
}

// Lend takes n bytes, waiting for them; back returns them. Who borrows so may wait for nothing else meanwhile.
func (a *Account) Lend(n int64) (back func()) {
	l := &Loan{account: a}
	l.Grow(n, nil, nil)
	return l.Return
}

// Loan is what one request holds of an account. Its owner uses it from one goroutine at a time, and may move it by
// copying.
type Loan struct {
	account *Account
	bytes   int64
	elected bool
}

// Bytes is what the loan holds.
func (l *Loan) Bytes() int64 { return l.bytes }

// From makes the loan one of a; it must hold nothing.
func (l *Loan) From(a *Account) { l.account = a }

// Account is where the loan is from, nil before From.
func (l *Loan) Account() *Account { return l.account }

// TryGrow takes n more bytes if that needs no wait.
func (l *Loan) TryGrow(n int64) bool {
	switch {
	case l.elected:
		l.account.Force(n)
	case !l.account.Take(n):
		return false
	}
	l.bytes += n
	return true
}

// Force takes n more bytes, beyond the share if need be.
func (l *Loan) Force(n int64) {
	l.account.Force(n)
	l.bytes += n
}

// Grow takes n more bytes, and waits for them; false when stop or gone was closed first.
func (l *Loan) Grow(n int64, stop, gone <-chan struct{}) bool {
	if l.TryGrow(n) {
		return true
	}
	w := l.account.enqueue(l, n)
	select {
	case <-w.ready:
	case <-stop:
		if l.account.giveUp(w) {
			return false
		}
	case <-gone:
		if l.account.giveUp(w) {
			return false
		}
	}
	l.bytes += n
	return true
}

// Shrink returns what the loan has beyond n bytes. One that holds nothing afterwards is as returned.
func (l *Loan) Shrink(n int64) {
	if n <= 0 {
		l.Return()
		return
	}
	if back := l.bytes - n; back > 0 {
		l.bytes = n
		l.account.Give(back)
	}
}

// Return gives everything back.
func (l *Loan) Return() {
	if l.elected {
		l.elected = false
		l.account.mu.Lock()
		l.account.elected = false
		l.account.mu.Unlock()
	}
	if n := l.bytes; n > 0 {
		l.bytes = 0
		l.account.Give(n)
	}
}

func (a *Account) enqueue(l *Loan, n int64) *waiter {
	w := &waiter{loan: l, n: n, ready: make(chan struct{})}
	a.mu.Lock()
	a.queue = append(a.queue, w)
	a.waitersHold += l.bytes
	a.waiting.Store(int32(len(a.queue)))
	a.admit()
	a.mu.Unlock()
	return w
}

// giveUp takes w out of the queue; false when it was admitted meanwhile.
func (a *Account) giveUp(w *waiter) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, q := range a.queue {
		if q == w {
			a.dequeue(i)
			a.admit()
			return true
		}
	}
	return false
}

func (a *Account) dequeue(i int) {
	a.waitersHold -= a.queue[i].loan.bytes
	a.queue = append(a.queue[:i], a.queue[i+1:]...)
	a.waiting.Store(int32(len(a.queue)))
}

// admit lets loans go on in order while the share has what they want; a.mu is held.
func (a *Account) admit() {
	for len(a.queue) > 0 {
		w := a.queue[0]
		if !a.take(w.n) {
			if a.elected || a.used.Load() > a.waitersHold+a.share/calmPart {
				return
			}
			a.elected, w.loan.elected = true, true
			a.used.Add(w.n)
		}
		a.dequeue(0)
		close(w.ready)
	}
}
