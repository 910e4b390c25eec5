package metrics

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// Histogram counts durations in buckets of nearly constant relative width: subBuckets to each power of two of
// microseconds. Observe is two atomic additions. Quantiles are of the last one to two windows, as Kafka's are of recent
// requests.
type Histogram struct {
	counts   [bucketCount]atomic.Uint64
	sumMicro atomic.Uint64
}

const (
	subBucketBits = 3
	subBuckets    = 1 << subBucketBits
	bucketCount   = 40 << subBucketBits // up to 2^40 µs, twelve days
)

// bucketOf returns the bucket of a duration in microseconds.
func bucketOf(micros uint64) int {
	if micros < subBuckets {
		return int(micros)
	}
	exp := bits.Len64(micros) - 1 - subBucketBits
	return min((exp+1)<<subBucketBits|int(micros>>exp)&(subBuckets-1), bucketCount-1)
}

// bucketTop returns the largest duration of a bucket in microseconds.
func bucketTop(bucket int) uint64 {
	if bucket < subBuckets {
		return uint64(bucket)
	}
	exp := bucket>>subBucketBits - 1
	return (uint64(bucket&(subBuckets-1)|subBuckets)+1)<<exp - 1
}

// Observe counts one duration; negative ones count as nothing.
func (h *Histogram) Observe(d time.Duration) {
	micros := uint64(max(d, 0) / time.Microsecond)
	h.counts[bucketOf(micros)].Add(1)
	h.sumMicro.Add(micros)
}

// histogramCounts is a copy of a histogram's buckets.
type histogramCounts struct {
	counts [bucketCount]uint64
	total  uint64
}

func (h *Histogram) snapshot() *histogramCounts {
	s := &histogramCounts{}
	for i := range h.counts {
		s.counts[i] = h.counts[i].Load()
		s.total += s.counts[i]
	}
	return s
}

// since returns what was counted after old, which may be nil.
func (s *histogramCounts) since(old *histogramCounts) *histogramCounts {
	if old == nil {
		return s
	}
	d := &histogramCounts{total: s.total - old.total}
	for i := range s.counts {
		d.counts[i] = s.counts[i] - old.counts[i]
	}
	return d
}

// quantileMs returns the duration, in milliseconds, that a share q of the counted ones does not exceed; 0 without any.
func (s *histogramCounts) quantileMs(q float64) float64 {
	rank := uint64(q * float64(s.total))
	var seen uint64
	for i, n := range s.counts {
		if seen += n; n > 0 && seen > rank || seen == s.total && seen > 0 {
			return float64(bucketTop(i)) / 1000
		}
	}
	return 0
}
