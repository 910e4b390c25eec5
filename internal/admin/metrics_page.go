package admin

import (
	"bytes"
	"context"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

const (
	// maxPages is how many pages of metrics are held for readers that have not taken them; one more cuts the oldest.
	maxPages = 4
	// gatherWait is how long a scrape waits for its turn.
	gatherWait = 10 * time.Second
)

// metricsPage gathers for one scrape at a time. A page is complete before the first byte is sent, so that a slow reader
// keeps nobody else waiting.
type metricsPage struct {
	page    http.Handler
	turn    chan struct{}
	readers *holders[*http.ResponseController]
}

func newMetricsPage(g prometheus.Gatherer) *metricsPage {
	return &metricsPage{
		page: promhttp.HandlerFor(g, promhttp.HandlerOpts{}), turn: make(chan struct{}, 1),
		readers: newHolders(maxPages, func(reader *http.ResponseController) { _ = reader.SetWriteDeadline(time.Unix(1, 0)) }),
	}
}

// ServeHTTP implements http.Handler.
func (m *metricsPage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	wait, cancel := context.WithTimeout(r.Context(), gatherWait)
	defer cancel()
	select {
	case m.turn <- struct{}{}:
	case <-wait.Done():
		http.Error(w, "other scrapes take too long", http.StatusServiceUnavailable)
		return
	}
	p := &page{ResponseWriter: w, status: http.StatusOK}
	m.page.ServeHTTP(p, r)
	<-m.turn
	reader := http.NewResponseController(w)
	m.readers.enter(reader)
	defer m.readers.leave(reader)
	w.WriteHeader(p.status)
	_, _ = w.Write(p.body.Bytes()) // a reader that goes away is its own loss
}

// page is a response that is kept until it is whole.
type page struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

func (p *page) WriteHeader(status int)         { p.status = status }
func (p *page) Write(text []byte) (int, error) { return p.body.Write(text) }
