package protocol

import (
	"time"

	"grete/internal/metrics"
)

// sentStats carries a request's moments to where its response is sent; empty when nothing is measured.
type sentStats struct {
	stats *metrics.RequestStats
	times metrics.RequestTimes
}

// stats returns where requests of a key are counted, or nil.
func (s *Server) stats(key int16) *metrics.RequestStats {
	if s.o.Metrics == nil {
		return nil
	}
	return s.o.Metrics.Request(key)
}

// answered notes that r is answered now.
func (s *sentStats) answered(stats *metrics.RequestStats, r *Request, now time.Time) {
	s.stats = stats
	s.times = metrics.RequestTimes{Received: r.Received.UnixNano(), Served: r.servedNanos.Load(), Answered: now.UnixNano()}
}

// observeSent counts results that were sent between two moments.
func observeSent(results []result, sending, sent time.Time) {
	for i := range results {
		if s := &results[i].sent; s.stats != nil {
			s.times.Sending, s.times.Sent = sending.UnixNano(), sent.UnixNano()
			s.stats.Done(s.times)
		}
	}
}
