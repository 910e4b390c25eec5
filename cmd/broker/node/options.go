// Package node puts a broker together from its rooms, starts it and stops it. The program and the tests that need a
// whole broker in their process use the same Start.
package node

import (
	"context"
	"io"
	"net"
	"time"

	"github.com/rs/zerolog"

	"grete/handlers"
	"grete/internal/clock"
	"grete/internal/config"
	"grete/internal/memory"
	"grete/internal/ports"
	"grete/internal/vfs"
	"grete/protocol"
)

// Options are a broker's configuration and its world.
type Options struct {
	Config  *config.Broker
	FS      vfs.FS
	Clock   clock.Clock
	Entropy io.Reader // random bytes: ids, jitter, elections
	Log     zerolog.Logger
	Loggers handlers.Loggers
	// Memory is what the process may use; nil: a ledger of this node's own, of a size that tests can live with.
	Memory *memory.Ledger
	// Listen opens a socket for other nodes; nil means net.Listen.
	Listen func(network, address string) (net.Listener, error)
	// Bind takes a port for clients, who are let in when the broker can serve them; nil means ports.Bind, or Listen
	// where that is given.
	Bind func(network, address string) (ports.Port, error)
	// ListenPacket opens a socket for gossip's packets; nil means net.ListenPacket, but a world with sockets of its own
	// and no packets has no gossip.
	ListenPacket func(network, address string) (net.PacketConn, error)
	// Dial connects to other nodes; nil means TCP.
	Dial func(ctx context.Context, address string) (net.Conn, error)
}

const (
	// handOverTimeout bounds the controlled shutdown; what still leads then is elected elsewhere when this broker is
	// gone.
	handOverTimeout = 10 * time.Second
	// closeTimeout bounds a part's stop when the caller's context does not.
	closeTimeout = 10 * time.Second
)

func (o *Options) fill() {
	switch {
	case o.Bind != nil:
	case o.Listen == nil:
		o.Bind = ports.Bind
	default:
		o.Bind = ports.Listening(o.Listen)
	}
	if o.Listen == nil {
		o.Listen = net.Listen
		if o.ListenPacket == nil {
			o.ListenPacket = net.ListenPacket
		}
	}
	if o.Dial == nil {
		o.Dial = func(ctx context.Context, address string) (net.Conn, error) {
			return protocol.DialTCP(ctx, address, millis(o.Config.Int("broker.silence.patience.ms")))
		}
	}
	if o.Memory == nil {
		o.Memory = memory.New(0)
	}
	if o.Clock == nil {
		o.Clock = clock.System
	}
}
