package node

import (
	"testing"

	"grete/cluster/metadata"
	"grete/internal/clock"
	"grete/internal/metrics"
)

func TestElectionsAreCounted(t *testing.T) {
	n := &Node{metrics: metrics.New(clock.System)}
	im := &metadata.Image{}
	id := metadata.UUID{1}
	apply := func(records ...metadata.Record) {
		t.Helper()
		next, delta, err := im.Apply(records, im.Offset()+int64(len(records)), 1)
		if err != nil {
			t.Fatal(err)
		}
		n.countElections(im, next, delta)
		im = next
	}
	change := func(leader int32, isr, elr []int32, recovery int8) *metadata.PartitionChangeRecord {
		r := metadata.NewPartitionChange(id, 0)
		r.Leader, r.ISR, r.ELR, r.LeaderRecoveryState = leader, isr, elr, recovery
		return r
	}
	apply(&metadata.TopicRecord{Name: "t", ID: id}, &metadata.PartitionRecord{TopicID: id, Partition: metadata.Partition{
		Replicas: []int32{1, 2, 3}, ISR: []int32{1, 2}, Leader: 1,
	}})
	apply(change(2, []int32{2}, []int32{1}, -1)) // from the ISR
	apply(change(-1, []int32{}, []int32{1, 2}, -1))
	apply(change(1, []int32{1}, []int32{2}, -1)) // eligible
	apply(change(3, []int32{3}, []int32{}, 1))   // neither
	next := im.WithController(5)
	n.countElections(im, next, metadata.Delta{})
	n.countElections(next, next, metadata.Delta{})
	c := n.metrics.Controller
	if c.ELRElections.Load() != 1 || c.UncleanElections.Load() != 1 || c.NewControllers.Load() != 1 {
		t.Errorf("%d eligible, %d unclean, %d controllers", c.ELRElections.Load(), c.UncleanElections.Load(), c.NewControllers.Load())
	}
}
