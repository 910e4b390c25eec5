package admin

import (
	"fmt"
	"net/http"
	"net/http/pprof"
	"strconv"
)

// maxProfileSeconds bounds profiles that take time, which cost the broker while they run.
const maxProfileSeconds = 60

// profiles serves Go's own, but not the command line, which may have secrets in it.
func profiles() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", http.NotFound)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if text := r.URL.Query().Get("seconds"); text != "" {
			if s, err := strconv.ParseFloat(text, 64); err != nil || !(s >= 0 && s <= maxProfileSeconds) {
				http.Error(w, fmt.Sprintf("seconds=%s: from 0 to %d", text, maxProfileSeconds), http.StatusBadRequest)
				return
			}
		}
		mux.ServeHTTP(w, r)
	})
}
