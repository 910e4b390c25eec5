package handlers

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"grete/cluster"
	"grete/cluster/metadata"
	"grete/protocol"
)

// prober counts what it is asked.
type prober struct{ asked atomic.Int32 }

func (p *prober) Silent(context.Context, int32, int64) (bool, error) {
	p.asked.Add(1)
	return true, nil
}

// A broker probes others for the node that leads the quorum, and for nobody else.
func TestWitnessServesTheController(t *testing.T) {
	p := &prober{}
	r := newRig(t, withBroker(func(b *Broker) { b.Identity, b.Prober = identity("rig"), p }))
	r.apply(&metadata.RegisterBrokerRecord{BrokerID: 2, BrokerEpoch: 10, Incarnation: cluster.IncarnationOf(secretOf(2))})
	const alone = 7 // a controller that is no broker
	for _, tt := range []struct {
		name   string
		leader int32
		node   int32 // that says hello; 0: nobody does
		secret []byte
		want   int16
	}{
		{"a client", 2, 0, nil, kerr.ClusterAuthorizationFailed.Code},
		{"a broker that does not lead", 3, 2, secretOf(2), kerr.ClusterAuthorizationFailed.Code},
		{"somebody with the leader's id", 2, 2, nil, kerr.ClusterAuthorizationFailed.Code},
		{"somebody, while nobody leads", -1, alone, nil, kerr.ClusterAuthorizationFailed.Code},
		{"the leader", 2, 2, secretOf(2), 0},
		{"a leader that is no broker", alone, alone, nil, 0},
	} {
		r.image.Store(r.image.Load().WithController(tt.leader))
		p.asked.Store(0)
		w := r.dial()
		if tt.node != 0 && w.hello(tt.node, tt.secret) != 0 {
			t.Fatalf("%s: no hello", tt.name)
		}
		got := call[*protocol.WitnessResponse](w, 0, &protocol.WitnessRequest{BrokerID: 3, BrokerEpoch: 20})
		if got.ErrorCode != tt.want || got.Silent != (tt.want == 0) || p.asked.Load() > 0 != (tt.want == 0) {
			t.Errorf("%s: %+v, asked %d times", tt.name, got, p.asked.Load())
		}
	}
}
