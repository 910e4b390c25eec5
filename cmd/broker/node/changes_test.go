package node

import (
	"strings"
	"testing"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/internal/vfs"
)

// administer creates a topic, one that is there already, and sets a password and a topic's property.
func administer(t *testing.T, cl *kgo.Client) {
	t.Helper()
	createTopic(t, cl, "t", 3)
	again := kmsg.NewPtrCreateTopicsRequest()
	again.Topics = []kmsg.CreateTopicsRequestTopic{{Topic: "t", NumPartitions: 9, ReplicationFactor: 1}}
	if resp, err := again.RequestWith(t.Context(), cl); err != nil || resp.Topics[0].ErrorCode != kerr.TopicAlreadyExists.Code {
		t.Fatalf("%+v, %v", resp, err)
	}
	alter := kmsg.NewPtrIncrementalAlterConfigsRequest()
	set := func(kind kmsg.ConfigResourceType, name, key, value string) {
		alter.Resources = append(alter.Resources, kmsg.IncrementalAlterConfigsRequestResource{ResourceType: kind, ResourceName: name,
			Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: key, Value: &value}}})
	}
	set(kmsg.ConfigResourceTypeTopic, "t", "retention.ms", "1234")
	set(kmsg.ConfigResourceTypeBroker, "1", "listener.name.other.ssl.keystore.password", "hush-hush")
	resp, err := alter.RequestWith(t.Context(), cl)
	if err != nil || resp.Resources[0].ErrorCode != 0 || resp.Resources[1].ErrorCode != 0 {
		t.Fatalf("%+v, %v", resp, err)
	}
}

// With audit.changes.enable each change is a line with what was and what is; what was refused is none, and a secret is
// never shown. Without, there are no lines.
func TestChangesAreLogged(t *testing.T) {
	for _, audit := range []string{"true", "false"} {
		t.Run(audit, func(t *testing.T) {
			o := options(t, vfs.NewMem(), "node.id=1", "audit.changes.enable="+audit)
			log := &logged{}
			o.Log = zerolog.New(log)
			n := start(t, o)
			administer(t, client(t, n))
			if audit == "false" {
				if c := log.count(`"message":"changed"`); c != 0 {
					t.Errorf("%d lines", c)
				}
				return
			}
			for _, want := range []string{
				`"request":"CreateTopics","resource_type":"TOPIC","resource":"t","after":"3 partitions, replication factor 1","message":"changed"`,
				`"resource":"t retention.ms","before":"not set","after":"\"1234\"","message":"changed"`,
				`"resource":"1 listener.name.other.ssl.keystore.password","before":"not set","after":"set; the value is not shown","message":"changed"`,
				`"principal":"User:ANONYMOUS","host":"127.0.0.1","listener":"PLAINTEXT"`,
			} {
				if log.count(want) == 0 {
					t.Errorf("no %s", want)
				}
			}
			if c := log.count(`"message":"changed"`); c != 3 || log.count("hush") != 0 {
				t.Errorf("%d lines:\n%s", c, log.text.String())
			}
		})
	}
}

// A change that a broker forwards is told once, by the broker that the client asked, with what came of it.
func TestForwardedChangesAreToldOnce(t *testing.T) {
	c := newNodes(t, 3, "audit.changes.enable=true")
	logs := []*logged{c.logs(0), c.logs(1), c.logs(2)}
	c.start(0, 1, 2)
	for i := range c.running {
		name := string(rune('a' + i))
		if err := c.create(i, name, 3); err != nil {
			t.Fatal(err)
		}
		for j, log := range logs {
			log.mu.Lock()
			told := strings.Count(log.text.String(), `"resource":"`+name+`","after":"1 partitions, replication factor 3","message":"changed"`)
			log.mu.Unlock()
			if want := map[bool]int{true: 1}[i == j]; told != want {
				t.Errorf("node %d was asked, node %d has %d lines", i, j, told)
			}
		}
	}
}
