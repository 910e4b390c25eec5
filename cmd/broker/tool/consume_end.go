package tool

import (
	"context"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// idleLook is how often a reader with an end looks whether it is there.
	idleLook = 100 * time.Millisecond
	// quietAnswers is how many answers without records in turn each leader gives at an end before which there is none.
	quietAnswers = 3
	// quietBytes and quietPartitionBytes are the most that an answer without records has.
	quietBytes, quietPartitionBytes = 512, 64
)

// endWatch notices that leaders have nothing more, though the last offset before an end was not seen: compaction may
// have taken it away, or it is one of an aborted transaction.
type endWatch struct {
	mostBytes int // of an answer without records

	mu    sync.Mutex
	quiet map[int32]int // by leader, answers without records in turn
}

// endWatch watches the leaders of partitions.
func (c *cluster) endWatch(ctx context.Context, at map[string]map[int32]kgo.Offset) (*endWatch, error) {
	w := &endWatch{quiet: map[int32]int{}, mostBytes: quietBytes}
	var names []string
	for topic := range at {
		names = append(names, topic)
	}
	details, err := c.topics(ctx, names)
	if err != nil {
		return nil, err
	}
	for topic, partitions := range at {
		for p := range partitions {
			w.quiet[details[topic].Partitions[p].Leader] = 0
			w.mostBytes += quietPartitionBytes
		}
	}
	return w, nil
}

// OnBrokerRead counts answers to fetches.
func (w *endWatch) OnBrokerRead(meta kgo.BrokerMetadata, key int16, bytesRead int, _, _ time.Duration, err error) {
	if key != kmsg.Fetch.Int16() || err != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if bytesRead > w.mostBytes {
		w.quiet[meta.NodeID] = 0
		return
	}
	w.quiet[meta.NodeID]++
}

// reset forgets what was counted: there was a record.
func (w *endWatch) reset() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id := range w.quiet {
		w.quiet[id] = 0
	}
}

// idle tells whether each leader has been quiet for long enough.
func (w *endWatch) idle() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, n := range w.quiet {
		if n < quietAnswers {
			return false
		}
	}
	return true
}
