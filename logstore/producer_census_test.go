package logstore

import (
	"testing"

	"grete/internal/memory"
	"grete/internal/vfs"
)

// Where there is little memory, fewer producers are remembered, and all are paid for.
func TestProducersBorrow(t *testing.T) {
	c := &producerCensus{memory: memory.New(16 * 10_000 * producerBytes).Producers}
	logs := make([]producerState, 10)
	for i := range logs {
		logs[i] = newProducerState(vfs.NewMem(), "/")
		logs[i].census = c
	}
	for id := range int64(100_000) {
		logs[id%10].entry(id).lastTimestampMs = id
	}
	if n := c.producers.Load(); n > 10_000+10 || c.memory.UsedBytes() != n*producerBytes {
		t.Errorf("%d producers are remembered, %d bytes lent of %d", n, c.memory.UsedBytes(), c.memory.ShareBytes())
	}
	for i := range logs {
		logs[i].leaveCensus()
	}
	if c.memory.UsedBytes() != 0 {
		t.Errorf("%d bytes were not given back", c.memory.UsedBytes())
	}
}

// One client's producer ids fill the logs that it writes to up to the store's bound, not those of others.
func TestProducersOfAStoreAreBounded(t *testing.T) {
	c := &producerCensus{}
	logs := make([]producerState, 20)
	for i := range logs {
		logs[i] = newProducerState(vfs.NewMem(), "/")
		logs[i].census = c
	}
	quiet := &logs[0]
	for id := range int64(1000) {
		quiet.entry(id)
	}
	open := logs[1].entry(-5)
	open.txnFirstOffset = 7
	for id := range int64(1_000_000) {
		p := &logs[1+id%19]
		p.entry(id).lastTimestampMs = id
	}
	total := 0
	for i := range logs {
		total += len(logs[i].producers)
	}
	if got := c.producers.Load(); got != int64(total) || c.logs.Load() != 20 {
		t.Errorf("%d producers of %d logs are counted, there are %d", got, c.logs.Load(), total)
	}
	if total > maxStoreProducers+len(logs) {
		t.Errorf("%d producers are remembered", total)
	}
	if len(quiet.producers) != 1000 {
		t.Errorf("the quiet log remembers %d", len(quiet.producers))
	}
	if logs[1].producers[-5] == nil || logs[1+999_999%19].producers[999_999] == nil {
		t.Error("an open transaction, or the newest producer, was forgotten")
	}
	quiet.entry(5000)
	if len(quiet.producers) != 1001 {
		t.Errorf("the quiet log remembers %d with one more", len(quiet.producers))
	}
	for i := range logs {
		logs[i].expire(1<<40, 1)
	}
	if got := c.producers.Load(); got != 1 || c.logs.Load() != 1 {
		t.Errorf("%d producers of %d logs are counted, one has an open transaction", got, c.logs.Load())
	}
	logs[1].reset(0)
	quiet.entry(1)
	quiet.leaveCensus()
	if c.producers.Load() != 0 || c.logs.Load() != 0 {
		t.Errorf("%d producers of %d logs are counted at the end", c.producers.Load(), c.logs.Load())
	}
}

// Whatever a store does with a log, it is counted once as long as it is there.
func TestCensusFollowsLogs(t *testing.T) {
	fs := vfs.NewMem()
	s := openTest(t, testOptions(fs))
	l := createTest(t, s, testConfig())
	v := verified{l, t}
	v.write(producing{pid: 1}, 0, nil)
	v.write(producing{pid: 2}, 0, nil)
	if got := s.census.producers.Load(); got != 2 {
		t.Errorf("%d are counted", got)
	}
	must(t, s.Close())
	s = openTest(t, testOptions(fs))
	if got := s.census.producers.Load(); got != 2 {
		t.Errorf("%d are counted after a restart", got)
	}
	must(t, s.Delete(l.id))
	if got, logs := s.census.producers.Load(), s.census.logs.Load(); got != 0 || logs != 0 {
		t.Errorf("%d of %d logs are counted after the deletion", got, logs)
	}
	must(t, s.Close())
}
