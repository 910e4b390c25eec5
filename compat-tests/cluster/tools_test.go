package cluster

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"grete/compat-tests/kafka"
)

const (
	logDirsTool     = "org.apache.kafka.tools.LogDirsCommand"
	consumeTool     = "org.apache.kafka.tools.consumer.ConsoleConsumer"
	performanceTool = "org.apache.kafka.tools.ProducerPerformance"
	offsetsTool     = "org.apache.kafka.tools.GetOffsetShell"
)

// Kafka's everyday tools on three brokers: topics that are spread, records that go in and come out, and every replica's
// directory with the same in it.
func TestToolsOnThreeBrokers(t *testing.T) {
	t.Parallel()
	k := newTools(t, kafka.ClusterOptions{})
	k.want([]string{"Created topic spread"}, topicsTool, "--create", "--topic", "spread", "--partitions", "3", "--replication-factor", "3", "--config", "min.insync.replicas=2")
	described := k.want([]string{"PartitionCount: 3", "ReplicationFactor: 3"}, topicsTool, "--describe", "--topic", "spread")
	for _, leader := range []string{"Leader: 1", "Leader: 2", "Leader: 3"} {
		if !strings.Contains(described, leader) {
			t.Errorf("no %q in\n%s", leader, described)
		}
	}
	k.want([]string{"3000 records sent"}, performanceTool, "--topic", "spread", "--num-records", "3000", "--record-size", "100", "--throughput", "-1",
		"--producer-props", "bootstrap.servers="+strings.Join(k.Addrs(), ","), "acks=all")
	k.want([]string{"Processed a total of 3000 messages"}, consumeTool, "--topic", "spread", "--from-beginning", "--max-messages", "3000", "--timeout-ms", "30000")
	sum := 0
	for _, line := range strings.Fields(k.want([]string{"spread:0:", "spread:1:", "spread:2:"}, offsetsTool, "--topic", "spread")) {
		if parts := strings.Split(line, ":"); len(parts) == 3 {
			n := 0
			_ = json.Unmarshal([]byte(parts[2]), &n)
			sum += n
		}
	}
	if sum != 3000 {
		t.Errorf("the ends sum up to %d", sum)
	}
	k.logDirs("spread")
	for p := range int32(3) {
		k.sameLogs("spread", p)
	}
}

// logDirs wants every broker to have every partition, with as many bytes as the others.
func (k *kafkaTools) logDirs(topic string) {
	k.t.Helper()
	out := k.want(nil, logDirsTool, "--describe", "--topic-list", topic)
	var told struct {
		Brokers []struct {
			Broker  int32
			LogDirs []struct {
				Error      *string
				Partitions []struct {
					Partition string
					Size      int64
					OffsetLag int64
					IsFuture  bool
				}
			}
		}
	}
	at := max(strings.Index(out, `{"brokers`), 0)
	if err := json.NewDecoder(strings.NewReader(out[at:])).Decode(&told); err != nil {
		k.t.Fatalf("%v in\n%s", err, out)
	}
	sizes := map[string][]int64{}
	for _, b := range told.Brokers {
		for _, d := range b.LogDirs {
			for _, p := range d.Partitions {
				sizes[p.Partition] = append(sizes[p.Partition], p.Size)
			}
		}
	}
	if len(told.Brokers) != 3 || len(sizes) != 3 {
		k.t.Errorf("log directories: %s", out)
	}
	for name, s := range sizes {
		if len(s) != 3 || slices.Min(s) != slices.Max(s) || s[0] == 0 {
			k.t.Errorf("%s has sizes %v", name, s)
		}
	}
}
