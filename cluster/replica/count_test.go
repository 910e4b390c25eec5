package replica

import (
	"testing"

	"grete/internal/metrics"
)

// Replicas that a reassignment adds are not missed before they are there (Partition.isUnderReplicated).
func TestUnderReplicated(t *testing.T) {
	for _, tt := range []struct{ isr, factor, want int }{{3, 3, 0}, {2, 3, 1}, {2, 2, 0}, {3, 2, 0}} {
		s := &state{replicas: make([]int32, 4), isr: make([]int32, tt.isr), factor: tt.factor, config: &TopicConfig{MinInsyncReplicas: 1}}
		var of metrics.ReplicaState
		if s.count(&of); of.UnderReplicated != tt.want || of.Leaders != 1 {
			t.Errorf("%+v: %+v", tt, of)
		}
	}
}
