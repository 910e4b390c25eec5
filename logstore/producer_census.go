package logstore

import (
	"sync/atomic"

	"grete/internal/memory"
)

// maxStoreProducers, or less where there is little memory, bounds the producers that all logs of a store remember together. Past it a log that has more than its even
// share forgets an eighth of its own, as at maxProducers, before it takes another; a log may always have its share, so that one
// client with many producer ids costs other partitions nothing. All together are twice the bound at most, besides producers
// with open transactions, which are never forgotten.
const maxStoreProducers = 500_000

// producerCensus counts what the logs of a store remember.
type producerCensus struct {
	producers atomic.Int64
	logs      atomic.Int64    // that remember any
	memory    *memory.Account // that they are counted in; nil: they are not
}

// producerBytes is what a log remembers of a producer.
const producerBytes = 230

// most is how many producers all logs may remember: as many as there is memory for.
func (c *producerCensus) most() int64 {
	if c.memory == nil {
		return maxStoreProducers
	}
	return min(c.memory.ShareBytes()/producerBytes, maxStoreProducers)
}

// crowdedBy says whether a log with n producers has to make room for another.
func (c *producerCensus) crowdedBy(n int) bool {
	if c == nil || c.producers.Load() < c.most() {
		return false
	}
	return int64(n) >= c.most()/max(c.logs.Load(), 1)
}

// recount tells the census how many producers there are now.
func (p *producerState) recount() {
	was, is := p.counted, len(p.producers)
	if p.census == nil || was == is {
		return
	}
	p.counted = is
	p.census.producers.Add(int64(is - was))
	p.census.memory.Change(int64(is-was) * producerBytes)
	switch {
	case was == 0:
		p.census.logs.Add(1)
	case is == 0:
		p.census.logs.Add(-1)
	}
}

// leaveCensus ends the counting of a log that is gone.
func (p *producerState) leaveCensus() {
	p.producers = nil
	p.recount()
	p.census = nil
}
