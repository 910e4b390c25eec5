package handlers

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/internal/config"
	"grete/protocol"
)

// apis is a table with its rows by key.
type apis struct {
	list []API
	rows map[int16]*API
}

// clientAPIs is what listeners for clients serve, controllerAPIs what controller listeners do. They are set by init because
// ApiVersions, which is in the tables, shows them.
var clientAPIs, controllerAPIs apis

func init() {
	clientAPIs, controllerAPIs = apisOf(table), apisOf(controllerTable)
}

func apisOf(list []API) apis {
	a := apis{list, map[int16]*API{}}
	for i := range list {
		a.rows[list[i].Key] = &list[i]
	}
	return a
}

func (b *Broker) apis() *apis {
	if b.ForControllers {
		return &controllerAPIs
	}
	return &clientAPIs
}

// Versions is the table as the server checks requests against it and as ApiVersions announces it.
func (b *Broker) Versions() []protocol.VersionRange {
	list := b.apis().list
	out := make([]protocol.VersionRange, len(list))
	for i, api := range list {
		out[i] = protocol.VersionRange{Key: api.Key, Min: api.Min, Max: api.Max}
	}
	return out
}

// Serve hands a request to its row of the table; the server lets no key pass that has none.
func (b *Broker) Serve(ctx context.Context, r *protocol.Request) {
	defer b.contain(r)
	b.apis().rows[r.Key].Handle(b, ctx, r)
}

// change runs a request that changes cluster metadata, and waits: the connection's later requests are read only after,
// so that they see the change, as with Kafka.
func (b *Broker) change(ctx context.Context, r *protocol.Request, req kmsg.Request) (kmsg.Response, error) {
	return b.Controller.Do(ctx, r.Conn.Principal(), req)
}

// config is the broker's configuration as it is now, with what was changed while it runs.
func (b *Broker) config() config.Layers {
	own, clusterDefault := b.dynamicConfigs()
	return b.Static.WithDynamic(own, clusterDefault)
}
