package kafka

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Java's flags favour a quick start and a small footprint over throughput.
var jvmFlags = []string{"-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"}

// clusterID is any valid one: a broker's directory is formatted with it.
const clusterID = "Z3JldGUtb3JhY2xlLXRlcw"

// StartApache formats opts.Dir, unless it is formatted, and starts Apache Kafka there as one KRaft node that is broker
// and controller.
func StartApache(ctx context.Context, opts Options) (*Broker, error) {
	java, err := Java()
	if err != nil {
		return nil, err
	}
	libs, err := Libs(ctx)
	if err != nil {
		return nil, err
	}
	ports, err := opts.ports(2)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(opts.Dir, "server.properties")
	if err := os.MkdirAll(opts.Dir, 0o755); err != nil {
		return nil, err
	}
	if err := os.WriteFile(file, apacheProperties(opts, ports[0], ports[1]), 0o644); err != nil {
		return nil, err
	}
	flags := jvmFlags
	if opts.JVM != nil {
		flags = opts.JVM
	}
	run := func(class string, args ...string) *exec.Cmd {
		return exec.Command(java, append(append(slices.Clone(flags), "-cp", filepath.Join(libs, "*"), class), args...)...)
	}
	format := []string{"format", "--ignore-formatted", "-t", clusterID, "-c", file}
	if opts.Properties["controller.quorum.voters"] == "" {
		format = append(format, "--standalone") // as Kafka's own server.properties wants it
	}
	if out, err := run("kafka.tools.StorageTool", format...).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("format %s: %w\n%s", opts.Dir, err, out)
	}
	return launch(ctx, run("kafka.Kafka", file), fmt.Sprintf("127.0.0.1:%d", ports[0]), opts)
}

func apacheProperties(opts Options, port, controllerPort int) []byte {
	p := map[string]string{
		"process.roles":             "broker,controller",
		"node.id":                   "1",
		"controller.listener.names": "CONTROLLER",
		"listeners":                 fmt.Sprintf("PLAINTEXT://127.0.0.1:%d,CONTROLLER://127.0.0.1:%d", port, controllerPort),
		"log.dirs":                  filepath.Join(opts.Dir, "data"),

		// Internal topics of one node have one replica.
		"offsets.topic.replication.factor":                 "1",
		"transaction.state.log.replication.factor":         "1",
		"transaction.state.log.min.isr":                    "1",
		"share.coordinator.state.topic.replication.factor": "1",
		"share.coordinator.state.topic.min.isr":            "1",
	}
	if len(opts.Listeners) > 0 {
		p["listeners"] += "," + strings.Join(opts.Listeners, ",")
		p["listener.security.protocol.map"] = "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL"
	}
	if opts.Properties["controller.quorum.voters"] == "" {
		p["controller.quorum.bootstrap.servers"] = fmt.Sprintf("127.0.0.1:%d", controllerPort)
	}
	maps.Copy(p, opts.Properties)
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(p)) {
		fmt.Fprintf(&b, "%s=%s\n", k, p[k])
	}
	return []byte(b.String())
}
