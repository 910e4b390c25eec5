// Package admin is the HTTP side of a broker: metrics, health and readiness (admin.listen), and profiles
// (admin.pprof.listen).
package admin

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Bounds of a request, so that a peer that stalls holds nothing for long. Profiles have as much longer as they were
// asked for.
const (
	headerTimeout  = 5 * time.Second
	writeTimeout   = 30 * time.Second
	idleTimeout    = time.Minute
	maxHeaderBytes = 16 << 10
	// maxConnections of a listener: one more ends the one that has done nothing for longest.
	maxConnections = 32
	// drainTimeout is how long a stop waits for requests under way.
	drainTimeout = time.Second
)

// Options say what is served.
type Options struct {
	Gatherer prometheus.Gatherer // nil: no metrics, health and readiness
	// Healthy is nil while the broker can work; its error is shown. Nil: always.
	Healthy func() error
	// Ready is nil while the broker should get traffic; its error is shown. Nil: as Healthy.
	Ready func() error
	// Notes are shown by readiness below its answer, one a line: what is wrong and leaves the broker of use.
	Notes func() []string
	// Profiles says that pprof is served; beside metrics only where the address is a loopback address.
	Profiles bool
	// TLS, if not nil, is the configuration of the listener.
	TLS *tls.Config
	// Token is what requests must bring, but for health and readiness; "": none.
	Token string
	// Property is the name of the address's, for errors.
	Property string
}

// Server is a running admin listener.
type Server struct {
	addr   net.Addr
	http   *http.Server
	served chan error
}

// Start listens on addr (host:port; port 0 chooses one) and serves until Shutdown.
func Start(addr string, o Options) (*Server, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("%s=%s: %w; --set %[1]s=host:port names another address, --set %[1]s= none", o.Property, addr, reason(err))
	}
	if !isLoopback(l.Addr()) && o.TLS == nil && o.Token == "" {
		l.Close()
		return nil, fmt.Errorf("%s=%s: %w", o.Property, addr, errOpen)
	}
	if o.TLS != nil {
		l = tls.NewListener(l, o.TLS)
	}
	open := newHolders[net.Conn](maxConnections, func(nc net.Conn) { nc.Close() })
	s := &Server{addr: l.Addr(), served: make(chan error, 1), http: &http.Server{
		Handler: guard(addr, !isLoopback(l.Addr()), demand(o.Token, newMux(addr, isLoopback(l.Addr()), o))), ReadHeaderTimeout: headerTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: maxHeaderBytes, ErrorLog: log.New(io.Discard, "", 0), // what peers send is no news
		ConnState: func(nc net.Conn, state http.ConnState) {
			if state == http.StateClosed || state == http.StateHijacked {
				open.leave(nc)
			} else {
				open.enter(nc)
			}
		},
	}}
	go func() { s.served <- s.http.Serve(l) }()
	return s, nil
}

// errOpen refuses a listener that others than this machine's users reach without more.
var errOpen = errors.New("other machines can reach it; it needs admin.security.protocol=SSL or admin.token")

// reason takes what the prefix says already off the error of net.Listen.
func reason(err error) error {
	var op *net.OpError
	if errors.As(err, &op) && op.Err != nil {
		return op.Err
	}
	return err
}

// Addr is the address listened on.
func (s *Server) Addr() net.Addr { return s.addr }

// Shutdown stops listening and waits for requests under way; after drainTimeout, or when ctx ends first, it cuts them.
// A peer that does not read must not keep a broker from stopping.
func (s *Server) Shutdown(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, drainTimeout)
	defer cancel()
	err := s.http.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		err = s.http.Close()
	}
	if served := <-s.served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

func newMux(addr string, local bool, o Options) *http.ServeMux {
	if o.Healthy == nil {
		o.Healthy = func() error { return nil }
	}
	if o.Ready == nil {
		o.Ready = o.Healthy
	}
	mux := http.NewServeMux()
	if o.Gatherer != nil {
		mux.Handle("GET /metrics", newMetricsPage(o.Gatherer))
		mux.HandleFunc("GET /healthz", check(o.Healthy, nil))
		mux.HandleFunc("GET /readyz", check(o.Ready, o.Notes))
	}
	if o.Profiles && (o.Gatherer == nil || local) {
		mux.Handle("GET /debug/pprof/", guard(addr, false, sameSite(profiles())))
	}
	return mux
}

// check answers 200 "ok", or 503 with what is wrong; then the notes.
func check(state func() error, notes func() []string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		if err := state(); err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprintln(w, err)
		} else {
			fmt.Fprintln(w, "ok")
		}
		if notes == nil {
			return
		}
		for _, note := range notes() {
			fmt.Fprintln(w, note)
		}
	}
}
