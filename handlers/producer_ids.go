package handlers

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/internal/sched"
	"grete/protocol"
)

const (
	// maxProducerIDWaits bounds the requests that wait for a block of ids.
	maxProducerIDWaits = 10_000
	// producerIDBlockTimeout bounds one request for a block.
	producerIDBlockTimeout = 5 * time.Second
)

// ErrProducerIDsBusy: too many wait for a block of producer ids; clients try again.
var ErrProducerIDsBusy = errors.New("handlers: too many requests wait for producer ids")

// ProducerIDs hands out producer ids from blocks of the controller. One goroutine runs while a block is being
// fetched; requests wait for it as callbacks.
type ProducerIDs struct {
	controller  Controller
	nodeID      int32
	brokerEpoch func() int64

	mu        sched.Mutex
	next, end int64
	waiting   []func(int64, error)
	ctx       context.Context
	cancel    context.CancelFunc
	fetching  sync.WaitGroup
}

// NewProducerIDs has no block until the first id is asked for. brokerEpoch is the broker's as registered.
func NewProducerIDs(c Controller, nodeID int32, brokerEpoch func() int64) *ProducerIDs {
	p := &ProducerIDs{controller: c, nodeID: nodeID, brokerEpoch: brokerEpoch}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

// Close fails those who wait, and returns once nothing runs.
func (p *ProducerIDs) Close() {
	p.cancel()
	p.fetching.Wait()
}

// Next calls got with an id that nobody else gets, at once or when a block has come.
func (p *ProducerIDs) Next(got func(int64, error)) {
	p.mu.Lock()
	switch {
	case p.next < p.end && len(p.waiting) == 0:
		id := p.next
		p.next++
		p.mu.Unlock()
		got(id, nil)
		return
	case len(p.waiting) >= maxProducerIDWaits || p.ctx.Err() != nil:
		p.mu.Unlock()
		got(-1, ErrProducerIDsBusy)
		return
	}
	p.waiting = append(p.waiting, got)
	if len(p.waiting) == 1 {
		p.fetching.Add(1)
		go p.fetch()
	}
	p.mu.Unlock()
}

// fetch gets blocks until nobody waits any more.
func (p *ProducerIDs) fetch() {
	defer p.fetching.Done()
	for {
		start, n, err := p.block()
		if !p.serve(start, n, err) {
			return
		}
	}
}

// serve gives the block to those who wait, in order, or the error to all; it reports whether some still wait.
func (p *ProducerIDs) serve(start int64, n int32, err error) (more bool) {
	p.mu.Lock()
	served := p.waiting
	if err == nil {
		served = served[:min(len(served), int(n))]
		p.next, p.end = start+int64(len(served)), start+int64(n)
	}
	p.waiting = append([]func(int64, error){}, p.waiting[len(served):]...)
	more = len(p.waiting) > 0
	p.mu.Unlock()
	for i, got := range served {
		got(start+int64(i), err)
	}
	return more
}

func (p *ProducerIDs) block() (start int64, n int32, err error) {
	ctx, cancel := context.WithTimeout(p.ctx, producerIDBlockTimeout)
	defer cancel()
	req := kmsg.NewPtrAllocateProducerIDsRequest()
	req.BrokerID, req.BrokerEpoch = p.nodeID, p.brokerEpoch()
	resp, err := p.controller.Do(ctx, protocol.Principal{Type: "User", Name: "ANONYMOUS"}, req)
	if err != nil {
		return 0, 0, err
	}
	block := resp.(*kmsg.AllocateProducerIDsResponse)
	if err := kerr.ErrorForCode(block.ErrorCode); err != nil {
		return 0, 0, err
	}
	if block.ProducerIDLen <= 0 {
		return 0, 0, kerr.UnknownServerError
	}
	return block.ProducerIDStart, block.ProducerIDLen, nil
}
