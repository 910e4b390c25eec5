package protocol

import (
	"context"
	"net"
	"syscall"
	"time"
)

// DialTCP connects to another node. The connection ends once the node's machine has acknowledged nothing of what it
// owes an answer to for about patience, where the system can do that: a paused or busy process ends it only once it has
// room for nothing more, since its kernel answers. 0: the system's own patience, a quarter of an hour.
func DialTCP(ctx context.Context, address string, patience time.Duration) (net.Conn, error) {
	if patience <= 0 {
		return new(net.Dialer).DialContext(ctx, "tcp", address)
	}
	const asks = time.Second // the finest that systems know
	d := net.Dialer{
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: asks, Interval: asks, Count: max(int(patience/asks), 1)},
		Control:         func(_, _ string, c syscall.RawConn) error { return limitUnacknowledged(c, patience) },
	}
	return d.DialContext(ctx, "tcp", address)
}
