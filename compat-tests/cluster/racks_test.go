package cluster

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"grete/compat-tests/kafka"
)

const rackAware = "org.apache.kafka.common.replica.RackAwareReplicaSelector"

// freeAddress is one that nobody listened on just now.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// metric is the value of a line of what a broker shows at its admin address, 0 when there is none.
func (r *rig) metric(admin, line string) float64 {
	r.t.Helper()
	resp, err := http.Get("http://" + admin + "/metrics")
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if rest, ok := strings.CutPrefix(lines.Text(), line+" "); ok {
			v, err := strconv.ParseFloat(rest, 64)
			if err != nil {
				r.t.Fatal(err)
			}
			return v
		}
	}
	return 0
}

// java runs one of Kafka's tools to its end; {b} in args are the brokers.
func (r *rig) java(class string, args ...string) string {
	r.t.Helper()
	java, err := kafka.Java()
	kafka.SkipOrFail(r.t, err)
	libs, err := kafka.Libs(r.ctx)
	kafka.SkipOrFail(r.t, err)
	full := []string{"-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
		"-cp", filepath.Join(libs, "*"), class}
	for _, a := range args {
		full = append(full, strings.ReplaceAll(a, "{b}", strings.Join(r.Addrs(), ",")))
	}
	out, err := exec.CommandContext(r.ctx, java, full...).CombinedOutput()
	if err != nil {
		r.t.Fatalf("%s %v: %v\n%s", class, args, err, out)
	}
	return string(out)
}

// Stock consumers with client.rack read from the replica in their rack, and see everything (KIP-392).
func TestConsumersReadFromTheirRack(t *testing.T) {
	each, admin := map[int32]map[string]string{}, map[int32]string{}
	for id := int32(1); id <= 3; id++ {
		admin[id] = freeAddress(t)
		each[id] = map[string]string{"broker.rack": fmt.Sprint("rack", id), "replica.selector.class": rackAware, "admin.listen": admin[id]}
	}
	r := start(t, kafka.ClusterOptions{Each: each})
	r.create("near", 1)
	w := r.writer("near", 0)
	w.write(300)
	leader := r.partition("near", 0).Leader
	javas, gos := leader%3+1, (leader+1)%3+1
	out := r.java("org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server", "{b}", "--topic", "near", "--from-beginning",
		"--max-messages", "300", "--timeout-ms", "30000", "--command-property", fmt.Sprintf("client.rack=rack%d", javas))
	if !strings.Contains(out, "value 0\n") || !strings.Contains(out, "value 299\n") {
		t.Errorf("the Java consumer saw %s", out)
	}
	consumer := r.client(kgo.ConsumeTopics("near"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.Rack(fmt.Sprint("rack", gos)))
	for seen := 0; seen < 300; {
		ctx, cancel := context.WithTimeout(r.ctx, 10*time.Second)
		fetches := consumer.PollFetches(ctx)
		cancel()
		if seen += fetches.NumRecords(); fetches.NumRecords() == 0 {
			t.Fatalf("franz-go stays at %d: %v", seen, fetches.Errors())
		}
	}
	if kafka.Apache() {
		return
	}
	sent := map[int32]float64{}
	for id := range admin {
		sent[id] = r.metric(admin[id], `kafka_server_brokertopicmetrics_bytesout_total{topic="near"}`)
	}
	if sent[leader] != 0 || sent[javas] == 0 || sent[gos] == 0 {
		t.Errorf("sent %v, led by %d, read in the racks of %d and %d", sent, leader, javas, gos)
	}
}
