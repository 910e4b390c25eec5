package replica

import (
	"maps"
	"slices"
	"time"

	"grete/internal/clock"
)

// retryEvery is how soon logs that could not be opened for want of space or descriptors are tried again.
const retryEvery = time.Second

// retries are the topics with such logs.
type retries struct {
	topics  map[string]bool
	timer   clock.Timer // while there are any
	stopped bool
}

func (r *retries) add(topic string) {
	if r.topics == nil {
		r.topics = map[string]bool{}
	}
	r.topics[topic] = true
}

// retrySoon sets the timer if there is something to retry. m.applyMu is held.
func (m *Manager) retrySoon() {
	if len(m.retry.topics) > 0 && m.retry.timer == nil && !m.retry.stopped {
		m.retry.timer = m.o.Clock.AfterFunc(retryEvery, m.retryNow)
	}
}

// retryNow applies the topics again: nothing changes but for the logs that can be opened now.
func (m *Manager) retryNow() {
	m.applyMu.Lock()
	defer m.applyMu.Unlock()
	m.retry.timer = nil
	if m.retry.stopped {
		return
	}
	topics := slices.Sorted(maps.Keys(m.retry.topics))
	m.retry.topics = nil
	m.applyTopics(m.image.Load(), topics, func() {})
	m.retrySoon()
}

func (m *Manager) stopRetrying() {
	m.applyMu.Lock()
	defer m.applyMu.Unlock()
	m.retry.stopped = true
	if m.retry.timer != nil {
		m.retry.timer.Stop()
	}
}
