package handlers

import (
	"context"

	"grete/protocol"
)

// Handler serves the table's APIs to a protocol.Server.
type Handler struct {
	broker *Broker
	byKey  map[int16]*API
}

// NewHandler serves for b.
func NewHandler(b *Broker) *Handler {
	h := &Handler{broker: b, byKey: make(map[int16]*API, len(table))}
	for i := range table {
		h.byKey[table[i].Key] = &table[i]
	}
	return h
}

// Versions is the table's.
func (h *Handler) Versions() []protocol.VersionRange {
	out := make([]protocol.VersionRange, 0, len(table))
	for _, a := range table {
		out = append(out, protocol.VersionRange{Key: a.Key, Min: a.Min, Max: a.Max})
	}
	return out
}

// Serve implements protocol.Handler.
func (h *Handler) Serve(ctx context.Context, r *protocol.Request) {
	h.byKey[r.Key].Handle(h.broker, ctx, r)
}
