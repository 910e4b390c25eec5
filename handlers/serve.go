package handlers

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/internal/config"
	"grete/protocol"
)

// served is the table, and rows finds its rows by key. They are set by init because ApiVersions, which is in the table,
// shows it.
var (
	served []API
	rows   = map[int16]*API{}
)

func init() {
	served = table
	for i := range served {
		rows[served[i].Key] = &served[i]
	}
}

// Versions is the table as the server checks requests against it and as ApiVersions announces it.
func (b *Broker) Versions() []protocol.VersionRange {
	out := make([]protocol.VersionRange, len(served))
	for i, api := range served {
		out[i] = protocol.VersionRange{Key: api.Key, Min: api.Min, Max: api.Max}
	}
	return out
}

// Serve hands a request to its row of the table; the server lets no key pass that has none.
func (b *Broker) Serve(ctx context.Context, r *protocol.Request) {
	defer b.contain(r)
	rows[r.Key].Handle(b, ctx, r)
}

// change runs a request that changes cluster metadata, and waits: the connection's later requests are read only after,
// so that they see the change, as with Kafka. It waits as long as the request allows, and
// no longer than request.timeout.ms.
func (b *Broker) change(ctx context.Context, r *protocol.Request, req kmsg.Request) (kmsg.Response, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	waitMs := b.config().Int("request.timeout.ms")
	if t, ok := req.(kmsg.TimeoutRequest); ok && t.Timeout() > 0 {
		waitMs = min(waitMs, int64(t.Timeout()))
	}
	timer := b.Clock.AfterFunc(time.Duration(waitMs)*time.Millisecond, cancel)
	defer timer.Stop()
	return b.Controller.Do(ctx, r.Conn.Principal(), req)
}

// config is the broker's configuration as it is now, with what was changed while it runs.
func (b *Broker) config() config.Layers {
	own, clusterDefault := b.dynamicConfigs()
	return b.Static.WithDynamic(own, clusterDefault)
}
