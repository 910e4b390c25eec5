package clients

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"

	"grete/compat-tests/kafka"
)

// TestGreteAsATool runs commands of grete against the broker under test; with COMPAT_TARGET=kafka that is Apache Kafka.
func TestGreteAsATool(t *testing.T) {
	bin, err := kafka.GreteBin()
	kafka.SkipOrFail(t, err)
	b := startBroker(t, t.TempDir())
	t.Cleanup(func() { _ = b.Stop() })
	dir := t.TempDir()
	for _, tt := range []struct {
		stdin, line string
		code        int
		says        string // on either stream
	}{
		{"", "topic create tool-t -p 2 -c retention.ms=-1", 0, "tool-t created with 2 partitions of 1 replica"},
		{"", "topic create tool-t", 1, "TOPIC_ALREADY_EXISTS"},
		{"a:1\nb:2\na:3\n", "produce tool-t -K : -H h=x -z lz4", 0, ""},
		{"c:4\n", "produce tool-t -K : --transactional-id tool-x -p 0", 0, ""},
		{"", "consume tool-t -e --grep ^b -f %k=%v,%h,%t\\n", 0, "b=2,h=x,tool-t\n"},
		{"", "consume tool-t -p 0 -o -2 --grep ^4 -e", 0, "4\n"},
		{"", "consume tool-t -g tool-g -c 4 -f %k", 0, ""},
		{"", "topic describe tool-t", 0, "tool-t  2 partitions, 5 offsets"},
		{"", "topic config tool-t", 0, "DYNAMIC_TOPIC_CONFIG"},
		{"", "topic add-partitions tool-t --to 3", 0, "given 3 partitions"},
		{"", "group describe tool-g", 0, "Empty, 0 members, lag"},
		{"", "group reset tool-g tool-t:1 --to start -y", 0, "goes on at these offsets"},
		{"", "group describe nobody", 1, "GROUP_ID_NOT_FOUND"},
		{"", "group delete tool-g -y", 0, "tool-g deleted"},
		{"", "txn describe tool-x", 0, "CompleteCommit"},
		{"", "txn producers tool-t", 0, "tool-t"},
		{"", "cluster describe", 0, "1 broker"},
		{"", "health", 0, "healthy: "},
		{"", "quorum describe", 0, "leader"},
		{"", "broker list", 0, "ADDRESS"},
		{"", "config get broker 1", 0, "log.dirs"},
		{"", "api", 0, "DescribeTopicPartitions"},
		{"", "topic truncate tool-t:0 --before end -y", 0, "tool-t-0 begins at"},
		{"", "topic delete tool-t -y", 0, "tool-t deleted"},
	} {
		cmd := exec.Command(bin, append(strings.Fields(tt.line), "-b", b.Addr)...)
		cmd.Env = append(cmd.Environ(), "XDG_CONFIG_HOME="+dir)
		cmd.Stdin = strings.NewReader(tt.stdin)
		var said bytes.Buffer
		cmd.Stdout, cmd.Stderr = &said, &said
		_ = cmd.Run() // its exit code tells
		if code := cmd.ProcessState.ExitCode(); code != tt.code || !strings.Contains(said.String(), tt.says) {
			t.Errorf("grete %s: exit code %d\n%s", tt.line, code, said.String())
		}
	}
}
