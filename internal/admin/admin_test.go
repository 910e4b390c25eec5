package admin

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"grete/internal/clock"
	"grete/internal/metrics"
)

func start(t *testing.T, o Options) *Server {
	t.Helper()
	s, err := Start("127.0.0.1:0", o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Error(err)
		}
	})
	return s
}

func get(t *testing.T, s *Server, path string) (int, string) {
	t.Helper()
	resp, err := http.Get("http://" + s.Addr().String() + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func TestPages(t *testing.T) {
	m := metrics.New(clock.System)
	m.Topics.Topic("orders").BytesIn.Add(7)
	s := start(t, Options{Gatherer: m.Registry, Profiles: true})
	for path, want := range map[string]string{
		"/metrics":                       `kafka_server_brokertopicmetrics_bytesin_total{topic="orders"} 7`,
		"/healthz":                       "ok",
		"/readyz":                        "ok",
		"/debug/pprof/":                  "goroutine",
		"/debug/pprof/goroutine?debug=1": "goroutine profile",
	} {
		if code, body := get(t, s, path); code != 200 || !strings.Contains(body, want) {
			t.Errorf("%s: %d without %q", path, code, want)
		}
	}
	if code, _ := get(t, s, "/nothing"); code != 404 {
		t.Errorf("/nothing: %d", code)
	}
}

func TestHealthAndReadinessFollowTheBroker(t *testing.T) {
	var ready atomic.Bool
	s := start(t, Options{
		Gatherer: metrics.New(clock.System).Registry,
		Ready: func() error {
			if !ready.Load() {
				return errors.New("logs are being recovered")
			}
			return nil
		},
	})
	if code, body := get(t, s, "/readyz"); code != 503 || !strings.Contains(body, "recovered") {
		t.Errorf("not ready: %d %q", code, body)
	}
	if code, _ := get(t, s, "/healthz"); code != 200 {
		t.Errorf("healthy: %d", code)
	}
	ready.Store(true)
	if code, _ := get(t, s, "/readyz"); code != 200 {
		t.Errorf("ready: %d", code)
	}
}

func TestBadAddressesAreOneLine(t *testing.T) {
	taken := start(t, Options{Gatherer: metrics.New(clock.System).Registry})
	for _, addr := range []string{taken.Addr().String(), "127.0.0.1:99999", "nonsense", "256.1.1.1:80"} {
		s, err := Start(addr, Options{Property: "admin.listen"})
		if err == nil {
			_ = s.Shutdown(context.Background())
			t.Fatalf("%s: listening", addr)
		}
		if msg := err.Error(); !strings.HasPrefix(msg, "admin.listen="+addr) || strings.Contains(msg, "\n") {
			t.Errorf("%q", msg)
		}
	}
}

func TestShutdownCutsWhatOutlastsItsContext(t *testing.T) {
	began, ended := make(chan struct{}), make(chan struct{})
	s, err := Start("127.0.0.1:0", Options{Gatherer: metrics.New(clock.System).Registry, Ready: func() error {
		close(began)
		<-t.Context().Done() // longer than anybody waits for
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(ended)
		if resp, err := http.Get("http://" + s.Addr().String() + "/readyz"); err == nil {
			resp.Body.Close()
			t.Error("a request that was cut has an answer")
		}
	}()
	<-began
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil {
		t.Errorf("Shutdown: %v", err)
	}
	<-ended
}
