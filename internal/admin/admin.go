// Package admin is the HTTP side of a broker (admin.listen): metrics, health, readiness and profiles.
package admin

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Bounds of a request, so that a peer that stalls holds nothing for long. Profiles take as long as they were asked for.
const (
	headerTimeout  = 5 * time.Second
	idleTimeout    = time.Minute
	maxHeaderBytes = 16 << 10
)

// Options say what is served.
type Options struct {
	Gatherer prometheus.Gatherer
	// Healthy is nil while the broker can work; its error is shown. Nil: always.
	Healthy func() error
	// Ready is nil while the broker should get traffic; its error is shown. Nil: as Healthy.
	Ready func() error
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
		return nil, fmt.Errorf("admin.listen=%s: %w; --set admin.listen=host:port names another address, --set admin.listen= none", addr, reason(err))
	}
	s := &Server{addr: l.Addr(), served: make(chan error, 1), http: &http.Server{
		Handler: newMux(o), ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
	}}
	go func() { s.served <- s.http.Serve(l) }()
	return s, nil
}

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

// Shutdown stops listening and waits for requests under way; when ctx ends first it cuts them.
func (s *Server) Shutdown(ctx context.Context) error {
	err := s.http.Shutdown(ctx)
	if err != nil {
		s.http.Close()
	}
	if served := <-s.served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

func newMux(o Options) *http.ServeMux {
	if o.Healthy == nil {
		o.Healthy = func() error { return nil }
	}
	if o.Ready == nil {
		o.Ready = o.Healthy
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(o.Gatherer, promhttp.HandlerOpts{MaxRequestsInFlight: 2}))
	mux.HandleFunc("GET /healthz", check(o.Healthy))
	mux.HandleFunc("GET /readyz", check(o.Ready))
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return mux
}

// check answers 200 "ok", or 503 with what is wrong.
func check(state func() error) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		if err := state(); err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprintln(w, err)
			return
		}
		fmt.Fprintln(w, "ok")
	}
}
