package handlers

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/protocol"
)

func TestInitProducerID(t *testing.T) {
	r := newRig(t)
	w := r.dial()
	seen := map[int64]bool{}
	for version := int16(0); version <= 5; version++ {
		req := kmsg.NewPtrInitProducerIDRequest()
		req.ProducerID, req.ProducerEpoch = -1, -1
		resp := call[*kmsg.InitProducerIDResponse](w, version, req)
		if resp.ErrorCode != 0 || resp.ProducerID < 0 || resp.ProducerEpoch != 0 || seen[resp.ProducerID] {
			t.Errorf("version %d: %+v", version, resp)
		}
		seen[resp.ProducerID] = true
	}
	empty, id := "", "tx"
	for _, c := range []struct {
		name    string
		txn     *string
		pid     int64
		epoch   int16
		code    int16
		version int16
	}{
		{"empty transactional id", &empty, -1, -1, 42, 0},
		{"no transaction coordinator", &id, -1, -1, 16, 4},
		{"id without epoch", nil, 5, -1, 42, 3},
		{"epoch without id", nil, -1, 5, 42, 3},
	} {
		req := kmsg.NewPtrInitProducerIDRequest()
		req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.TransactionTimeoutMillis = c.txn, c.pid, c.epoch, 60000
		resp := call[*kmsg.InitProducerIDResponse](w, c.version, req)
		if resp.ErrorCode != c.code || resp.ProducerID != -1 || resp.ProducerEpoch != -1 {
			t.Errorf("%s: %+v", c.name, resp)
		}
	}
}

// blocks answers AllocateProducerIds with small blocks, or err.
type blocks struct {
	mu    sync.Mutex
	start int64
	asked int
	err   error
	gate  chan struct{}
}

func (b *blocks) Do(ctx context.Context, _ protocol.Principal, _ kmsg.Request) (kmsg.Response, error) {
	if b.gate != nil {
		select {
		case <-b.gate:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked++
	resp := kmsg.NewPtrAllocateProducerIDsResponse()
	resp.ProducerIDStart, resp.ProducerIDLen = b.start, 10
	b.start += 10
	return resp, b.err
}

func TestProducerIDsAreUnique(t *testing.T) {
	c := &blocks{}
	p := NewProducerIDs(c, 1, func() int64 { return 1 })
	defer p.Close()
	var mu sync.Mutex
	seen := map[int64]bool{}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 100 {
				got := make(chan int64)
				p.Next(func(id int64, err error) {
					if err != nil {
						t.Error(err)
					}
					go func() { got <- id }()
				})
				id := <-got
				mu.Lock()
				if seen[id] {
					t.Errorf("%d twice", id)
				}
				seen[id] = true
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if len(seen) != 800 || c.asked != 80 {
		t.Errorf("%d ids from %d blocks", len(seen), c.asked)
	}
}

func TestProducerIDsFail(t *testing.T) {
	c := &blocks{err: errors.New("no controller")}
	p := NewProducerIDs(c, 1, func() int64 { return 1 })
	got := make(chan error, 1)
	p.Next(func(_ int64, err error) { got <- err })
	if err := <-got; err == nil {
		t.Error("no error")
	}
	c.mu.Lock()
	c.err = nil
	c.mu.Unlock()
	p.Next(func(_ int64, err error) { got <- err })
	if err := <-got; err != nil {
		t.Errorf("after the controller came back: %v", err)
	}
	p.Close()
	p.Next(func(int64, error) {})
}

func TestProducerIDsBound(t *testing.T) {
	c := &blocks{gate: make(chan struct{})}
	p := NewProducerIDs(c, 1, func() int64 { return 1 })
	var mu sync.Mutex
	failed, busy := 0, 0
	for range maxProducerIDWaits + 3 {
		p.Next(func(_ int64, err error) {
			mu.Lock()
			defer mu.Unlock()
			if errors.Is(err, ErrProducerIDsBusy) {
				busy++
			} else if err != nil {
				failed++
			}
		})
	}
	if busy != 3 {
		t.Errorf("%d refused, want 3", busy)
	}
	done := make(chan struct{})
	go func() { p.Close(); close(done) }()
	select {
	case <-done:
	case <-time.After(5 * time.Second):
		t.Fatal("Close hangs")
	}
	if failed != maxProducerIDWaits {
		t.Errorf("Close failed %d of %d", failed, maxProducerIDWaits)
	}
}
