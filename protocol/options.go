package protocol

import (
	"time"

	"github.com/rs/zerolog"

	"grete/internal/clock"
	"grete/internal/memory"
	"grete/internal/metrics"
)

// Options bound a server; names in comments are Kafka's. Zero values mean Kafka's defaults where it has them.
type Options struct {
	Clock                               clock.Clock
	Log                                 zerolog.Logger
	Metrics                             *metrics.Network // nil: nothing is measured
	Memory                              *memory.Ledger   // nil: one of its own
	MaxRequestBytes                     int              // socket.request.max.bytes
	MaxQueuedBytes                      int64            // queued.max.request.bytes; <= 0: the ledger's share
	MaxInFlight                         int              // requests of one connection being handled, then it is not read
	MaxIdle                             time.Duration    // connections.max.idle.ms; < 0: never
	Limits                              Limits
	SendBufferBytes, ReceiveBufferBytes int           // socket.send.buffer.bytes, socket.receive.buffer.bytes; <= 0: the system's
	FrameTimeout                        time.Duration // for each progressBytes of a frame that has begun
	SendTimeout                         time.Duration // for a peer that reads nothing of its responses
	AuthTimeout                         time.Duration // for a connection to be authenticated
	// Security is how connections are secured, by listener.
	Security map[string]*Security
}

const (
	defaultMaxRequestBytes = 100 << 20
	defaultMaxInFlight     = 100
	defaultMaxIdle         = 10 * time.Minute
	defaultFrameTimeout    = 30 * time.Second
	defaultSendTimeout     = time.Minute
)

func (o *Options) setDefaults() {
	if o.Clock == nil {
		o.Clock = clock.System
	}
	setDefault(&o.MaxRequestBytes, defaultMaxRequestBytes)
	setDefault(&o.MaxInFlight, defaultMaxInFlight)
	setDefault(&o.FrameTimeout, defaultFrameTimeout)
	setDefault(&o.SendTimeout, defaultSendTimeout)
	setDefault(&o.AuthTimeout, defaultAuthTimeout)
	if o.MaxIdle == 0 {
		o.MaxIdle = defaultMaxIdle
	}
	if o.Memory == nil {
		o.Memory = memory.New(0)
	}
	o.Memory = o.Memory.WithRequests(o.MaxQueuedBytes)
}

func setDefault[T int | time.Duration](v *T, to T) {
	if *v <= 0 {
		*v = to
	}
}
