package cluster

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"grete/compat-tests/kafka"
)

const (
	quorumTool  = "org.apache.kafka.tools.MetadataQuorumCommand"
	clusterTool = "org.apache.kafka.tools.ClusterTool"
)

// tool runs a tool with these arguments alone. It must succeed, or fail when fails is set, and print all parts, which
// are expressions.
func (k *kafkaTools) tool(fails bool, parts []string, class string, args ...string) string {
	k.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), toolTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, k.java, append([]string{"-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", filepath.Join(k.libs, "*"), class}, args...)...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); (err != nil) != fails {
		k.t.Fatalf("%s %v: %v\n%s", class, args, err, out.Bytes())
	}
	for _, part := range parts {
		if !regexp.MustCompile(part).Match(out.Bytes()) {
			k.t.Errorf("%s %v: no %q in:\n%s", class, args, part, out.Bytes())
		}
	}
	return out.String()
}

// Kafka's tools describe the quorum, at brokers and at controllers, and change it: a fourth node comes, votes, and
// goes.
func TestQuorumTools(t *testing.T) {
	if kafka.Apache() {
		t.Skip("a Kafka node has to be formatted as one that joins")
	}
	k := newTools(t, kafka.ClusterOptions{})
	server := k.Addrs()[0]
	const uuid = `[A-Za-z0-9_-]{22}`
	voter := func(id int) string {
		return fmt.Sprintf(`\{"id": %d, "directoryId": "%s", "endpoints": \["CONTROLLER://127\.0\.0\.1:\d+"\]\}`, id, uuid)
	}
	three := "CurrentVoters: +\\[" + voter(1) + ", " + voter(2) + ", " + voter(3) + "\\]"
	status := k.tool(false, []string{`ClusterId: +` + uuid, `LeaderId: +[123]`, `MaxFollowerLag: +\d`, three, `CurrentObservers: +\[\]`},
		quorumTool, "--bootstrap-server", server, "describe", "--status")
	controller := regexp.MustCompile(`CONTROLLER://(127\.0\.0\.1:\d+)`).FindStringSubmatch(status)[1]
	for option, at := range map[string]string{"--bootstrap-server": server, "--bootstrap-controller": controller} {
		k.tool(false, []string{three}, quorumTool, option, at, "describe", "--status")
		k.tool(false, []string{`1\s+` + uuid, `2\s+` + uuid, `3\s+` + uuid, `Leader`, `Follower`}, quorumTool, option, at, "describe", "--replication", "--human-readable")
		k.tool(false, []string{`Cluster ID: ` + uuid}, clusterTool, "cluster-id", option, at)
		k.tool(false, []string{`3 +127\.0\.0\.1`, `broker|controller`}, clusterTool, "list-endpoints", option, at)
		k.tool(false, []string{`kraft\.version.*FinalizedVersionLevel: 1`, `metadata\.version.*FinalizedVersionLevel: 4\.4-IV2`}, featuresTool, option, at, "describe")
		k.tool(false, []string{`group\.version was upgraded to 1`}, featuresTool, option, at, "upgrade", "--feature", "group.version=1")
		k.tool(true, []string{`kraft\.version.*Can't downgrade|Could not downgrade kraft\.version`}, featuresTool, option, at, "downgrade", "--feature", "kraft.version=0")
	}
	k.fourthNode(server, controller)
}

func (k *kafkaTools) fourthNode(server, controller string) {
	addr, own, dir := freeAddress(k.t), freeAddress(k.t), k.t.TempDir()
	listeners := "PLAINTEXT://" + addr + ",CONTROLLER://" + own
	_, port, _ := net.SplitHostPort(addr)
	number, _ := strconv.Atoi(port)
	properties := maps.Clone(quick)
	maps.Copy(properties, map[string]string{"node.id": "4", "controller.quorum.bootstrap.servers": controller, "listeners": listeners})
	node, err := kafka.StartGrete(k.ctx, kafka.Options{Dir: dir, Port: number, Properties: properties})
	if err != nil {
		k.t.Fatal(err)
	}
	k.t.Cleanup(func() { _ = node.Kill() })
	config := k.file("server.properties", fmt.Sprintf("node.id=4\nprocess.roles=broker,controller\ncontroller.listener.names=CONTROLLER\nlisteners=%s\nlog.dirs=%s\n", listeners, node.DataDir))
	quorum := func(fails bool, parts []string, args ...string) string {
		k.t.Helper()
		return k.tool(fails, parts, quorumTool, append([]string{"--bootstrap-controller", controller}, args...)...)
	}
	out := quorum(false, []string{`4\s+\S{22}\s.*Observer`}, "describe", "--replication")
	directory := regexp.MustCompile(`(?m)^4\s+(\S{22})`).FindStringSubmatch(out)[1]
	quorum(false, []string{`DRY RUN of adding controller 4 with directory id ` + directory}, "--command-config", config, "add-controller", "--dry-run")
	quorum(false, []string{`Added controller 4 with directory id ` + directory + ` and endpoints: CONTROLLER://` + own}, "--command-config", config, "add-controller")
	quorum(true, []string{`DuplicateVoterException`}, "--command-config", config, "add-controller")
	quorum(false, []string{`\{"id": 4, "directoryId": "` + directory + `", "endpoints": \["CONTROLLER://` + own + `"\]\}\]\nCurrentObservers: +\[\]`}, "describe", "--status")
	k.tool(false, []string{`Removed KRaft controller 4 with directory id ` + directory}, quorumTool, "--bootstrap-server", server,
		"remove-controller", "--controller-id", "4", "--controller-directory-id", directory)
	quorum(true, []string{`VoterNotFoundException`}, "remove-controller", "--controller-id", "4", "--controller-directory-id", directory)
	if err := node.Stop(); err != nil {
		k.t.Fatal(err)
	}
	k.tool(false, []string{`Broker 4 is no longer registered`}, clusterTool, "unregister", "--bootstrap-server", server, "--id", "4")
	k.tool(false, nil, clusterTool, "unregister-controller", "--bootstrap-controller", controller, "--id", "4")
	k.tool(false, []string{`CurrentVoters: +\[\{"id": 1[^\n]*"id": 3[^}]*\}\]`}, quorumTool, "--bootstrap-server", server, "describe", "--status")
}
