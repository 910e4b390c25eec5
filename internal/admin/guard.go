package admin

import (
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// guard refuses requests with the name of another host than this one, unless anyName: such a request comes from a web
// page that has its own name resolve to this address (DNS rebinding), and could read the answer. Scrapes and probes of
// a listener that all can reach use names that nobody here knows.
func guard(configured string, anyName bool, next http.Handler) http.Handler {
	if anyName {
		return next
	}
	own, _, _ := net.SplitHostPort(configured)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isOwn(r.Host, own) {
			http.Error(w, "this listener has no such name; use its address", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func isLoopback(a net.Addr) bool {
	tcp, ok := a.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// isOwn says whether a Host header names the listener itself: by address, as localhost, or as it is configured.
func isOwn(header, own string) bool {
	host := header
	if h, _, err := net.SplitHostPort(header); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.ToLower(strings.Trim(host, "[]")), ".")
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	return host == "localhost" || own != "" && host == strings.ToLower(own)
}

// sameSite refuses what a web page of another site asks for: a profile costs the broker even where the page cannot read
// it.
func sameSite(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Header.Get("Sec-Fetch-Site") {
		case "", "none", "same-origin":
			next.ServeHTTP(w, r)
		default:
			http.Error(w, "profiles are not for other sites", http.StatusForbidden)
		}
	})
}

// demand refuses requests without the token, but those for health and readiness: what probes a node knows no secrets.
func demand(token string, next http.Handler) http.Handler {
	if token == "" {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		given := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		if r.URL.Path != "/healthz" && r.URL.Path != "/readyz" && subtle.ConstantTimeCompare([]byte(given), []byte(token)) != 1 {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "admin.token is wanted", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}
