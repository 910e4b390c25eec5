package handlers

import (
	"bytes"
	"context"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster"
	"grete/cluster/metadata"
	"grete/cluster/replica"
	"grete/internal/clock"
	"grete/protocol"
	"grete/protocol/batch"
)

func secretOf(n byte) []byte { return bytes.Repeat([]byte{n}, cluster.NonceBytes) }

// identity is that of the rig's broker.
func identity(clusterID string) *cluster.Identity {
	return cluster.NewIdentity(cluster.IdentityOptions{
		NodeID: rigNode, ClusterID: func() string { return clusterID }, Secret: secretOf(9), Random: func([]byte) {}, Clock: clock.System,
		Ask: func(context.Context, int32, kmsg.Request) (kmsg.Response, error) { return nil, protocol.ErrNoAddress },
	})
}

// followed is a rig whose topic t has a follower, broker 2, that was registered twice, the second time with epoch 20.
func followed(t *testing.T) *rig {
	r := newRig(t, withBroker(func(b *Broker) { b.Identity = identity("rig") }))
	for life, epoch := range []int64{10, 20} {
		r.apply(&metadata.RegisterBrokerRecord{BrokerID: 2, BrokerEpoch: epoch, Incarnation: cluster.IncarnationOf(secretOf(byte(life + 1)))},
			&metadata.UnfenceBrokerRecord{BrokerID: 2, BrokerEpoch: epoch})
	}
	id := topicID("t")
	r.apply(&metadata.TopicRecord{Name: "t", ID: id}, &metadata.PartitionRecord{
		TopicID: id, Partition: metadata.Partition{Replicas: []int32{rigNode, 2}, ISR: []int32{rigNode, 2}, Leader: rigNode},
	})
	return r
}

func (w *wire) hello(node int32, secret []byte) int16 {
	req := &protocol.HelloRequest{ClusterID: "rig", NodeID: node, Secret: secret, Nonce: make([]byte, cluster.NonceBytes)}
	return call[*protocol.HelloResponse](w, 0, req).ErrorCode
}

// asFollower fetches from offset as replica id in the life of epoch.
func (w *wire) asFollower(version int16, id int32, epoch, offset int64) kmsg.FetchResponseTopicPartition {
	req := fetchRequest("t", 0, offset)
	req.MaxWaitMillis, req.ReplicaID = 0, id
	req.ReplicaState.ID, req.ReplicaState.Epoch = id, epoch
	req.Topics[0].TopicID = topicID("t")
	return call[*kmsg.FetchResponse](w, version, req).Topics[0].Partitions[0]
}

// Whoever says that it is a follower has to be the registered run of that broker: a high watermark moves for nobody
// else.
func TestFetchAsSomebodyElse(t *testing.T) {
	r := followed(t)
	req := produceRequest("t", 0, 1, records(t, batch.BuildOptions{}, "a"))
	if got := call[*kmsg.ProduceResponse](r.dial(), 9, req).Topics[0].Partitions[0]; got.ErrorCode != 0 {
		t.Fatal(got)
	}
	const denied, notLeader, unknownEpoch = 29, 6, 75
	for _, version := range []int16{11, 14, 15, 17, 18} {
		for _, tt := range []struct {
			name   string
			node   int32 // that says hello; 0: nobody does
			secret []byte
			id     int32
			epoch  int64
			want   int16
		}{
			{"a client", 0, nil, 2, 20, denied},
			{"a client that leaves the epoch open", 0, nil, 2, -1, denied},
			{"another broker", 3, secretOf(2), 2, 20, denied},
			{"a run that is over", 2, secretOf(1), 2, 10, notLeader},
			{"a run that is over, with the epoch of the next", 2, secretOf(1), 2, 20, notLeader},
			{"no secret", 2, nil, 2, 20, notLeader},
			{"no replica", 3, secretOf(2), 3, 20, unknownEpoch},
			{"the leader itself", 0, nil, rigNode, 1, unknownEpoch},
		} {
			w := r.dial()
			if tt.node != 0 && w.hello(tt.node, tt.secret) != 0 {
				t.Fatalf("%s: no hello", tt.name)
			}
			want := tt.want
			if want == unknownEpoch {
				want = notLeader // the request names no leader epoch
			}
			p := w.asFollower(version, tt.id, tt.epoch, 1)
			if p.ErrorCode != want || len(p.RecordBatches) > 0 {
				t.Errorf("v%d, %s: error %d, want %d, %d bytes", version, tt.name, p.ErrorCode, want, len(p.RecordBatches))
			}
		}
	}
	if hw := r.highWatermark("t"); hw != 0 {
		t.Fatalf("the high watermark is %d", hw)
	}
	w := r.dial()
	if code := w.hello(2, secretOf(2)); code != 0 {
		t.Fatal(code)
	}
	if p := w.asFollower(17, 2, 10, 1); p.ErrorCode != notLeader {
		t.Errorf("a stale epoch: error %d", p.ErrorCode)
	}
	if p := w.asFollower(17, 2, 20, 1); p.ErrorCode != 0 || r.highWatermark("t") != 1 {
		t.Errorf("the follower: error %d, high watermark %d", p.ErrorCode, r.highWatermark("t"))
	}
}

func (r *rig) highWatermark(topic string) int64 {
	p, err := r.broker.Replicas.Partition(topic, 0)
	if err != nil {
		r.t.Fatal(err)
	}
	read, err := p.Read(replica.ReadRequest{CurrentLeaderEpoch: replica.NoEpoch, LastFetchedEpoch: replica.NoEpoch, ReplicaID: -1})
	if err != nil {
		r.t.Fatal(err)
	}
	return read.HighWatermark
}

func TestHelloIsRefused(t *testing.T) {
	r := followed(t)
	w := r.dial()
	for want, req := range map[int16]*protocol.HelloRequest{
		104: {ClusterID: "another", NodeID: 2, Nonce: make([]byte, cluster.NonceBytes)},
		42:  {ClusterID: "rig", NodeID: rigNode, Nonce: make([]byte, cluster.NonceBytes)},
	} {
		if got := call[*protocol.HelloResponse](w, 0, req).ErrorCode; got != want {
			t.Errorf("error %d, want %d", got, want)
		}
	}
	for _, req := range []*protocol.HelloRequest{
		{ClusterID: "rig", NodeID: 2}, {ClusterID: "rig", NodeID: 2, Nonce: make([]byte, 17)},
		{ClusterID: "rig", NodeID: 2, Nonce: make([]byte, cluster.NonceBytes), Secret: []byte{1}},
	} {
		if got := call[*protocol.HelloResponse](w, 0, req).ErrorCode; got != 42 {
			t.Errorf("%+v: error %d", req, got)
		}
	}
}

// What nodes ask the controller is judged by who asks.
func TestMayDecide(t *testing.T) {
	r := followed(t)
	im := r.image.Load()
	run := func(node int32, life byte, proven bool) *protocol.Peer {
		return &protocol.Peer{NodeID: node, Proven: proven, Incarnation: cluster.IncarnationOf(secretOf(life))}
	}
	heartbeat := &kmsg.BrokerHeartbeatRequest{BrokerID: 2, BrokerEpoch: 20}
	registration := &kmsg.BrokerRegistrationRequest{BrokerID: 3, IncarnationID: cluster.IncarnationOf(secretOf(3))}
	for _, tt := range []struct {
		name string
		peer *protocol.Peer
		req  kmsg.Request
		want bool
	}{
		{"nobody", nil, kmsg.NewPtrCreateTopicsRequest(), false},
		{"nobody's heartbeat", nil, heartbeat, false},
		{"the broker", run(2, 2, false), heartbeat, true},
		{"the broker, in a former life", run(2, 1, false), heartbeat, false},
		{"a controller, of another broker", run(4, 4, true), heartbeat, false},
		{"ISR of another broker's", run(3, 2, true), &kmsg.AlterPartitionRequest{BrokerID: 2}, false},
		{"its ISR", run(2, 2, false), &kmsg.AlterPartitionRequest{BrokerID: 2}, true},
		{"ids of producers", run(2, 2, false), &kmsg.AllocateProducerIDsRequest{BrokerID: 2}, true},
		{"ids of producers for another", run(3, 3, true), &kmsg.AllocateProducerIDsRequest{BrokerID: 2}, false},
		{"directories of another", run(3, 3, true), &kmsg.AssignReplicasToDirsRequest{BrokerID: 2}, false},
		{"a new broker", run(3, 3, false), registration, true},
		{"a new broker for another run", run(3, 4, false), registration, false},
		{"a new broker under another's id", run(2, 3, true), registration, false},
		{"a new controller", run(3, 3, false), &kmsg.ControllerRegistrationRequest{ControllerID: 3}, true},
		{"another controller", run(4, 3, true), &kmsg.ControllerRegistrationRequest{ControllerID: 3}, false},
		{"a client's change by a broker", run(2, 2, false), kmsg.NewPtrCreateTopicsRequest(), true},
		{"a client's change by a controller", run(5, 5, true), kmsg.NewPtrCreateTopicsRequest(), true},
		{"a client's change by a stranger", run(5, 5, false), kmsg.NewPtrCreateTopicsRequest(), false},
	} {
		if got := mayDecide(im, tt.peer, tt.req); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}
