package handlers

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/coordinator"
	"grete/coordinator/txn"
	"grete/internal/clock"
	"grete/internal/sched"
)

// RemoteMarkers takes markers to partitions that other brokers lead: one WriteTxnMarkers per broker at a time, with all
// that gathered meanwhile. What fails, the transaction coordinator sends again; there is at most one send per
// transaction and broker.
type RemoteMarkers struct {
	others Others
	clock  clock.Clock

	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu      sched.Mutex
	waiting map[int32]*markerQueue // by broker; an entry while a goroutine is at work for it
}

// markerQueue is what waits for one broker.
type markerQueue struct {
	sends      []*markerSend
	partitions int
}

// markerSend is one transaction's markers for the partitions that a broker leads.
type markerSend struct {
	marker     coordinator.Marker
	partitions []txn.Partition
	done       func([]error)
}

const (
	// maxMarkersPerRequest bounds the transactions of a request.
	maxMarkersPerRequest = 1000
	// maxWaitingMarkers bounds the partitions whose markers wait for one broker. More are refused with errMarkersFull:
	// the transaction coordinator sends them again later, as it does what failed.
	maxWaitingMarkers = 100_000
)

var errMarkersFull = errors.New("too many transaction markers wait for the broker")

// NewRemoteMarkers sends nothing yet.
func NewRemoteMarkers(c clock.Clock, others Others) *RemoteMarkers {
	r := &RemoteMarkers{others: others, clock: c, waiting: map[int32]*markerQueue{}}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	return r
}

// Close ends what is under way, with errors.
func (r *RemoteMarkers) Close() {
	r.cancel()
	r.running.Wait()
}

// send calls done, now or on another goroutine, with an error or nil for each partition.
func (r *RemoteMarkers) send(broker int32, s *markerSend) {
	if !r.enqueue(broker, s) {
		s.finish(nil, errMarkersFull)
	}
}

// enqueue refuses s when too much waits; a single transaction, however large, always fits an empty queue.
func (r *RemoteMarkers) enqueue(broker int32, s *markerSend) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	q, atWork := r.waiting[broker]
	switch {
	case !atWork:
		q = &markerQueue{}
		r.waiting[broker] = q
		r.running.Go(func() { r.deliver(broker) })
	case q.partitions > 0 && q.partitions+len(s.partitions) > maxWaitingMarkers:
		return false
	}
	q.sends, q.partitions = append(q.sends, s), q.partitions+len(s.partitions)
	return true
}

// deliver works for one broker until nothing is left.
func (r *RemoteMarkers) deliver(broker int32) {
	for {
		sends := r.take(broker)
		if sends == nil {
			return
		}
		results, err := r.ask(broker, sends)
		for _, s := range sends {
			s.finish(results, err)
		}
	}
}

// take is nil when there is nothing: then the next send starts another goroutine.
func (r *RemoteMarkers) take(broker int32) []*markerSend {
	r.mu.Lock()
	defer r.mu.Unlock()
	q := r.waiting[broker]
	if len(q.sends) == 0 {
		delete(r.waiting, broker)
		return nil
	}
	n := min(len(q.sends), maxMarkersPerRequest)
	taken := q.sends[:n]
	q.sends = q.sends[n:]
	for _, s := range taken {
		q.partitions -= len(s.partitions)
	}
	return taken
}

// markerPlace names a marker in a response.
type markerPlace struct {
	producerID int64
	topic      string
	index      int32
}

func (r *RemoteMarkers) ask(broker int32, sends []*markerSend) (map[markerPlace]int16, error) {
	ctx, cancel := clock.WithTimeout(r.ctx, r.clock, r.others.Timeout)
	defer cancel()
	req := kmsg.NewPtrWriteTxnMarkersRequest()
	for _, s := range sends {
		req.Markers = append(req.Markers, s.request())
	}
	answer, err := r.others.Call(ctx, broker, req)
	if err != nil {
		return nil, fmt.Errorf("markers for broker %d: %w", broker, err)
	}
	results := map[markerPlace]int16{}
	for _, m := range answer.(*kmsg.WriteTxnMarkersResponse).Markers {
		for _, t := range m.Topics {
			for _, p := range t.Partitions {
				results[markerPlace{m.ProducerID, t.Topic, p.Partition}] = p.ErrorCode
			}
		}
	}
	return results, nil
}

func (s *markerSend) request() kmsg.WriteTxnMarkersRequestMarker {
	m := kmsg.NewWriteTxnMarkersRequestMarker()
	m.ProducerID, m.ProducerEpoch = s.marker.Producer.ID, s.marker.Producer.Epoch
	m.CoordinatorEpoch, m.Committed, m.TransactionVersion = s.marker.CoordinatorEpoch, s.marker.Commit, s.marker.TransactionVersion
	places := map[string]int{}
	for _, p := range s.partitions {
		i, ok := places[p.Topic]
		if !ok {
			i = len(m.Topics)
			places[p.Topic] = i
			m.Topics = append(m.Topics, kmsg.WriteTxnMarkersRequestMarkerTopic{Topic: p.Topic})
		}
		m.Topics[i].Partitions = append(m.Topics[i].Partitions, p.Index)
	}
	return m
}

var errNoMarkerAnswer = errors.New("the broker did not answer for the partition")

func (s *markerSend) finish(results map[markerPlace]int16, err error) {
	errs := make([]error, len(s.partitions))
	for i, p := range s.partitions {
		code, answered := results[markerPlace{s.marker.Producer.ID, p.Topic, p.Index}]
		switch {
		case err != nil:
			errs[i] = err
		case !answered:
			errs[i] = errNoMarkerAnswer
		default:
			errs[i] = kerr.ErrorForCode(code)
		}
	}
	s.done(errs)
}
