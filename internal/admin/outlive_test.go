package admin

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"grete/internal/clock"
	"grete/internal/metrics"
)

// largePage has more metrics than a connection buffers.
func largePage() prometheus.Gatherer {
	r := prometheus.NewRegistry()
	gauge := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "large"}, []string{"topic"})
	r.MustRegister(gauge)
	for i := range 20_000 {
		gauge.WithLabelValues(fmt.Sprintf("%d-%s", i, strings.Repeat("t", 1500))).Set(1)
	}
	return r
}

// stall asks for a page and reads the first line alone.
func stall(t *testing.T, s *Server) net.Conn {
	t.Helper()
	nc, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	fmt.Fprint(nc, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
	if line, err := bufio.NewReaderSize(nc, 16).ReadSlice('\n'); err != nil && err != bufio.ErrBufferFull {
		t.Fatalf("%q: %v", line, err)
	}
	return nc
}

// Those who ask for metrics and do not read them keep nobody else from them.
func TestScrapesOutliveSlowReaders(t *testing.T) {
	s := start(t, Options{Gatherer: largePage()})
	var stalled []net.Conn
	for range maxPages + 2 {
		stalled = append(stalled, stall(t, s))
	}
	for range 3 {
		if code, body := get(t, s, "/metrics"); code != 200 || strings.Count(body, "\nlarge{") != 20_000 {
			t.Fatalf("%d, %d bytes", code, len(body))
		}
	}
	_ = stalled[0].SetReadDeadline(time.Now().Add(writeTimeout))
	if n, err := io.Copy(io.Discard, stalled[0]); err != nil && !strings.Contains(err.Error(), "reset") || n > 25<<20 {
		t.Errorf("the first to stall was not cut: %d bytes, %v", n, err)
	}
}

// A stop does not wait for somebody who does not read.
func TestShutdownDoesNotWaitForSlowReaders(t *testing.T) {
	s, err := Start("127.0.0.1:0", Options{Gatherer: largePage()})
	if err != nil {
		t.Fatal(err)
	}
	stall(t, s)
	ctx, cancel := context.WithTimeout(context.Background(), writeTimeout)
	defer cancel()
	begun := time.Now()
	if err := s.Shutdown(ctx); err != nil || time.Since(begun) > writeTimeout/2 {
		t.Errorf("%v after %v", err, time.Since(begun))
	}
}

// Connections that are opened and say nothing keep nobody out.
func TestConnectionsAreBounded(t *testing.T) {
	s := start(t, Options{Gatherer: metrics.New(clock.System).Registry})
	var silent []net.Conn
	for range 3 * maxConnections {
		nc, err := net.Dial("tcp", s.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		silent = append(silent, nc)
	}
	if code, _ := get(t, s, "/healthz"); code != 200 {
		t.Error(code)
	}
	_ = silent[0].SetReadDeadline(time.Now().Add(headerTimeout / 2))
	if _, err := silent[0].Read(make([]byte, 1)); err == nil || strings.Contains(err.Error(), "timeout") {
		t.Errorf("the first connection is still there: %v", err)
	}
}

func ask(t *testing.T, s *Server, path string, header ...string) (int, string) {
	t.Helper()
	r, err := http.NewRequest("GET", "http://"+s.Addr().String()+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		if r.Header.Set(header[i], header[i+1]); header[i] == "Host" {
			r.Host = header[i+1]
		}
	}
	resp, err := http.DefaultClient.Do(r)
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

func TestNamesOfOtherHostsAreRefused(t *testing.T) {
	o := Options{Gatherer: metrics.New(clock.System).Registry, Profiles: true}
	local := start(t, o)
	for host, code := range map[string]int{
		"127.0.0.1:1": 200, "[::1]:9640": 200, "localhost": 200, "LocalHost.:9640": 200,
		"evil.example": 421, "evil.example:9640": 421, "localhost.evil.example": 421, "127.0.0.1.evil.example": 421, "": 400,
	} {
		for _, path := range []string{"/metrics", "/healthz", "/debug/pprof/"} {
			if host == "" {
				continue // a client sends the address then
			}
			if got, _ := ask(t, local, path, "Host", host); got != code {
				t.Errorf("%s as %q: %d", path, host, got)
			}
		}
	}
	o.Token = "x"
	open, err := Start("0.0.0.0:0", o)
	if err != nil {
		t.Fatal(err)
	}
	defer open.Shutdown(context.Background())
	for path, code := range map[string]int{"/metrics": 200, "/debug/pprof/": 404} { // scrapes come by any name; profiles are not for everyone
		if got, _ := ask(t, open, path, "Host", "grete-0.grete.svc:9640", "Authorization", "Bearer x"); got != code {
			t.Errorf("%s: %d", path, got)
		}
	}
}

func TestProfilesAreBounded(t *testing.T) {
	s := start(t, Options{Gatherer: metrics.New(clock.System).Registry, Profiles: true})
	for path, code := range map[string]int{
		"/debug/pprof/trace?seconds=3600": 400, "/debug/pprof/profile?seconds=61": 400, "/debug/pprof/heap?seconds=1e9": 400,
		"/debug/pprof/profile?seconds=NaN": 400, "/debug/pprof/trace?seconds=-1": 400, "/debug/pprof/trace?seconds=0.01": 200,
		"/debug/pprof/cmdline": 404, "/debug/pprof/heap": 200,
	} {
		if got, body := get(t, s, path); got != code {
			t.Errorf("%s: %d %s", path, got, body)
		}
	}
	if code, _ := ask(t, s, "/debug/pprof/heap", "Sec-Fetch-Site", "cross-site"); code != 403 {
		t.Errorf("for another site: %d", code)
	}
	none := start(t, Options{Gatherer: metrics.New(clock.System).Registry})
	if code, _ := get(t, none, "/debug/pprof/heap"); code != 404 {
		t.Errorf("without profiles: %d", code)
	}
	alone := start(t, Options{Profiles: true})
	if code, _ := get(t, alone, "/metrics"); code != 404 {
		t.Errorf("metrics beside profiles: %d", code)
	}
	if code, _ := get(t, alone, "/debug/pprof/goroutine"); code != 200 {
		t.Errorf("profiles alone: %d", code)
	}
}

func TestReadinessShowsNotes(t *testing.T) {
	s := start(t, Options{Gatherer: metrics.New(clock.System).Registry, Notes: func() []string { return []string{"log directory /b is offline"} }})
	if code, body := get(t, s, "/readyz"); code != 200 || body != "ok\nlog directory /b is offline\n" {
		t.Errorf("%d %q", code, body)
	}
	if _, body := get(t, s, "/healthz"); body != "ok\n" {
		t.Errorf("%q", body)
	}
}
