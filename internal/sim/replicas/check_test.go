package replicas

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"grete/logstore"
	"grete/protocol/batch"
)

// record is what a log holds at an offset.
type record struct {
	epoch int32
	value string
}

// checks remembers what was true once, and must be for ever.
type checks struct {
	w *world

	mu         sync.Mutex
	byPart     [partitions]map[int64]string // acked with acks=all
	committed  [partitions]map[int64]string // below some high watermark once
	leaders    [partitions]map[int32]int32  // by epoch
	highest    [partitions]int64            // of the high watermarks so far
	watermarks map[*node][partitions]int64  // of this life
	reached    map[int32][partitions]int64  // ends that nodes' logs had once, durably where that is asked for
}

func newChecks(w *world) *checks {
	c := &checks{w: w, watermarks: map[*node][partitions]int64{}, reached: map[int32][partitions]int64{}}
	for i := range partitions {
		c.byPart[i], c.committed[i], c.leaders[i] = map[int64]string{}, map[int64]string{}, map[int32]int32{}
	}
	return c
}

func (c *checks) acked(index int32, offset int64, value string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.byPart[index][offset] = value
}

// note remembers how far a node's logs have come.
func (c *checks) note(n *node) {
	ends := c.reached[n.id]
	for i := range ends {
		if log := logOf(n, int32(i)); log != nil {
			end := log.EndOffset()
			if c.w.durable {
				end = log.DurableOffset()
			}
			ends[i] = max(ends[i], end)
		}
	}
	c.reached[n.id] = ends
}

// check returns what is wrong, beginning with the number of the invariant in FAULTS; everything stands still meanwhile.
func (c *checks) check() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range c.w.alive() {
		c.note(n)
	}
	for i := range int32(partitions) {
		logs := map[int32]map[int64]record{}
		for _, n := range c.w.alive() {
			if log := logOf(n, i); log != nil {
				logs[n.id] = c.read(log)
			}
		}
		for _, check := range []func(int32, map[int32]map[int64]record) string{
			c.leadership, c.watermark, c.agreement, c.matching, c.inSync, c.kept,
		} {
			if wrong := check(i, logs); wrong != "" {
				return fmt.Sprintf("%s (partition %d: %v)", wrong, i, c.describe(i))
			}
		}
	}
	return ""
}

func (c *checks) describe(i int32) string {
	var b strings.Builder
	if t := c.w.control.image().Topic(topicName); t != nil {
		fmt.Fprintf(&b, "leader %d epoch %d isr %v", t.Partitions[i].Leader, t.Partitions[i].LeaderEpoch, t.Partitions[i].ISR)
	}
	for _, n := range c.w.alive() {
		if log := logOf(n, i); log != nil {
			fmt.Fprintf(&b, "; node %d end %d hw %d epoch %d", n.id, log.EndOffset(), log.HighWatermark(), log.LatestEpoch())
		}
	}
	return b.String()
}

func (c *checks) read(log *logstore.Log) map[int64]record {
	out := map[int64]record{}
	for offset := log.StartOffset(); offset < log.EndOffset(); {
		span, err := log.Read(offset, logstore.ReadOptions{MaxBytes: 1 << 20, Bound: log.EndOffset(), MinOneBatch: true})
		c.w.must(err)
		raw, err := span.ReadAll()
		c.w.must(err)
		span.Release()
		for len(raw) > 0 {
			var b batch.Batch
			b, raw, err = batch.Next(raw)
			c.w.must(err)
			out[b.BaseOffset()] = record{b.PartitionLeaderEpoch(), valueOf(b)}
			offset = b.LastOffset() + 1
		}
	}
	return out
}

// valueOf is the text and the filling of a batch of one record: all of it but the header.
func valueOf(b batch.Batch) string { return strings.TrimRight(string(b[batch.Overhead:]), "\x00") }

// leadership is invariant 2.
func (c *checks) leadership(i int32, _ map[int32]map[int64]record) string {
	if t := c.w.control.image().Topic(topicName); t != nil {
		if p := t.Partitions[i]; p.Leader >= 0 && !slices.Contains(p.ISR, p.Leader) {
			return "2: the leader is not in the ISR"
		}
	}
	for _, n := range c.w.alive() {
		p, err := n.replicas.Partition(topicName, i)
		if err != nil || !p.IsLeader() {
			continue
		}
		epoch := p.LeaderEpoch()
		if other, ok := c.leaders[i][epoch]; ok && other != n.id {
			return fmt.Sprintf("2: nodes %d and %d lead at epoch %d", other, n.id, epoch)
		}
		c.leaders[i][epoch] = n.id
	}
	return ""
}

// watermark is invariant 4: never backwards in a life, and what is new below it had enough copies. A copy may
// be lost by now: a leader moves the high watermark when it hears of an ISR whose members' fetches it had heard of
// before.
func (c *checks) watermark(i int32, _ map[int32]map[int64]record) string {
	for _, n := range c.w.alive() {
		log := logOf(n, i)
		if log == nil {
			continue
		}
		seen, hw := c.watermarks[n], log.HighWatermark()
		if hw < seen[i] {
			return fmt.Sprintf("4: the high watermark of node %d went from %d to %d", n.id, seen[i], hw)
		}
		seen[i] = hw
		c.watermarks[n] = seen
		if hw > c.highest[i] {
			if copies := c.copies(i, hw); copies < minISR {
				return fmt.Sprintf("4: the high watermark of node %d is %d with %d copies", n.id, hw, copies)
			}
			c.highest[i] = hw
		}
	}
	return ""
}

func (c *checks) copies(i int32, end int64) (copies int) {
	for id := range int32(nodes) {
		if c.reached[id][i] >= end {
			copies++
		}
	}
	return copies
}

// agreement is the one value per offset of invariants 1 and 6.
func (c *checks) agreement(i int32, logs map[int32]map[int64]record) string {
	for id, log := range logs {
		for offset := range logOf(c.w.node(id), i).HighWatermark() {
			value := log[offset].value
			if was, ok := c.committed[i][offset]; ok && was != value {
				return fmt.Sprintf("1: node %d has %.20q at %d, where %.20q was committed", id, value, offset, was)
			}
			c.committed[i][offset] = value
		}
	}
	return ""
}

// matching is invariant 3: logs that have a record of the same epoch at an offset are the same up to there.
func (c *checks) matching(i int32, logs map[int32]map[int64]record) string {
	for a, x := range logs {
		for b, y := range logs {
			if a >= b {
				continue
			}
			same := false
			for offset := int64(max(len(x), len(y))); offset >= 0; offset-- {
				p, inX := x[offset]
				q, inY := y[offset]
				if !inX || !inY {
					continue
				}
				same = same || p.epoch == q.epoch
				if same && p != q {
					return fmt.Sprintf("3: nodes %d and %d differ at %d and agree after it", a, b, offset)
				}
			}
		}
	}
	return ""
}

// inSync are invariants 1 and 5: who is in the ISR has all that is committed.
func (c *checks) inSync(i int32, logs map[int32]map[int64]record) string {
	t := c.w.control.image().Topic(topicName)
	if t == nil {
		return ""
	}
	for _, id := range t.Partitions[i].ISR {
		log, alive := logs[id]
		if !alive {
			continue
		}
		for offset := range c.highest[i] {
			if got := log[offset].value; got != c.committed[i][offset] {
				return fmt.Sprintf("5: node %d is in the ISR without the record at %d", id, offset)
			}
		}
	}
	return ""
}

// kept is invariant 6: the leader has what was acknowledged.
func (c *checks) kept(i int32, logs map[int32]map[int64]record) string {
	t := c.w.control.image().Topic(topicName)
	if t == nil {
		return ""
	}
	log, alive := logs[t.Partitions[i].Leader]
	if !alive {
		return ""
	}
	for offset, value := range c.byPart[i] {
		if !strings.Contains(log[offset].value, value) {
			return fmt.Sprintf("6: %q was acknowledged at %d, the leader has %.20q", value, offset, log[offset].value)
		}
	}
	return ""
}

// healed is what must be so in the end: everybody is in sync, has the same, and what was written last is acknowledged.
func (c *checks) healed() string {
	t := c.w.control.image().Topic(topicName)
	for i := range int32(partitions) {
		if p := t.Partitions[i]; p.Leader < 0 || len(p.ISR) != nodes {
			return fmt.Sprintf("healed, and still leader %d isr %v (%s)", p.Leader, p.ISR, c.describe(i))
		}
		first := c.read(logOf(c.w.node(0), i))
		for id := range int32(nodes) {
			log := logOf(c.w.node(id), i)
			if other := c.read(log); len(other) != len(first) || log.HighWatermark() != log.EndOffset() {
				return fmt.Sprintf("healed, and the logs differ (%s)", c.describe(i))
			}
		}
	}
	return ""
}
