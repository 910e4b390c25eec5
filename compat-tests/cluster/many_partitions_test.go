package cluster

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/compat-tests/kafka"
)

const perRequest = 50

// Many topics are made, and the broker that leads a third of their partitions is killed: others lead at once. What is
// bounded is the CPU time of the brokers' own code, so that a busy machine does not matter; what a user waits for is
// told.
func TestManyPartitions(t *testing.T) {
	topics := 100
	if long() {
		topics = 1000
	}
	r := start(t, kafka.ClusterOptions{Properties: map[string]string{
		"broker.session.timeout.ms": "2000", "broker.heartbeat.interval.ms": "500", "auto.leader.rebalance.enable": "false",
	}})
	r.adm.SetTimeoutMillis(60_000)
	used := r.cpu()
	began := time.Now()
	for first := 0; first < topics; first += perRequest {
		var names []string
		for i := range perRequest {
			names = append(names, fmt.Sprintf("many-%04d", first+i))
		}
		answers, err := r.adm.CreateTopics(r.ctx, 10, 3, nil, names...)
		if err != nil || answers.Error() != nil {
			t.Fatal(err, answers.Error())
		}
	}
	answered := time.Since(began)
	r.wholeOnAll(topics * 10)
	made, cost := time.Since(began), r.cpu()-used
	t.Logf("%d partitions of 3 replicas: answered after %v, in sync on every broker after %v, %v of CPU", topics*10, answered.Round(time.Millisecond), made.Round(time.Millisecond), cost)
	if each := cost / time.Duration(topics*10); !kafka.Apache() && each > 2*time.Millisecond {
		t.Errorf("a partition costs %v", each)
	}
	victim := r.other(r.controller())
	used = r.cpu() - r.cpuOf(victim)
	_ = r.Node(victim).Kill()
	began = time.Now()
	asked := r.other(victim)
	r.inTheEnd("new leaders", func() bool { return r.ledWithout(asked, victim, topics*10) })
	t.Logf("all led without broker %d after %v; %v of CPU", victim, time.Since(began).Round(time.Millisecond), r.cpu()-used)
}

// other is a broker that runs and is not this one.
func (r *rig) other(than int32) int32 {
	for _, n := range r.Nodes {
		if n.ID != than && n.Running() {
			return n.ID
		}
	}
	r.t.Fatal("no other broker runs")
	return -1
}

// wholeOnAll waits until every broker says that all partitions have three replicas in sync.
func (r *rig) wholeOnAll(partitions int) {
	r.t.Helper()
	for _, n := range r.Nodes {
		r.inTheEnd("whole ISR of everything", func() bool {
			count := 0
			r.eachPartition(n.ID, func(p *kmsg.MetadataResponseTopicPartition) {
				if p.Leader >= 0 && len(p.ISR) == 3 {
					count++
				}
			})
			return count == partitions
		})
	}
}

// inTheEnd waits for as long as the test may last: a slow machine, or another broker, needs its time.
func (r *rig) inTheEnd(what string, f func() bool) {
	r.t.Helper()
	for ; r.ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
		if f() {
			return
		}
	}
	r.t.Fatalf("no %s in time", what)
}

// ledWithout says whether a broker knows of leaders for all partitions, none of which is this one.
func (r *rig) ledWithout(asked, victim int32, partitions int) bool {
	count := 0
	r.eachPartition(asked, func(p *kmsg.MetadataResponseTopicPartition) {
		if p.Leader >= 0 && p.Leader != victim {
			count++
		}
	})
	return count == partitions
}

// eachPartition asks one broker of all topics of a test of many.
func (r *rig) eachPartition(broker int32, f func(*kmsg.MetadataResponseTopicPartition)) {
	resp, err := r.client().Broker(int(broker)).Request(r.ctx, kmsg.NewPtrMetadataRequest())
	if err != nil {
		return // eventually asks again
	}
	for _, t := range resp.(*kmsg.MetadataResponse).Topics {
		for i := range t.Partitions {
			if strings.HasPrefix(*t.Topic, "many-") {
				f(&t.Partitions[i])
			}
		}
	}
}

// cpu is what all running brokers have used.
func (r *rig) cpu() (sum time.Duration) {
	for _, n := range r.Nodes {
		if n.Running() {
			sum += r.cpuOf(n.ID)
		}
	}
	return sum
}

func (r *rig) cpuOf(id int32) time.Duration {
	r.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", r.Node(id).Pid()))
	if err != nil {
		r.t.Fatal(err)
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	return time.Duration(user) * 10 * time.Millisecond
}
