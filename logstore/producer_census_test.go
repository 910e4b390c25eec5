package logstore

import (
	"testing"

	"grete/internal/memory"
	"grete/internal/vfs"
)

// Where there is little memory, fewer producers are remembered, and all are paid for.
func TestProducersBorrow(t *testing.T) {
	c := memory.New(32 * 10_000 * producerBytes).Producers
	logs := make([]producerState, 10)
	for i := range logs {
		logs[i] = newProducerState(vfs.NewMem(), "/")
		logs[i].lends = c
	}
	for id := range int64(100_000) {
		logs[id%10].entry(id).lastTimestampMs = id
	}
	n := 0
	for i := range logs {
		n += len(logs[i].producers)
	}
	if n > 10_000+10 || c.UsedBytes() != int64(n)*producerBytes {
		t.Errorf("%d producers are remembered, %d bytes lent of %d", n, c.UsedBytes(), c.ShareBytes())
	}
	for i := range logs {
		logs[i].leaveCensus()
	}
	if c.UsedBytes() != 0 {
		t.Errorf("%d bytes were not given back", c.UsedBytes())
	}
}

// One client's producer ids fill the logs that it writes to up to the store's bound, not those of others.
func TestProducersOfAStoreAreBounded(t *testing.T) {
	c := memory.New(1 << 40).Producers // as much as any process gets
	logs := make([]producerState, 20)
	for i := range logs {
		logs[i] = newProducerState(vfs.NewMem(), "/")
		logs[i].lends = c
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
	if got := c.UsedBytes() / producerBytes; got != int64(total) || c.Holders(0) != 20 {
		t.Errorf("%d producers of %d logs are counted, there are %d", got, c.Holders(0), total)
	}
	if total > 500_000+len(logs) {
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
	if got := c.UsedBytes() / producerBytes; got != 1 || c.Holders(0) != 1 {
		t.Errorf("%d producers of %d logs are counted, one has an open transaction", got, c.Holders(0))
	}
	logs[1].reset(0)
	quiet.entry(1)
	quiet.leaveCensus()
	if c.UsedBytes()/producerBytes != 0 || c.Holders(0) != 0 {
		t.Errorf("%d producers of %d logs are counted at the end", c.UsedBytes()/producerBytes, c.Holders(0))
	}
}

// Whatever a store does with a log, it is counted once as long as it is there.
func TestCensusFollowsLogs(t *testing.T) {
	fs := vfs.NewMem()
	o := testOptions(fs)
	o.ProducerMemory = memory.New(0).Producers
	counted := func() int64 { return o.ProducerMemory.UsedBytes() / producerBytes }
	s := openTest(t, o)
	l := createTest(t, s, testConfig())
	v := verified{l, t}
	v.write(producing{pid: 1}, 0, nil)
	v.write(producing{pid: 2}, 0, nil)
	if got := counted(); got != 2 {
		t.Errorf("%d are counted", got)
	}
	must(t, s.Close())
	if got := counted(); got != 0 {
		t.Errorf("%d are counted of a store that is closed", got)
	}
	s = openTest(t, o)
	if got := counted(); got != 2 {
		t.Errorf("%d are counted after a restart", got)
	}
	must(t, s.Delete(l.id))
	if got, logs := counted(), o.ProducerMemory.Holders(0); got != 0 || logs != 0 {
		t.Errorf("%d of %d logs are counted after the deletion", got, logs)
	}
	must(t, s.Close())
}
