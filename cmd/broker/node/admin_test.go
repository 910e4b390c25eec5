package node

import (
	"io"
	"net"
	"net/http"
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

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func TestMetricsAndHealth(t *testing.T) {
	address := freeAddress(t)
	n := start(t, options(t, vfs.NewMem(), "admin.listen="+address))
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
		"kafka_server_replicamanager_leadercount 2", `kafka_log_log_numlogsegments{partition="0",topic="orders"} 1`,
		`kafka_server_brokertopicmetrics_messagesin_total{topic="orders"} 10`, "kafka_log_logmanager_offlinelogdirectorycount 0",
		"kafka_server_fetchsessioncache_numincrementalfetchsessions 0",
	} {
		if !strings.Contains(body, line+"\n") {
			t.Errorf("no %q in the metrics", line)
		}
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
