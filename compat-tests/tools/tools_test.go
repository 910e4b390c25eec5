// Package tools runs Apache Kafka's own command-line tools against the broker, as a Kafka distribution's scripts do.
package tools

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"grete/compat-tests/kafka"
)

const toolTimeout = 2 * time.Minute

// bench is a running broker and the means to start tools against it.
type bench struct {
	t    *testing.T
	b    *kafka.Broker
	libs string
	java string
	jvm  []string // flags of all tools
}

func newBench(t *testing.T) *bench {
	t.Helper()
	return newBenchWith(t, nil)
}

func newBenchWith(t *testing.T, properties map[string]string) *bench {
	t.Helper()
	k := newTools(t)
	b, err := kafka.StartTarget(context.Background(), kafka.Options{Dir: t.TempDir(), Properties: properties})
	kafka.SkipOrFail(t, err)
	t.Cleanup(func() { _ = b.Stop() })
	k.b = b
	return k
}

// newSecuredBench has no broker yet: the test starts one of ours whose listeners it secures.
func newSecuredBench(t *testing.T) *bench {
	t.Helper()
	if kafka.Apache() {
		t.Skip("the users, certificates and listeners are ours")
	}
	return newTools(t)
}

func newTools(t *testing.T) *bench {
	t.Helper()
	java, err := kafka.Java()
	kafka.SkipOrFail(t, err)
	libs, err := kafka.Libs(context.Background())
	kafka.SkipOrFail(t, err)
	return &bench{t: t, libs: libs, java: java}
}

// start prepares a tool's main class; {b} in args is the broker's address.
func (k *bench) command(ctx context.Context, stdin, class string, args ...string) *exec.Cmd {
	full := []string{"-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
		"-cp", filepath.Join(k.libs, "*")}
	full = append(append(full, k.jvm...), class)
	for _, a := range args {
		full = append(full, strings.ReplaceAll(a, "{b}", k.b.Addr))
	}
	cmd := exec.CommandContext(ctx, k.java, full...)
	cmd.Stdin = strings.NewReader(stdin)
	return cmd
}

// run runs a tool to its end: it must exit with 0 and write no error.
func (k *bench) run(stdin, class string, args ...string) string {
	k.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), toolTimeout)
	defer cancel()
	cmd := k.command(ctx, stdin, class, args...)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	err := cmd.Run()
	if err != nil || trouble.Match(said.Bytes()) || trouble.Match(out.Bytes()) {
		k.t.Fatalf("%s %v: %v\n%s\n%s", class, args, err, out.Bytes(), said.Bytes())
	}
	return out.String()
}

// trouble is what a tool that failed without an exit code prints.
var trouble = regexp.MustCompile(`(?m)^(ERROR|Error|Exception)|Exception:|\bERROR\b`)

func (k *bench) want(out string, parts ...string) {
	k.t.Helper()
	for _, p := range parts {
		if !strings.Contains(out, p) {
			k.t.Fatalf("no %q in:\n%s", p, out)
		}
	}
}

const (
	topics         = "org.apache.kafka.tools.TopicCommand"
	consoleProduce = "org.apache.kafka.tools.ConsoleProducer"
	consoleConsume = "org.apache.kafka.tools.consumer.ConsoleConsumer"
	consumerGroups = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
	groupsCommand  = "org.apache.kafka.tools.GroupsCommand"
	getOffsets     = "org.apache.kafka.tools.GetOffsetShell"
	producerPerf   = "org.apache.kafka.tools.ProducerPerformance"
	consumerPerf   = "org.apache.kafka.tools.ConsumerPerformance"
	endToEnd       = "org.apache.kafka.tools.EndToEndLatency"
	verifyProducer = "org.apache.kafka.tools.VerifiableProducer"
	verifyConsumer = "org.apache.kafka.tools.VerifiableConsumer"
	apiVersions    = "org.apache.kafka.tools.BrokerApiVersionsCommand"
	dumpLog        = "org.apache.kafka.tools.DumpLogSegments"
	deleteRecords  = "org.apache.kafka.tools.DeleteRecordsCommand"
	configs        = "org.apache.kafka.tools.ConfigCommand"
	logDirs        = "org.apache.kafka.tools.LogDirsCommand"
	transactions   = "org.apache.kafka.tools.TransactionsCommand"
)

func TestTopics(t *testing.T) {
	t.Parallel()
	k := newBench(t)
	at := []string{"--bootstrap-server", "{b}"}
	call := func(args ...string) string { return k.run("", topics, append(at[:2:2], args...)...) }
	call("--create", "--topic", "t1", "--partitions", "3", "--replication-factor", "1", "--config", "retention.ms=3600000", "--config", "segment.bytes=1048576")
	k.want(call("--list"), "t1")
	k.want(call("--describe", "--topic", "t1"), "PartitionCount: 3", "ReplicationFactor: 1", "retention.ms=3600000", "segment.bytes=1048576", "Partition: 2\tLeader: 1\tReplicas: 1\tIsr: 1")
	call("--alter", "--topic", "t1", "--partitions", "5")
	k.want(call("--describe", "--topic", "t1"), "PartitionCount: 5")
	if out := call("--describe", "--under-replicated-partitions"); strings.Contains(out, "t1") {
		t.Fatalf("under-replicated: %s", out)
	}
	k.want(call("--describe", "--topics-with-overrides"), "t1")
	k.run("", configs, "--bootstrap-server", "{b}", "--alter", "--entity-type", "topics", "--entity-name", "t1", "--add-config", "retention.ms=7200000")
	k.want(k.run("", configs, "--bootstrap-server", "{b}", "--describe", "--entity-type", "topics", "--entity-name", "t1"), "retention.ms=7200000")
	k.want(k.run("", configs, "--bootstrap-server", "{b}", "--describe", "--entity-type", "topics", "--entity-name", "t1", "--all"), "min.insync.replicas=1")
	k.want(k.run("", configs, "--bootstrap-server", "{b}", "--describe", "--entity-type", "brokers", "--entity-name", "1", "--all"), "log.retention.hours=168")
	k.want(k.run("", logDirs, "--bootstrap-server", "{b}", "--describe"), "t1-0")
	call("--delete", "--topic", "t1")
	if out := call("--list"); strings.Contains(out, "t1") {
		t.Fatalf("t1 is still there: %s", out)
	}
}

func TestConsole(t *testing.T) {
	t.Parallel()
	k := newBench(t)
	var in strings.Builder
	for i := range 100 {
		fmt.Fprintf(&in, "k%d:v%d\n", i, i)
	}
	k.run("", topics, "--bootstrap-server", "{b}", "--create", "--topic", "c", "--partitions", "2")
	k.run(in.String(), consoleProduce, "--bootstrap-server", "{b}", "--topic", "c", "--reader-property", "parse.key=true", "--reader-property", "key.separator=:")
	out := k.run("", consoleConsume, "--bootstrap-server", "{b}", "--topic", "c", "--from-beginning", "--max-messages", "100")
	k.want(out, "v0\n", "v99\n")
	out = k.run("", consoleConsume, "--bootstrap-server", "{b}", "--topic", "c", "--from-beginning", "--group", "g", "--max-messages", "100")
	k.want(out, "v0\n", "v99\n")

	groups := func(args ...string) string {
		return k.run("", consumerGroups, append([]string{"--bootstrap-server", "{b}"}, args...)...)
	}
	k.want(groups("--list"), "g")
	described := groups("--describe", "--group", "g")
	k.want(described, "CURRENT-OFFSET", "c ")
	k.want(groups("--describe", "--group", "g", "--state"), "Empty")
	k.want(groups("--reset-offsets", "--group", "g", "--topic", "c", "--to-earliest", "--execute"), "NEW-OFFSET")
	out = k.run("", consoleConsume, "--bootstrap-server", "{b}", "--topic", "c", "--group", "g", "--max-messages", "100")
	k.want(out, "v0\n", "v99\n")
	k.want(groups("--delete", "--group", "g"), "successful")

	k.want(k.run("", getOffsets, "--bootstrap-server", "{b}", "--topic", "c"), "c:0:", "c:1:")
	k.want(k.run("", getOffsets, "--bootstrap-server", "{b}", "--topic", "c", "--time", "earliest"), "c:0:0")
	k.want(k.run("", getOffsets, "--bootstrap-server", "{b}", "--topic", "c", "--time", "max-timestamp"), "c:0:")

	file := filepath.Join(t.TempDir(), "offsets.json")
	if err := os.WriteFile(file, []byte(`{"partitions":[{"topic":"c","partition":0,"offset":5}],"version":1}`), 0o644); err != nil {
		t.Fatal(err)
	}
	k.want(k.run("", deleteRecords, "--bootstrap-server", "{b}", "--offset-json-file", file), "low_watermark: 5")
	k.want(k.run("", getOffsets, "--bootstrap-server", "{b}", "--topic", "c", "--time", "earliest"), "c:0:5")
}

func TestPerformanceTools(t *testing.T) {
	t.Parallel()
	k := newBench(t)
	k.run("", topics, "--bootstrap-server", "{b}", "--create", "--topic", "perf", "--partitions", "3")
	for _, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		k.want(k.run("", producerPerf, "--bootstrap-server", "{b}", "--topic", "perf", "--num-records", "20000", "--record-size", "200", "--throughput", "-1",
			"--command-property", "compression.type="+codec), "20000 records sent")
	}
	k.want(k.run("", consumerPerf, "--bootstrap-server", "{b}", "--topic", "perf", "--num-records", "100000", "--timeout", "30000"), "nMsg.sec")
	k.want(k.run("", endToEnd, "--bootstrap-server", "{b}", "--topic", "e2e", "--num-records", "200", "--producer-acks", "all", "--record-size", "100"), "Avg latency", "99th")
}

func TestVerifiable(t *testing.T) {
	t.Parallel()
	k := newBench(t)
	k.run("", topics, "--bootstrap-server", "{b}", "--create", "--topic", "v", "--partitions", "2")
	k.want(k.run("", verifyProducer, "--bootstrap-server", "{b}", "--topic", "v", "--max-messages", "1000", "--acks", "-1"), `"acked":1000`)
	k.want(k.run("", verifyConsumer, "--bootstrap-server", "{b}", "--topic", "v", "--group-id", "vg", "--reset-policy", "earliest", "--max-messages", "1000"),
		"records_consumed", "offsets_committed")
	k.want(k.run("", apiVersions, "--bootstrap-server", "{b}"), "Produce(0): 0 to 13", "ApiVersions(18): 0 to 5")
}

// TestDumpLog reads our data directory with kafka-dump-log after traffic of every codec.
func TestDumpLog(t *testing.T) {
	t.Parallel()
	k := newBench(t)
	k.run("", topics, "--bootstrap-server", "{b}", "--create", "--topic", "d", "--partitions", "1", "--config", "segment.bytes=1048576", "--config", "index.interval.bytes=512")
	for _, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		k.run("", producerPerf, "--bootstrap-server", "{b}", "--topic", "d", "--num-records", "10000", "--record-size", "300", "--throughput", "-1",
			"--command-property", "compression.type="+codec, "--command-property", "enable.idempotence=true")
	}
	k.run("", consoleConsume, "--bootstrap-server", "{b}", "--topic", "d", "--from-beginning", "--group", "dg", "--max-messages", "50000")
	if err := k.b.Stop(); err != nil {
		t.Fatal(err)
	}
	logs := k.filesWithData("d-0/*.log", "d-0/*.index", "d-0/*.timeindex", "d-0/*.snapshot")
	out := k.run("", dumpLog, "--files", strings.Join(logs, ","), "--deep-iteration", "--index-sanity-check")
	if fault := regexp.MustCompile(".*(mismatch|isvalid: false|out of order).*").FindString(out); fault != "" {
		t.Fatal(fault)
	}
	k.want(out, logs...)
	offsets := k.filesWithData("__consumer_offsets-*/*.log")
	k.want(k.run("", dumpLog, "--files", strings.Join(offsets, ","), "--offsets-decoder", "--deep-iteration"), offsets...)
	if len(logs) < 6 || len(offsets) == 0 {
		t.Fatalf("only %d and %d files to dump in %s", len(logs), len(offsets), k.b.DataDir)
	}
}

// filesWithData lists the files of the data directory that are not empty.
func (k *bench) filesWithData(patterns ...string) []string {
	k.t.Helper()
	var out []string
	for _, pattern := range patterns {
		files, err := filepath.Glob(filepath.Join(k.b.DataDir, pattern))
		if err != nil {
			k.t.Fatal(err)
		}
		for _, f := range files {
			if info, err := os.Stat(f); err == nil && info.Size() > 0 {
				out = append(out, f)
			}
		}
	}
	return out
}
