package node

import (
	"context"
	"fmt"
	"net"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster/replica"
	"grete/protocol"
)

// replication is how this broker's replicas reach the other brokers and the controller.
func (n *Node) replication() replica.Replication {
	cfg := n.o.Config
	return replica.Replication{
		LagTimeMaxMs: cfg.Int("replica.lag.time.max.ms"),
		Fetch: replica.FetchSettings{
			Fetchers:         int(cfg.Int("num.replica.fetchers")),
			MaxBytes:         int32(cfg.Int("replica.fetch.max.bytes")),
			MinBytes:         int32(cfg.Int("replica.fetch.min.bytes")),
			ResponseMaxBytes: int32(cfg.Int("replica.fetch.response.max.bytes")),
			WaitMaxMs:        int32(cfg.Int("replica.fetch.wait.max.ms")),
			BackoffMs:        cfg.Int("replica.fetch.backoff.ms"),
			SocketTimeoutMs:  cfg.Int("replica.socket.timeout.ms"),
		},
		BrokerEpoch: func() int64 { return n.lifecycle.BrokerEpoch() },
		Dial:        n.dialBroker,
		Alter:       n.alterISR,
		Assign:      n.assignDirs,
	}
}

// rackAwareSelector is the one implementation of Kafka's ReplicaSelector that comes with it.
const rackAwareSelector = "org.apache.kafka.common.replica.RackAwareReplicaSelector"

// rackAware says whether consumers are sent to replicas in their rack, as replica.selector.class wants.
func rackAware(class string) (bool, error) {
	if class == "" || class == rackAwareSelector {
		return class != "", nil
	}
	return false, fmt.Errorf("replica.selector.class=%s: only %s is known", class, rackAwareSelector)
}

// dialBroker connects to another broker.
func (n *Node) dialBroker(ctx context.Context, id int32) (replica.Peer, error) {
	address, ok := n.brokerAddress(id)
	if !ok {
		return nil, fmt.Errorf("broker %d: %w", id, protocol.ErrNoAddress)
	}
	c, err := protocol.Dial(ctx, address, n.peerOptions(n.o.Config.InterBroker))
	if err != nil {
		return nil, err // not a Peer that holds nil
	}
	return c, nil
}

// brokerAddress is where a broker's inter.broker.listener.name is.
func (n *Node) brokerAddress(id int32) (string, bool) {
	b := n.quorum.image().Broker(id)
	if b == nil {
		return "", false
	}
	for _, e := range b.Endpoints {
		if e.Listener == n.o.Config.InterBroker {
			return net.JoinHostPort(e.Host, strconv.Itoa(int(e.Port))), true
		}
	}
	return "", false
}

func (n *Node) alterISR(ctx context.Context, req *kmsg.AlterPartitionRequest) (*kmsg.AlterPartitionResponse, error) {
	return askController[*kmsg.AlterPartitionResponse](ctx, n, req)
}

func (n *Node) assignDirs(ctx context.Context, req *kmsg.AssignReplicasToDirsRequest) (*kmsg.AssignReplicasToDirsResponse, error) {
	return askController[*kmsg.AssignReplicasToDirsResponse](ctx, n, req)
}

// askController has a request of this broker's own decided.
func askController[R kmsg.Response](ctx context.Context, n *Node, req kmsg.Request) (R, error) {
	resp, err := n.controller.Do(ctx, protocol.Principal{Type: "User", Name: "ANONYMOUS"}, req)
	if err != nil {
		return *new(R), err
	}
	return resp.(R), nil
}
