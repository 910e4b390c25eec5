// Package handlers has one file per API or small family: decode, authorize, call a room below, encode.
package handlers

import (
	"context"

	"grete/protocol"
)

// API is one row: a key, the versions that work, and what serves it.
type API struct {
	Key, Min, Max int16
	Handle        func(*Broker, context.Context, *protocol.Request)
}

// table lists every API explicitly, by key.
var table = []API{}
