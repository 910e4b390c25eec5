package node

import (
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"grete/internal/vfs"
)

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	resp, err := http.Get(url)
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

func TestMetricsAndHealth(t *testing.T) {
	n := start(t, options(t, vfs.NewMem(), "admin.listen=127.0.0.1:0"))
	address := n.AdminAddr()
	cl := client(t, n)
	createTopic(t, cl, "orders", 2)
	produce(t, cl, "orders", 0, 10)
	for _, path := range []string{"/healthz", "/readyz"} {
		if code, body := get(t, "http://"+address+path); code != 200 || body != "ok\n" {
			t.Errorf("%s: %d %q", path, code, body)
		}
	}
	_, body := get(t, "http://"+address+"/metrics")
	for _, line := range []string{
		"kafka_controller_kafkacontroller_activecontrollercount 1", "kafka_controller_kafkacontroller_globalpartitioncount 2",
		"kafka_controller_kafkacontroller_activebrokercount 1", "kafka_controller_kafkacontroller_offlinepartitionscount 0", "kafka_controller_kafkacontroller_newactivecontrollerscount 1",
		"kafka_server_replicamanager_leadercount 2", `kafka_log_log_numlogsegments{partition="0",topic="orders"} 1`,
		`kafka_server_brokertopicmetrics_messagesin_total{topic="orders"} 10`, "kafka_log_logmanager_offlinelogdirectorycount 0",
		"kafka_server_fetchsessioncache_numincrementalfetchsessions 0",
		`kafka_log_logcleanermanager_uncleanable_partitions_count{logDirectory="/data"} 0`, "kafka_log_logcleaner_cleaner_recopy_percent 0",
	} {
		if !strings.Contains(body, line+"\n") {
			t.Errorf("no %q in the metrics", line)
		}
	}
}

// docs/METRICS.md names every metric, or its end behind an ellipsis, and none that is not there.
func TestMetricsAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../../../docs/METRICS.md")
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{}
	for _, span := range regexp.MustCompile("`[^`\n]+`").FindAllString(string(page), -1) {
		named[strings.Trim(span, "`…")] = true
	}
	a, fs := newCA(t), vfs.NewMem()
	a.put(fs, "/node.pem", "node", 365)
	write(t, fs, "/ca.pem", a.Certificate())
	n := start(t, options(t, fs, "admin.listen=127.0.0.1:0", "listeners=PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0", tlsProperties))
	cl := client(t, n)
	createTopic(t, cl, "orders", 1)
	produce(t, cl, "orders", 0, 1)
	_, body := get(t, "http://"+n.AdminAddr()+"/metrics")
	shown := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^(kafka_[a-z]+_[a-z]+_)([a-z_]+)`).FindAllStringSubmatch(body, -1) {
		group, name := m[1], m[2]
		for _, s := range []string{group + name, name, strings.TrimSuffix(name, "_total"), group + "…_total"} {
			shown[s] = true
		}
		if aggregate := regexp.MustCompile(`ms_(count|sum)$`).FindString(name); aggregate != "" {
			name = aggregate
			shown[name] = true
		}
		if !named[group+name] && !named[name] && !named[strings.TrimSuffix(name, "_total")] {
			t.Errorf("docs/METRICS.md does not name %s", m[0])
		}
	}
	shown["kafka_server_fetcherlagmetrics_consumerlag"] = true // where there is a leader to follow: TestReplicationMetrics
	for name := range named {
		if regexp.MustCompile("^kafka_").MatchString(name) && !shown[name] {
			t.Errorf("docs/METRICS.md names %s, which a broker does not show", name)
		}
	}
}

// Profiles are beside the metrics where only this machine gets, on an address of their own where they are wanted, else
// nowhere.
func TestProfilesAreApart(t *testing.T) {
	for _, tt := range []struct {
		listen, pprof         string
		besideMetrics, onOwns bool
	}{
		{"127.0.0.1:0", "", true, false},
		{"0.0.0.0:0", "admin.token=x", false, false},
		{"127.0.0.1:0", "admin.pprof.listen=", false, false},
		{"0.0.0.0:0", "admin.token=x\nadmin.pprof.listen=127.0.0.1:0", false, true},
	} {
		settings := []string{"admin.listen=" + tt.listen}
		if tt.pprof != "" {
			settings = append(settings, tt.pprof)
		}
		n := start(t, options(t, vfs.NewMem(), settings...))
		_, port, err := net.SplitHostPort(n.AdminAddr())
		if err != nil {
			t.Fatal(err)
		}
		if code, _ := get(t, "http://127.0.0.1:"+port+"/debug/pprof/goroutine"); (code == 200) != tt.besideMetrics {
			t.Errorf("%+v: %d beside the metrics", tt, code)
		}
		if (n.ProfilesAddr() != "") != tt.onOwns {
			t.Fatalf("%+v: %q", tt, n.ProfilesAddr())
		}
		if tt.onOwns {
			if code, _ := get(t, "http://"+n.ProfilesAddr()+"/debug/pprof/goroutine"); code != 401 {
				t.Errorf("%+v: %d without the token", tt, code)
			}
			if code := getAs(t, "http://"+n.ProfilesAddr()+"/debug/pprof/goroutine", "x"); code != 200 {
				t.Errorf("%+v: %d", tt, code)
			}
		}
	}
}

// getAs asks with a token.
func getAs(t *testing.T, url, token string) int {
	t.Helper()
	req, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode
}

// An HTTP listener that other machines reach wants TLS or a token; with a token everything but health and readiness is
// for those that have it.
func TestAdminBeyondThisMachine(t *testing.T) {
	for _, property := range []string{"admin.listen=0.0.0.0:0", "admin.pprof.listen=0.0.0.0:0"} {
		n, err := Start(t.Context(), options(t, vfs.NewMem(), property))
		if err == nil {
			stopNode(t, n)
			t.Errorf("%s: started", property)
		} else if want := property + ": other machines can reach it"; !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	n := start(t, options(t, vfs.NewMem(), "admin.listen=0.0.0.0:0\nadmin.token=x"))
	_, port, _ := net.SplitHostPort(n.AdminAddr())
	at := "http://127.0.0.1:" + port
	for path, want := range map[string][2]int{"/healthz": {200, 200}, "/readyz": {200, 200}, "/metrics": {401, 200}, "/nothing": {401, 404}} {
		for i, token := range []string{"y", "x"} {
			if code := getAs(t, at+path, token); code != want[i] {
				t.Errorf("%s with token %s: %d", path, token, code)
			}
		}
	}
	a, fs := newCA(t), vfs.NewMem()
	a.put(fs, "/node.pem", "node", 365)
	write(t, fs, "/ca.pem", a.Certificate())
	secured := start(t, options(t, fs, "admin.listen=0.0.0.0:0\nadmin.security.protocol=SSL", tlsProperties))
	_, port, _ = net.SplitHostPort(secured.AdminAddr())
	cl := http.Client{Transport: &http.Transport{TLSClientConfig: a.client("")}}
	resp, err := cl.Get("https://127.0.0.1:" + port + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	cl.CloseIdleConnections()
	if code, body := get(t, "http://127.0.0.1:"+port+"/metrics"); code == 200 || strings.Contains(body, "kafka_") {
		t.Errorf("plain: %d", code)
	}
}

func TestAdminAddressInUse(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	_, err = Start(t.Context(), options(t, vfs.NewMem(), "admin.listen="+taken.Addr().String()))
	if err == nil || !strings.Contains(err.Error(), "admin.listen="+taken.Addr().String()) {
		t.Errorf("%v", err)
	}
}
