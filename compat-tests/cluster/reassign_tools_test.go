package cluster

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"grete/compat-tests/kafka"
)

// kafkaTools runs Kafka's command-line tools against a cluster.
type kafkaTools struct {
	*rig
	java, libs, dir string
}

func newTools(t *testing.T, o kafka.ClusterOptions) *kafkaTools {
	t.Helper()
	java, err := kafka.Java()
	kafka.SkipOrFail(t, err)
	libs, err := kafka.Libs(context.Background())
	kafka.SkipOrFail(t, err)
	return &kafkaTools{rig: start(t, o), java: java, libs: libs, dir: t.TempDir()}
}

const (
	topicsTool   = "org.apache.kafka.tools.TopicCommand"
	reassignTool = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
	electionTool = "org.apache.kafka.tools.LeaderElectionCommand"
	featuresTool = "org.apache.kafka.tools.FeatureCommand"
	configsTool  = "org.apache.kafka.tools.ConfigCommand"
)

const toolTimeout = time.Minute

// run returns what a tool prints, whatever it exits with.
func (k *kafkaTools) run(class string, args ...string) (string, error) {
	k.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), toolTimeout)
	defer cancel()
	all := append([]string{"-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", filepath.Join(k.libs, "*"), class,
		"--bootstrap-server", strings.Join(k.Addrs(), ",")}, args...)
	cmd := exec.CommandContext(ctx, k.java, all...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}

// want wants a tool to succeed, and its output to have the parts.
func (k *kafkaTools) want(parts []string, class string, args ...string) string {
	k.t.Helper()
	out, err := k.run(class, args...)
	if err != nil {
		k.t.Fatalf("%s %v: %v\n%s", class, args, err, out)
	}
	for _, part := range parts {
		if !regexp.MustCompile(part).MatchString(out) {
			k.t.Errorf("%s %v: no %q in:\n%s", class, args, part, out)
		}
	}
	return out
}

// file makes a file for a tool to read.
func (k *kafkaTools) file(name, content string) string {
	k.t.Helper()
	path := filepath.Join(k.dir, name)
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		k.t.Fatal(err)
	}
	return path
}

// kafka-reassign-partitions plans, begins with a throttle, lists, verifies and cancels; what it leaves behind are no
// throttles.
func TestReassignTool(t *testing.T) {
	k := newTools(t, kafka.ClusterOptions{Proxied: !kafka.Apache()})
	k.want([]string{"Created topic moved"}, topicsTool, "--create", "--topic", "moved", "--replica-assignment", "1:2,2:1", "--config", "min.insync.replicas=2")
	w := k.writer("moved", 0)
	w.write(200)
	topics := k.file("topics.json", `{"version":1,"topics":[{"topic":"moved"}]}`)
	k.want([]string{`Current partition replica assignment`, `Proposed partition reassignment configuration`, `"replicas":\[(2,3|3,2)\]`}, reassignTool,
		"--generate", "--topics-to-move-json-file", topics, "--broker-list", "2,3")
	plan := k.file("plan.json", `{"version":1,"partitions":[{"topic":"moved","partition":0,"replicas":[3,2]},{"topic":"moved","partition":1,"replicas":[2,3]}]}`)
	k.want([]string{"The inter-broker throttle limit was set to 50000000 B/s", "Successfully started partition reassignments for moved-0,moved-1"}, reassignTool,
		"--execute", "--throttle", "50000000", "--reassignment-json-file", plan)
	k.want([]string{`leader.replication.throttled.replicas=0:1,0:2,1:1,1:2`, `follower.replication.throttled.replicas=0:3,1:3`}, configsTool,
		"--describe", "--entity-type", "topics", "--entity-name", "moved")
	k.want([]string{`leader.replication.throttled.rate=50000000`, `follower.replication.throttled.rate=50000000`}, configsTool,
		"--describe", "--entity-type", "brokers", "--entity-name", "3")
	w.write(50)
	k.eventually("end of the reassignment", func() bool {
		out, err := k.run(reassignTool, "--verify", "--reassignment-json-file", plan)
		return err == nil && strings.Contains(out, "Reassignment of partition moved-0 is completed.") && strings.Contains(out, "Reassignment of partition moved-1 is completed.")
	})
	if out := k.want(nil, configsTool, "--describe", "--entity-type", "brokers", "--entity-name", "3"); strings.Contains(out, "throttled") {
		t.Errorf("throttles are left:\n%s", out)
	}
	k.want([]string{"No partition reassignments found."}, reassignTool, "--list")
	k.want([]string{`Partition: 0\s+Leader: [23]\s+Replicas: 3,2\s+Isr: (2,3|3,2)`}, topicsTool, "--describe", "--topic", "moved")
	if k.Links != nil {
		k.cancelMove(w)
	}
	w.readBack()
}

// cancelMove begins a move to a broker that cannot fetch, and takes it back.
func (k *kafkaTools) cancelMove(w *writer) {
	k.t.Helper()
	k.Links.Cut(kafka.Replication, 1, 2)
	k.Links.Cut(kafka.Replication, 1, 3)
	away := k.file("away.json", `{"version":1,"partitions":[{"topic":"moved","partition":0,"replicas":[1,2]}]}`)
	k.want([]string{"Successfully started partition reassignment for moved-0"}, reassignTool, "--execute", "--reassignment-json-file", away)
	k.want([]string{`moved-0: replicas: 1,2,3. adding: 1. removing: 3.`}, reassignTool, "--list")
	k.want([]string{"Successfully cancelled partition reassignment for: moved-0"}, reassignTool, "--cancel", "--reassignment-json-file", away)
	k.want([]string{"No partition reassignments found."}, reassignTool, "--list")
	k.Links.Heal()
	w.write(50)
}

// kafka-topics finds partitions that lack replicas, those that are eligible among them; kafka-leader-election gives
// leadership back, and away where records may be lost; kafka-features shows what is finalised.
func TestAvailabilityTools(t *testing.T) {
	k := newTools(t, kafka.ClusterOptions{Properties: map[string]string{
		"broker.session.timeout.ms": "2000", "broker.heartbeat.interval.ms": "200", "auto.leader.rebalance.enable": "false", "replica.lag.time.max.ms": "2000",
	}})
	k.want([]string{`eligible.leader.replicas.version\s+SupportedMinVersion: 0\s+SupportedMaxVersion: 1\s+FinalizedVersionLevel: 1`}, featuresTool, "describe")
	for topic, config := range map[string]string{"kept": "min.insync.replicas=2", "strict": "min.insync.replicas=3", "loose": "unclean.leader.election.enable=false"} {
		assignment := "1:2:3"
		if topic == "loose" {
			assignment = "1:3"
		}
		k.want(nil, topicsTool, "--create", "--topic", topic, "--replica-assignment", assignment, "--config", config)
	}
	w := k.writer("kept", 0)
	w.write(20)
	if out := k.want(nil, topicsTool, "--describe", "--under-replicated-partitions"); strings.Contains(out, "Topic:") {
		t.Errorf("nothing lacks replicas:\n%s", out)
	}
	_ = k.Node(1).Kill()
	k.eventually("new leader", func() bool { return k.partition("kept", 0).Leader == 2 && len(k.partition("loose", 0).ISR) == 1 })
	k.want([]string{`Topic: kept`, `Topic: strict`, `Topic: loose`}, topicsTool, "--describe", "--under-replicated-partitions")
	k.lists(topicsTool, "--under-min-isr-partitions", "strict", "kept", "loose")
	k.lists(topicsTool, "--at-min-isr-partitions", "kept", "strict")
	k.want([]string{`Topic: strict\s.*Leader: 2\s.*Isr: (2,3|3,2)\s+Elr: 1\s+LastKnownElr:`}, topicsTool, "--describe", "--topic", "strict")
	k.start(1)
	k.wholeISR("kept", 0)
	k.want([]string{"Successfully completed leader election .PREFERRED. for partitions .*kept-0"}, electionTool, "--election-type", "preferred", "--topic", "kept", "--partition", "0")
	if p := k.partition("kept", 0); p.Leader != 1 {
		t.Errorf("%+v", p)
	}
	k.eventually("whole ISR", func() bool { return len(k.partition("loose", 0).ISR) == 2 })
	k.loseRecords()
	w.write(20)
	w.readBack()
}

// loseRecords has the only replica in sync die; the other leads when somebody decides that what it lacks may be lost.
func (k *kafkaTools) loseRecords() {
	k.t.Helper()
	_ = k.Node(1).Kill()
	k.eventually("one in sync", func() bool { return k.partition("loose", 0).Leader == 3 && len(k.partition("loose", 0).ISR) == 1 })
	if err := k.Node(3).Stop(); err != nil {
		k.t.Fatal(err)
	}
	k.start(1)
	k.eventually("nobody that leads", func() bool { return k.partition("kept", 0).Leader == 2 && k.partition("loose", 0).Leader == -1 })
	k.lists(topicsTool, "--unavailable-partitions", "loose", "kept", "strict")
	k.want([]string{`Topic: loose\s.*Leader: none\s+Replicas: 1,3\s+Isr:\s+Elr: 3\s+LastKnownElr: 3`}, topicsTool, "--describe", "--topic", "loose")
	k.want([]string{"Successfully completed leader election .UNCLEAN. for partitions .*loose-0"}, electionTool, "--election-type", "unclean", "--topic", "loose", "--partition", "0")
	if p := k.partition("loose", 0); p.Leader != 1 {
		k.t.Errorf("%+v", p)
	}
	k.start(3)
	k.eventually("whole ISR", func() bool { return len(k.partition("loose", 0).ISR) == 2 })
}

// lists wants a filter of kafka-topics to show one topic and not the others.
func (k *kafkaTools) lists(class, filter, shown string, hidden ...string) {
	k.t.Helper()
	out := k.want([]string{"Topic: " + shown}, class, "--describe", filter)
	for _, topic := range hidden {
		if strings.Contains(out, "Topic: "+topic) {
			k.t.Errorf("%s shows %s:\n%s", filter, topic, out)
		}
	}
}
