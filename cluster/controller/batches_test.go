package controller

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"grete/cluster/metadata"
	"grete/protocol/batch"
)

// Batches end where they may, and hold what may be together up to the bound; what must be together stays so, however
// much it is.
func TestBatches(t *testing.T) {
	of := func(n int) encoded {
		records := make([]metadata.Record, n)
		for i := range records {
			records[i] = &metadata.NoOpRecord{}
		}
		return encode(records)
	}
	for _, tt := range []struct {
		ops  []int
		want string
	}{
		{[]int{5}, "[5]"}, {[]int{3, 0, 4}, "[7]"}, {[]int{6000, 4000, 1}, "[10000 1]"}, {[]int{6000, 6000}, "[6000 6000]"},
		{[]int{10_000, 10_000}, "[10000 10000]"}, {[]int{1, 25_000, 1}, "[1 10000 10000 5001]"}, {[]int{25_000}, "[10000 10000 5000]"},
	} {
		var made encoded
		for _, n := range tt.ops {
			made.add(of(n))
		}
		var sizes []int
		for _, values := range made.batches() {
			sizes = append(sizes, len(values))
		}
		if got := fmt.Sprint(sizes); got != tt.want {
			t.Errorf("%v: %s, want %s", tt.ops, got, tt.want)
		}
	}
}

// A broker with more partitions than a batch may have records leaves and comes back in several batches.
func TestManyChangesAreSeveralBatches(t *testing.T) {
	fsys := memory(t)
	r := startRig(t, fsys, "/data", 1)
	for i := range 4 {
		r.create(t, 4000, fmt.Sprint("t", i))
	}
	begin := r.Image().Offset() + 1
	must(t, r.life.Shutdown(context.Background()))
	r.life = nil
	raw, err := r.raft.ReadCommitted(begin, 1<<30)
	must(t, err)
	var sizes []int
	for len(raw) > 0 {
		b, rest, err := batch.Next(raw)
		must(t, err)
		sizes, raw = append(sizes, int(b.RecordCount())), rest
	}
	if len(sizes) < 2 || slices.Max(sizes) > recordsPerOp {
		t.Errorf("batches of %v records", sizes)
	}
	r.kill(t)
	again := startRig(t, fsys, "/data", 2)
	defer again.kill(t)
	requireLed(t, again, 16_000)
}

// The disk fills up between two batches of one decision: the first stands, and the node decides on with it when there
// is space again.
func TestDiskFillsUpBetweenBatches(t *testing.T) {
	fsys := memory(t)
	r := startRig(t, fsys, "/data", 1)
	for i := range 3 {
		r.create(t, 4000, fmt.Sprint("t", i))
	}
	fsys.SetCapacity(1)
	ended := make(chan error, 1)
	go func() { ended <- r.life.Shutdown(context.Background()) }()
	time.Sleep(300 * time.Millisecond) // nothing may end meanwhile
	select {
	case err := <-ended:
		t.Fatalf("the broker stopped without space for what that makes: %v", err)
	default:
	}
	fsys.SetCapacity(1 << 30)
	select {
	case err := <-ended:
		must(t, err)
	case <-time.After(20 * time.Second):
		t.Fatal("the broker cannot stop")
	}
	r.life = nil
	for topic := range r.Image().Topics() {
		for i, p := range topic.Partitions {
			if p.Leader != noBroker {
				t.Fatalf("%s-%d is led by %d", topic.Name, i, p.Leader)
			}
		}
	}
	r.kill(t)
}
