package handlers

import (
	"context"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/internal/config"
	"grete/protocol"
)

// apis is a table with its rows by key, and with rows that are served without being announced.
type apis struct {
	list []API
	rows map[int16]*API
}

// clientAPIs is what listeners for clients serve, controllerAPIs what controller listeners do. They are set by init
// because ApiVersions, which is in the tables, shows them.
var clientAPIs, controllerAPIs apis

func init() {
	clientAPIs, controllerAPIs = apisOf(table, brokersTable), apisOf(controllerTable, nodesTable)
}

func apisOf(list, unannounced []API) apis {
	a := apis{list, map[int16]*API{}}
	for _, rows := range [][]API{list, unannounced} {
		for i := range rows {
			a.rows[rows[i].Key] = &rows[i]
		}
	}
	return a
}

func (b *Broker) apis() *apis {
	if b.ForControllers {
		return &controllerAPIs
	}
	return &clientAPIs
}

// Versions is what the server checks requests against.
func (b *Broker) Versions() []protocol.VersionRange {
	var out []protocol.VersionRange
	for _, key := range slices.Sorted(maps.Keys(b.apis().rows)) {
		api := b.apis().rows[key]
		out = append(out, protocol.VersionRange{Key: api.Key, Min: api.Min, Max: api.Max})
	}
	return out
}

// Serve hands a request to its row of the table; the server lets no key pass that has none.
func (b *Broker) Serve(ctx context.Context, r *protocol.Request) {
	defer b.contain(r)
	if api := b.apis().rows[r.Key]; api.Authorize(b, r) {
		b.Changes.note(b, r)
		api.Handle(b, ctx, r)
	}
}

// change runs a request that changes cluster metadata, and waits: the connection's later requests are read only after,
// so that they see the change, as with Kafka.
func (b *Broker) change(ctx context.Context, r *protocol.Request, req kmsg.Request) (kmsg.Response, error) {
	if r.Refusal != nil {
		return nil, r.Refusal
	}
	return b.Controller.Do(ctx, r.Conn.Principal(), req)
}

// config is the broker's configuration as it is now, with what was changed while it runs.
func (b *Broker) config() config.Layers {
	own, clusterDefault := b.dynamicConfigs()
	return b.Static.WithDynamic(own, clusterDefault)
}
