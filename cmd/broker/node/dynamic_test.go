package node

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/internal/config"
	"grete/internal/memory"
	"grete/internal/vfs"
)

// idle are properties that may be changed though nothing here reads them, for what they belong to is switched off and
// cannot be switched on; a Kafka that has it switched off reads them as little.
var idle = map[string]string{
	"remote.": "tiered storage", "log.local.retention.": "tiered storage", "log.remote.copy.": "tiered storage", "local.retention.": "tiered storage",
	"follower.fetch.last.tiered.offset.enable": "tiered storage",
	"group.share.": "share groups", "share.": "share groups", "errors.deadletterqueue.": "share groups",
	"group.streams.": "streams groups", "streams.": "streams groups",
	"interval.ms": "reporters of clients' metrics", "match": "reporters of clients' metrics", "metrics": "reporters of clients' metrics",
	"ssl.client.auth": "TLS, which the listener has not", "listener.name.plaintext.ssl.": "TLS, which the listener has not",
	"listener.name.plaintext.sasl.": "SASL, which the listener has not", "listener.name.plaintext.connections.max.reauth.ms": "SASL, which the listener has not",
	"preallocate": "early taking of space, which shows nowhere", "log.preallocate": "early taking of space, which shows nowhere",
}

func isIdle(name string) bool {
	for prefix := range idle {
		if name == prefix || strings.HasSuffix(prefix, ".") && strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// readAtUse are properties that nothing keeps: the function in that file takes them from the newest image each time.
var readAtUse = map[string]string{"unclean.leader.election.enable": "../../../cluster/controller/partition_change.go"}

// alterConfig sets a property of a resource, or with a nil value deletes it.
func alterConfig(t *testing.T, cl *kgo.Client, kind kmsg.ConfigResourceType, resource, name string, value *string) (code int16, message string) {
	t.Helper()
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = kind, resource
	c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	c.Name, c.Value, c.Op = name, value, kmsg.IncrementalAlterConfigOpSet
	if value == nil {
		c.Op = kmsg.IncrementalAlterConfigOpDelete
	}
	r.Configs = append(r.Configs, c)
	req.Resources = append(req.Resources, r)
	resp, err := req.RequestWith(context.Background(), cl)
	if err != nil {
		t.Fatal(err)
	}
	answer := resp.Resources[0]
	if answer.ErrorMessage != nil {
		message = *answer.ErrorMessage
	}
	return answer.ErrorCode, message
}

// live is what readers of the dynamic configuration have in their hands now.
func live(t *testing.T, n *Node, topics ...string) string {
	t.Helper()
	var b strings.Builder
	for _, topic := range topics {
		p, err := n.replicas.Partition(topic, 0)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s %+v\n", topic, *p.Config())
	}
	cleaner := n.store.CleanerConfig()
	cleaner.Entropy, cleaner.Memory = nil, nil
	fmt.Fprintf(&b, "%+v\n%+v\n%+v\n%+v\n%v\n", cleaner, n.server.Limits(), n.replicas.Throttles(), n.groupSettings("g"), n.verifiesTransactions())
	return b.String()
}

// candidates are values of which one is allowed for each property and is not its default.
var candidates = []string{
	"0.25", "true", "false", "2", "3", "12", "1000", "50000", "60000", "70000000", "1048577", "compact", "gzip", "lz4", "LogAppendTime", "0:1", "127.0.0.1:5", "PLAINTEXT://127.0.0.1:1",
	"PLAINTEXT:PLAINTEXT,X:PLAINTEXT", "/data", "a.B", "required", "PLAIN", "client_id=a", "3000", "1@a:9093", "DISABLED", "consumer", "classic", "broker", "ES256", "SSL",
}

// Every property that may be changed while the broker runs is walked over, on one broker and on all: the change is in
// the hands of its readers when it is answered and goes away with it, or it is refused and nothing is stored, or it
// belongs to what is switched off.
func TestEveryDynamicPropertyIsAppliedOrRefused(t *testing.T) {
	o := options(t, vfs.NewMem())
	o.Memory = memory.New(8 << 30) // none of the candidates is cut to a share of it
	n := start(t, o)
	cl := client(t, n)
	topics := []string{"plain", "gzip", "lz4", "zstd"}
	for _, topic := range topics {
		createTopic(t, cl, topic, 1)
		if topic != "plain" {
			alterConfig(t, cl, kmsg.ConfigResourceTypeTopic, topic, "compression.type", &topic)
		}
	}
	applied := 0
	walk := func(kind kmsg.ConfigResourceType, resource string, d *config.Def, name string) {
		refusals := ""
		for _, value := range candidates {
			before := live(t, n, topics...)
			if d.Validate(value) != nil {
				continue
			}
			was := n.dynamicLayers(n.image()).Text(brokerName(name))
			code, message := alterConfig(t, cl, kind, resource, name, &value)
			if code != 0 {
				if live(t, n, topics...) != before {
					t.Errorf("%v %q: %s=%s is refused and changes something", kind, resource, name, value)
				}
				refusals = message
				continue
			}
			changed := live(t, n, topics...) != before
			if code, _ := alterConfig(t, cl, kind, resource, name, nil); code != 0 { // min.insync.replicas of the cluster must have a value
				alterConfig(t, cl, kind, resource, name, &was)
			}
			if after := live(t, n, topics...); after != before {
				t.Errorf("%v %q: %s=%s does not go away:\n%s\n%s", kind, resource, name, value, before, after)
			}
			if changed {
				applied++
				return
			}
			current := n.dynamicLayers(n.image())
			if kind == kmsg.ConfigResourceTypeBroker && config.BrokerDefs.Lookup(name) != nil && current.Text(name) == value {
				continue // it is so already
			}
			if file, ok := readAtUse[name]; ok {
				source, err := os.ReadFile(file)
				if err != nil || !strings.Contains(string(source), `"`+name+`"`) {
					t.Errorf("%s does not read %s: %v", file, name, err)
				}
				return
			}
			if !isIdle(name) && !isDefault(kind, d, value) {
				t.Errorf("%v %q: %s=%s is taken, and nothing shows it", kind, resource, name, value)
			}
		}
		if !isIdle(name) && refusals == "" {
			t.Errorf("%v %q: no candidate for %s", kind, resource, name)
		}
	}
	for _, resource := range []string{"1", ""} {
		for d := range config.BrokerDefs.All() {
			walk(kmsg.ConfigResourceTypeBroker, resource, d, d.Name)
			walk(kmsg.ConfigResourceTypeBroker, resource, d, "listener.name.plaintext."+d.Name)
		}
		for d := range config.DynamicDefs.All() {
			walk(kmsg.ConfigResourceTypeBroker, resource, d, d.Name)
		}
	}
	for d := range config.TopicDefs.All() {
		topic := "plain"
		if codec, ok := strings.CutSuffix(strings.TrimPrefix(d.Name, "compression."), ".level"); ok {
			topic = codec
		}
		walk(kmsg.ConfigResourceTypeTopic, topic, d, d.Name)
	}
	for d := range config.GroupDefs.All() {
		walk(kmsg.ConfigResourceTypeGroupConfig, "g", d, d.Name)
	}
	for d := range config.ClientMetricsDefs.All() {
		walk(kmsg.ConfigResourceTypeClientMetrics, "m", d, d.Name)
	}
	if applied < 100 {
		t.Errorf("%d properties were seen to change something", applied)
	}
}

// brokerName is name where that is a broker's property, else any that is.
func brokerName(name string) string {
	if config.BrokerDefs.Lookup(name) != nil {
		return name
	}
	return "node.id"
}

// isDefault: setting it changes nothing because it is so.
func isDefault(kind kmsg.ConfigResourceType, d *config.Def, value string) bool {
	var text string
	var layers config.Layers
	switch kind {
	case kmsg.ConfigResourceTypeTopic:
		text, _ = layers.TopicText(d.Name, nil)
	case kmsg.ConfigResourceTypeGroupConfig:
		text = layers.GroupText(d.Name, nil)
	case kmsg.ConfigResourceTypeBroker:
		text = layers.Text(d.Name)
	}
	return text == value
}

// Limits of connections that were changed while the broker ran are enforced at once, for one broker and for all, and
// after a restart.
func TestConnectionLimitsAreEnforced(t *testing.T) {
	for _, resource := range []string{"1", ""} {
		fs := vfs.NewMem()
		n := start(t, options(t, fs))
		cl := client(t, n)
		four := "4"
		if code, message := alterConfig(t, cl, kmsg.ConfigResourceTypeBroker, resource, "max.connections.per.ip", &four); code != 0 {
			t.Fatal(kerr.ErrorForCode(code), message)
		}
		cl.Close()
		requireOpen(t, n, 12, 4)
		stopNode(t, n)
		n = start(t, options(t, fs))
		requireOpen(t, n, 12, 4)
	}
}

// requireOpen dials so often, and wants that many to stay.
func requireOpen(t *testing.T, n *Node, dialled, want int) {
	t.Helper()
	var conns []net.Conn
	defer func() {
		for _, c := range conns {
			c.Close()
		}
	}()
	for deadline := time.Now().Add(10 * time.Second); ; {
		open := 0
		for range dialled {
			c, err := net.Dial("tcp", n.Addr("PLAINTEXT"))
			if err != nil {
				t.Fatal(err)
			}
			conns = append(conns, c)
		}
		for _, c := range conns {
			_ = c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
			if _, err := c.Read(make([]byte, 1)); err != io.EOF && os.IsTimeout(err) {
				open++
			}
		}
		if open == want {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d connections are open, want %d", open, dialled, want)
		}
		for _, c := range conns { // those of before the change may still be counted
			c.Close()
		}
		conns = nil
	}
}
