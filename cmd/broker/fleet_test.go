package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Three brokers of one process are one cluster: a group consumes what is replicated three times, and all of it is there
// after a stop, which is quick, and another start.
func TestBrokersFlag(t *testing.T) {
	dir := t.TempDir()
	for run := range 2 {
		p := runProgram(t, nil, "serve", "--brokers", "3", "--listen", "127.0.0.1:0", "--data-dir", dir, "--set", "admin.listen=", "--set", "group.initial.rebalance.delay.ms=0")
		var seeds []string
		for len(seeds) < 3 {
			if e := p.event("listening"); e["listener"] == "PLAINTEXT" {
				seeds = append(seeds, e["address"].(string))
			}
		}
		clusters := map[any]bool{}
		for range 3 {
			clusters[p.event("started")["cluster"]] = true
		}
		if len(clusters) != 1 {
			t.Errorf("clusters %v", clusters)
		}
		consumeGroup(t, seeds, run)
		began := time.Now()
		p.signals <- syscall.SIGTERM
		if code := p.wait(); code != 0 {
			t.Errorf("exit code %d", code)
		}
		if took := time.Since(began); took > 4*time.Second {
			t.Errorf("the stop took %v", took)
		}
		for line := range p.lines {
			if strings.Contains(line, "handed over") || strings.Contains(line, "took over") || strings.Contains(line, "quorum is not active") {
				t.Errorf("a stop together: %s", line)
			}
		}
	}
	for _, name := range []string{"1", "2", "3"} {
		if _, err := os.Stat(filepath.Join(dir, name, ".kafka_cleanshutdown")); err != nil {
			t.Error(err)
		}
	}
	p := runProgram(t, nil, "serve", "--brokers", "3", "--listen", "127.0.0.1:0", "--data-dir", filepath.Join(dir, "1"), "--set", "admin.listen=")
	if line := <-p.lines; !strings.Contains(line, "has the data of a single broker") || p.wait() != 1 {
		t.Error(line)
	}
	p = runProgram(t, nil, "serve", "--listen", "127.0.0.1:0", "--data-dir", dir, "--set", "admin.listen=")
	if line := <-p.lines; !strings.Contains(line, dir+" holds the brokers of --brokers; start it with --brokers 3, or name another --data-dir") || p.wait() != 1 {
		t.Error(line)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 3 {
		t.Errorf("%v, %v: something was written beside the brokers", entries, err)
	}
}

// consumeGroup writes a record and reads all that earlier runs have written, too.
func consumeGroup(t *testing.T, seeds []string, run int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	cl, err := kgo.NewClient(kgo.SeedBrokers(seeds...), kgo.ConsumerGroup(fmt.Sprint("g", run)), kgo.ConsumeTopics("t"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	req := kmsg.NewPtrCreateTopicsRequest()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = "t", 1, 3
	req.Topics = append(req.Topics, topic)
	if resp, err := req.RequestWith(ctx, cl); err != nil || resp.Topics[0].ErrorCode != 0 && run == 0 {
		t.Fatalf("%+v, %v", resp, err)
	}
	if err := cl.ProduceSync(ctx, &kgo.Record{Topic: "t", Value: []byte("v")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	for read := 0; read <= run; {
		fetches := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Fatalf("%d of %d records: %v", read, run+1, fetches.Err())
		}
		read += fetches.NumRecords()
	}
}

// What --brokers settles by itself is refused beside it, in one line.
func TestBrokersFlagRefuses(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"--brokers", "0"}, "from 1 to 9"},
		{[]string{"--brokers", "10"}, "from 1 to 9"},
		{[]string{"--brokers", "3", "--set", "node.id=7"}, "settles node.id by itself"},
		{[]string{"--brokers", "3", "--set", "listeners=PLAINTEXT://:1"}, "settles listeners by itself"},
	} {
		p := runProgram(t, nil, append([]string{"serve", "--data-dir", t.TempDir()}, tt.args...)...)
		if line := <-p.lines; !strings.Contains(line, tt.want) || p.wait() != 1 {
			t.Errorf("%v: %s", tt.args, line)
		}
	}
}
