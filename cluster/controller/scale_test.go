package controller

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/internal/vfs"
)

// TestTenThousandPartitions measures creation, restart after a clean stop and after kill -9, and memory. It is CPU time
// that is bounded, so that a busy machine does not matter; make bench has the figures that a user waits for.
func TestTenThousandPartitions(t *testing.T) {
	dir := t.TempDir()
	begin := cpuTime(t)
	step := func(what string, limit time.Duration) {
		t.Helper()
		took := cpuTime(t) - begin
		t.Logf("%-50s %v", what, took.Round(100*time.Microsecond))
		if took > limit*raceFactor {
			t.Errorf("%s took %v", what, took)
		}
		begin = cpuTime(t)
	}
	r := startRig(t, vfs.OS, dir, 1)
	step("start of an empty node until unfenced", time.Second)
	for i := range 100 {
		var names []string
		for j := range 10 {
			names = append(names, fmt.Sprintf("topic-%03d-%d", i, j))
		}
		r.create(t, 10, names...)
	}
	step("100 requests for 10 topics of 10 partitions", 2*time.Second)
	heap := liveHeap()
	t.Logf("heap in use %.1f MiB", float64(heap)/(1<<20))
	if heap > 40<<20 {
		t.Errorf("%d bytes of heap in use", heap)
	}
	runtime.KeepAlive(r)
	r.shutDown(t)
	step("controlled shutdown", time.Second)
	again := startRig(t, vfs.OS, dir, 2)
	step("restart until every partition is led", time.Second)
	requireLed(t, again, 10_000)
	again.kill(t)
	begin = cpuTime(t)
	third := startRig(t, vfs.OS, dir, 3)
	step("restart without a controlled shutdown", 2*time.Second)
	requireLed(t, third, 10_000)
	end, image := third.Image().Offset()+1, third.Image()
	begin = cpuTime(t)
	must(t, third.raft.WriteSnapshot(end, image.Epoch(), recordValues(image)))
	step("snapshot", time.Second)
	third.kill(t)
	begin = cpuTime(t)
	fourth := startRig(t, vfs.OS, dir, 4)
	step("restart from the snapshot", time.Second)
	requireLed(t, fourth, 10_000)
	fourth.kill(t)
}

func requireLed(t *testing.T, r *rig, want int) {
	t.Helper()
	led := 0
	for topic := range r.Image().Topics() {
		for _, p := range topic.Partitions {
			if p.Leader == 1 {
				led++
			}
		}
	}
	if led != want {
		t.Fatalf("%d of %d partitions are led", led, want)
	}
}

func liveHeap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func BenchmarkCreateTopic(b *testing.B) {
	r := startRig(b, memory(b), "/data", 1)
	defer r.kill(b)
	b.ResetTimer()
	for i := range b.N {
		r.create(b, 1, fmt.Sprintf("t%d", i))
	}
}

// TestKafkaReadsTheLog runs Kafka's dump tool over a log and a snapshot of ours; KAFKA_LIBS names the directory of its
// jars.
func TestKafkaReadsTheLog(t *testing.T) {
	libs := os.Getenv("KAFKA_LIBS")
	if libs == "" {
		t.Skip("KAFKA_LIBS does not name the directory of Kafka's jars")
	}
	dir := t.TempDir()
	r := startRig(t, vfs.OS, dir, 1)
	r.create(t, 3, "orders", "payments")
	d := kmsg.NewPtrDeleteTopicsRequest()
	d.TopicNames = []string{"payments"}
	r.do(t, d)
	image := r.Image()
	must(t, r.raft.WriteSnapshot(image.Offset()+1, image.Epoch(), recordValues(image)))
	r.create(t, 1, "refunds")
	r.shutDown(t)
	partition := filepath.Join(dir, LogID.String())
	logs, _ := filepath.Glob(filepath.Join(partition, "*.log"))
	snapshots, _ := filepath.Glob(filepath.Join(partition, "*.checkpoint"))
	for file, wants := range map[string][]string{
		logs[0]: {"LeaderChange", `"type":"REGISTER_BROKER_RECORD"`, `"type":"TOPIC_RECORD"`, `"type":"PARTITION_RECORD"`,
			`"type":"REMOVE_TOPIC_RECORD"`, `"type":"FEATURE_LEVEL_RECORD"`, `"name":"orders"`},
		slices.Max(snapshots): {"SnapshotHeader", "SnapshotFooter", `"name":"orders"`, `"type":"PARTITION_RECORD"`},
	} {
		out, err := exec.Command("java", "-cp", filepath.Join(libs, "*"), "org.apache.kafka.tools.DumpLogSegments",
			"--cluster-metadata-decoder", "--files", file).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", file, err, out)
		}
		for _, want := range wants {
			if !strings.Contains(string(out), want) {
				t.Errorf("%s: no %s in\n%s", file, want, out)
			}
		}
		for _, bad := range []string{"Exception", "isvalid: false", "Error at"} {
			if strings.Contains(string(out), bad) {
				t.Errorf("%s: %s in\n%s", file, bad, out)
			}
		}
	}
}
