package tools

import (
	"context"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// TestGroups looks at a group of each kind with kafka-groups and kafka-consumer-groups, while it lives and when it has
// been left: its offsets are reset and deleted, and in the end it is.
func TestGroups(t *testing.T) {
	t.Parallel()
	k := newBench(t)
	k.run("", topics, "--bootstrap-server", "{b}", "--create", "--topic", "g", "--partitions", "1")
	k.run("a\nb\nc\n", consoleProduce, "--bootstrap-server", "{b}", "--topic", "g")
	for _, kind := range []string{"classic", "consumer"} {
		k.lookAtGroup("of-"+kind, kind)
	}
}

func (k *bench) lookAtGroup(group, kind string) {
	k.t.Helper()
	call := func(args ...string) string {
		return k.run("", consumerGroups, append([]string{"--bootstrap-server", "{b}"}, args...)...)
	}
	leave := k.join(group, kind)
	k.want(k.run("", groupsCommand, "--bootstrap-server", "{b}", "--list"), group)
	k.want(line(k.run("", groupsCommand, "--bootstrap-server", "{b}", "--list", "--consumer"), group), strings.ToUpper(kind[:1])+kind[1:], "consumer")
	k.want(line(call("--list", "--type", "--state"), group), "Stable")
	k.want(line(call("--describe", "--group", group, "--state"), group), "Stable", "1")
	k.want(line(call("--describe", "--group", group, "--members", "--verbose"), group), "g:0")
	k.want(line(call("--describe", "--group", group, "--offsets"), group), "g ", "3")

	leave()
	k.want(line(call("--describe", "--group", group, "--state"), group), "Empty")
	k.want(line(call("--reset-offsets", "--group", group, "--topic", "g:0", "--to-offset", "1", "--execute"), group), "g ", "1")
	k.want(line(call("--describe", "--group", group), group), "g ", "1")
	k.want(call("--delete-offsets", "--group", group, "--topic", "g:0"), "Successful")
	k.want(call("--delete", "--group", group), "successful")
	if left := k.run("", groupsCommand, "--bootstrap-server", "{b}", "--list"); strings.Contains(left, group) {
		k.t.Fatalf("%s is still there:\n%s", group, left)
	}
}

// join consumes the three records of topic g as the only member of a group, and commits; leave ends the member.
func (k *bench) join(group, kind string) (leave func()) {
	k.t.Helper()
	opts := []kgo.Opt{kgo.SeedBrokers(k.b.Addr), kgo.ConsumerGroup(group), kgo.ConsumeTopics("g"), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.Balancers(kgo.RangeBalancer())}
	if kind == "consumer" {
		opts = append(opts, kgo.ServerSideBalancer())
	}
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		k.t.Fatal(err)
	}
	k.t.Cleanup(cl.Close)
	ctx, cancel := context.WithTimeout(context.Background(), toolTimeout)
	defer cancel()
	for got := 0; got < 3; {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			k.t.Fatal(err)
		}
		got += fetches.NumRecords()
	}
	if err := cl.CommitUncommittedOffsets(ctx); err != nil {
		k.t.Fatal(err)
	}
	return cl.Close
}

// line is the line of a tool's output that names what.
func line(out, what string) string {
	for l := range strings.Lines(out) {
		if strings.Contains(l, what) {
			return l
		}
	}
	return ""
}
