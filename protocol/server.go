// Package protocol is the wire: frames, headers, version negotiation, bounded decoding, the connection with its
// reader and its ordered writer, and the client side that brokers use among themselves. It knows no handler.
package protocol

// Contract file: signatures that other rooms compile against. The owner fills in and splits.

import (
	"context"
	"net"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/internal/clock"
	"grete/internal/vfs"
)

// VersionRange is one row of ApiVersions.
type VersionRange struct{ Key, Min, Max int16 }

// Handler serves decoded requests. Serve runs on the connection's reader goroutine and must not block on
// anything slower than a local append: it answers with Respond now, or keeps r and answers later from elsewhere.
type Handler interface {
	// Versions is the table of what is served; the server closes a connection that asks for anything else (except
	// ApiVersions of a too-new version, which reaches Serve with Body == nil).
	Versions() []VersionRange
	Serve(ctx context.Context, r *Request)
}

// Request is one request of a connection. Body and what it points to alias a pooled buffer: they are valid
// until Respond, NoResponse or Abort, exactly one of which must be called exactly once, from any goroutine.
type Request struct {
	Key, Version  int16
	CorrelationID int32
	ClientID      *string
	Body          kmsg.Request
	SizeBytes     int
	Received      time.Time
	Conn          *Conn
}

// Respond queues resp; responses leave in the order of their requests.
func (r *Request) Respond(resp kmsg.Response) { panic("unwritten") }

// RespondParts queues a response body encoded by the caller (after the response header, which is added here):
// bytes and file regions in turn. release, if not nil, is called once the parts are sent or dropped.
func (r *Request) RespondParts(parts []Part, release func()) { panic("unwritten") }

// NoResponse ends a request that has no answer (Produce with acks 0) and takes no slot in the order.
func (r *Request) NoResponse() { panic("unwritten") }

// Abort closes the connection after the responses before this one have been sent.
func (r *Request) Abort(reason string) { panic("unwritten") }

// Part is Bytes, or a file region where Bytes is nil.
type Part struct {
	Bytes  []byte
	Region vfs.Region
}

// Conn is an accepted connection as handlers see it.
type Conn struct {
	ID         uint64
	Listener   string // name of the listener it came in on, such as PLAINTEXT
	RemoteAddr net.Addr
	LocalAddr  net.Addr
	// ClientSoftware is set by ApiVersions v3+.
	SoftwareName, SoftwareVersion string
}

// Principal is who a connection authenticated as; User:ANONYMOUS without authentication.
type Principal struct{ Type, Name string }

// Principal returns the connection's principal.
func (c *Conn) Principal() Principal { panic("unwritten") }

// Context is cancelled when the connection is gone: parked work for it can be dropped.
func (c *Conn) Context() context.Context { panic("unwritten") }

// Mute stops reading further requests for d (quota), counted from now.
func (c *Conn) Mute(d time.Duration) { panic("unwritten") }

// Options bound a server; names in comments are Kafka's.
type Options struct {
	Clock                               clock.Clock
	Log                                 zerolog.Logger
	MaxRequestBytes                     int            // socket.request.max.bytes
	MaxQueuedBytes                      int64          // queued.max.request.bytes; <= 0: a share of memory
	MaxInFlight                         int            // requests of one connection being handled, then it is not read
	MaxIdle                             time.Duration  // connections.max.idle.ms
	MaxConnections                      int            // max.connections
	MaxConnectionsPerIP                 int            // max.connections.per.ip
	ConnectionsPerIPOverrides           map[string]int // max.connections.per.ip.overrides
	SendBufferBytes, ReceiveBufferBytes int            // socket.send.buffer.bytes, socket.receive.buffer.bytes
}

// Server serves one or more listeners with one budget.
type Server struct{}

func NewServer(h Handler, o Options) *Server { panic("unwritten") }

// Serve accepts on l, named listener, until Shutdown.
func (s *Server) Serve(listener string, l net.Listener) error { panic("unwritten") }

// Shutdown stops accepting and reading, finishes what was accepted, sends its responses, closes; ctx bounds it.
func (s *Server) Shutdown(ctx context.Context) error { panic("unwritten") }
