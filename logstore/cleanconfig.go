package logstore

import (
	"io"
	"math"
	"time"

	"grete/internal/memory"
)

// CleanerConfig is the log.cleaner.* part of a broker's configuration. Values that are not positive mean Kafka's
// default, but for Threads and Backoff, where 0 is a value.
type CleanerConfig struct {
	Disabled          bool    // not log.cleaner.enable
	Threads           int     // log.cleaner.threads: logs that are compacted at once
	DedupeBufferBytes int64   // log.cleaner.dedupe.buffer.size, over all threads
	LoadFactor        float64 // log.cleaner.io.buffer.load.factor
	IOBufferBytes     int     // log.cleaner.io.buffer.size, over all threads
	MaxBytesPerSecond float64 // log.cleaner.io.max.bytes.per.second, reads and writes over all threads
	Backoff           time.Duration
	MaxHeldBytes      int             // that are held of one compressed batch; a log with a larger one cannot be compacted
	Memory            *memory.Account // that maps, buffers and what is held are borrowed from; nil: one of its own
	Entropy           io.Reader       // keys the hash of records' keys; nil: a fixed hash, for tests
}

const (
	defaultDedupeBufferBytes = 128 << 20
	defaultLoadFactor        = 0.9
	defaultIOBufferBytes     = 512 << 10
	defaultMaxHeldBytes      = 64 << 20
	// minIOBufferBytes of a thread: a smaller buffer would be read one batch at a time.
	minIOBufferBytes = 4 << 10
)

func (c CleanerConfig) withDefaults() *CleanerConfig {
	if c.DedupeBufferBytes <= 0 {
		c.DedupeBufferBytes = defaultDedupeBufferBytes
	}
	if c.LoadFactor <= 0 || c.LoadFactor > 1 {
		c.LoadFactor = defaultLoadFactor
	}
	if c.IOBufferBytes <= 0 {
		c.IOBufferBytes = defaultIOBufferBytes
	}
	if c.MaxHeldBytes <= 0 {
		c.MaxHeldBytes = defaultMaxHeldBytes
	}
	if c.MaxBytesPerSecond <= 0 {
		c.MaxBytesPerSecond = math.MaxFloat64
	}
	if c.Memory == nil {
		c.Memory = memory.New(0).Compacted
	}
	return &c
}

// loanBytes is what the compaction of so many records takes at most: the map of their keys, two buffers, and what is
// held of a batch.
func (c *CleanerConfig) loanBytes(records int64) int64 {
	return int64(mapSlots(c.maxKeys(), records, c.LoadFactor))*mapSlotBytes + 2*int64(c.bufferBytes()) + int64(c.MaxHeldBytes)
}

// maxKeys is how many keys one thread remembers at once: what its share of the buffer holds, two at least, so that a
// pass always gets ahead.
func (c *CleanerConfig) maxKeys() int {
	slots := c.DedupeBufferBytes / int64(max(c.Threads, 1)) / mapSlotBytes
	return max(int(float64(slots)*c.LoadFactor), 2)
}

// bufferBytes is the size of a thread's read buffer, and of its write buffer.
func (c *CleanerConfig) bufferBytes() int {
	return max(c.IOBufferBytes/max(c.Threads, 1)/2, minIOBufferBytes)
}

// CleanerConfig is the one in force.
func (s *Store) CleanerConfig() CleanerConfig { return *s.cleaner.cfg.Load() }

// ConfigureCleaner applies c from the next log on.
func (s *Store) ConfigureCleaner(c CleanerConfig) { s.cleaner.configure(c.withDefaults()) }
