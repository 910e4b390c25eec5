package handlers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster/metadata"
	"grete/protocol"
)

// fakeLoggers is a process with two loggers.
type fakeLoggers map[string]string

func (f fakeLoggers) Levels() map[string]string     { return maps.Clone(f) }
func (f fakeLoggers) SetLevel(logger, level string) { f[logger] = level }

// controllerFunc stands in for the controller.
type controllerFunc func(kmsg.Request) (kmsg.Response, error)

func (f controllerFunc) Do(_ context.Context, _ protocol.Principal, req kmsg.Request) (kmsg.Response, error) {
	return f(req)
}

func withLoggers(l Loggers) rigOption { return withBroker(func(b *Broker) { b.Loggers = l }) }

func withController(c Controller) rigOption { return withBroker(func(b *Broker) { b.Controller = c }) }

func configRecord(t metadata.ResourceType, resource, name, value string) metadata.Record {
	return &metadata.ConfigRecord{Type: t, Name: resource, Config: name, Value: &value}
}

func describe(w *wire, version int16, t kmsg.ConfigResourceType, name string, keys ...string) kmsg.DescribeConfigsResponseResource {
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.IncludeSynonyms, req.IncludeDocumentation = true, true
	req.Resources = []kmsg.DescribeConfigsRequestResource{{ResourceType: t, ResourceName: name, ConfigNames: keys}}
	return call[*kmsg.DescribeConfigsResponse](w, version, req).Resources[0]
}

func entryLine(c kmsg.DescribeConfigsResponseResourceConfig) string {
	value := "null"
	if c.Value != nil {
		value = *c.Value
	}
	line := fmt.Sprintf("%s=%s %s %s", c.Name, value, c.Source, c.ConfigType)
	if c.ReadOnly {
		line += " read-only"
	}
	if c.IsSensitive {
		line += " sensitive"
	}
	for _, s := range c.ConfigSynonyms {
		line += " <" + s.Name
	}
	return line
}

// The expectations are what a Kafka 4.4 broker answered.
func TestDescribeConfigs(t *testing.T) {
	r := newRig(t, withStatic("node.id", "1", "log.retention.hours", "24"), withLoggers(fakeLoggers{"root": "INFO"}))
	r.createTopic("t1", 1, "segment.bytes", " 2000000 ")
	r.apply(configRecord(metadata.BrokerResource, "1", "foo", "secret"), configRecord(metadata.BrokerResource, "", "log.flush.interval.messages", "9"),
		configRecord(metadata.BrokerResource, "", "leader.replication.throttled.rate", "7"),
		configRecord(metadata.GroupResource, "g", "consumer.session.timeout.ms", "50000"), configRecord(metadata.ClientMetricsResource, "c", "interval.ms", "1000"))
	w := r.dial()
	for _, tt := range []struct {
		kind      kmsg.ConfigResourceType
		name, key string
		want      string
	}{
		{kmsg.ConfigResourceTypeTopic, "t1", "segment.bytes", "segment.bytes=2000000 DYNAMIC_TOPIC_CONFIG INT <segment.bytes <log.segment.bytes"},
		{kmsg.ConfigResourceTypeTopic, "t1", "retention.ms", "retention.ms=86400000 DEFAULT_CONFIG LONG"},
		{kmsg.ConfigResourceTypeTopic, "t1", "flush.messages", "flush.messages=9 DYNAMIC_DEFAULT_BROKER_CONFIG LONG <log.flush.interval.messages <log.flush.interval.messages"},
		{kmsg.ConfigResourceTypeBroker, "1", "log.retention.hours", "log.retention.hours=24 STATIC_BROKER_CONFIG INT read-only <log.retention.hours <log.retention.hours"},
		{kmsg.ConfigResourceTypeBroker, "", "leader.replication.throttled.rate", "leader.replication.throttled.rate=7 DYNAMIC_DEFAULT_BROKER_CONFIG LONG <leader.replication.throttled.rate"},
		{kmsg.ConfigResourceTypeBroker, "1", "foo", "foo=null DYNAMIC_BROKER_CONFIG UNKNOWN read-only sensitive <foo"},
		{kmsg.ConfigResourceTypeBroker, "1", "ssl.key.password", "ssl.key.password=null DEFAULT_CONFIG PASSWORD sensitive"},
		{kmsg.ConfigResourceTypeBroker, "1", "default.replication.factor", "default.replication.factor=1 DEFAULT_CONFIG INT read-only <default.replication.factor"},
		{kmsg.ConfigResourceTypeBroker, "", "log.flush.interval.messages", "log.flush.interval.messages=9 DYNAMIC_DEFAULT_BROKER_CONFIG LONG <log.flush.interval.messages"},
		{kmsg.ConfigResourceTypeBrokerLogger, "1", "root", "root=INFO DYNAMIC_BROKER_LOGGER_CONFIG UNKNOWN"},
		{kmsg.ConfigResourceTypeGroupConfig, "g", "consumer.session.timeout.ms",
			"consumer.session.timeout.ms=50000 GROUP_CONFIG INT <consumer.session.timeout.ms <group.consumer.session.timeout.ms"},
		{kmsg.ConfigResourceTypeClientMetrics, "c", "interval.ms", "interval.ms=1000 CLIENT_METRICS_CONFIG INT <interval.ms"},
		{kmsg.ConfigResourceTypeClientMetrics, "other", "interval.ms", "interval.ms=300000 DEFAULT_CONFIG INT"},
	} {
		got := describe(w, 4, tt.kind, tt.name, tt.key)
		if got.ErrorCode != 0 || got.ErrorMessage == nil || *got.ErrorMessage != "" || len(got.Configs) != 1 || entryLine(got.Configs[0]) != tt.want {
			t.Errorf("%v %s %s: %+v\nwant %s", tt.kind, tt.name, tt.key, got, tt.want)
		}
	}
	if all := describe(w, 1, kmsg.ConfigResourceTypeTopic, "t1"); len(all.Configs) != 37 {
		t.Errorf("a topic has %d configs", len(all.Configs))
	}
	if all := describe(w, 4, kmsg.ConfigResourceTypeBroker, ""); len(all.Configs) != 2 {
		t.Errorf("the cluster's default has %d configs", len(all.Configs))
	}
}

func TestDescribeConfigsErrors(t *testing.T) {
	r := newRig(t, withLoggers(fakeLoggers{"root": "INFO"}))
	w := r.dial()
	for _, tt := range []struct {
		kind    kmsg.ConfigResourceType
		name    string
		code    int16
		message string
	}{
		{kmsg.ConfigResourceTypeTopic, "nope", 3, ""},
		{kmsg.ConfigResourceTypeTopic, "b*d", 17, "Topic name is invalid: 'b*d' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"},
		{kmsg.ConfigResourceTypeTopic, "", 17, "Topic name is invalid: the empty string is not allowed"},
		{kmsg.ConfigResourceTypeBroker, "2", 42, "Unexpected broker id, expected 1 or empty string, but received 2"},
		{kmsg.ConfigResourceTypeBroker, "x", 42, "Broker id must be an integer, but it is: x"},
		{kmsg.ConfigResourceTypeBrokerLogger, "", 42, "Broker id must not be empty"},
		{kmsg.ConfigResourceTypeBrokerLogger, "9", 42, "Unexpected broker id, expected 1 but received 9"},
		{kmsg.ConfigResourceTypeClientMetrics, "", 42, "Client metrics subscription name must not be empty"},
		{kmsg.ConfigResourceTypeGroupConfig, "", 42, "Group name must not be empty"},
	} {
		got := describe(w, 4, tt.kind, tt.name)
		if got.ErrorCode != tt.code || got.ErrorMessage == nil || *got.ErrorMessage != tt.message || len(got.Configs) > 0 {
			t.Errorf("%v %q: %+v", tt.kind, tt.name, got)
		}
	}
}

func TestDescribeConfigsOfAnUnknownType(t *testing.T) {
	r := newRig(t)
	r.createTopic("t", 1)
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.Resources = []kmsg.DescribeConfigsRequestResource{{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: "t"}, {ResourceType: 99, ResourceName: "x"}}
	resp := call[*kmsg.DescribeConfigsResponse](r.dial(), 4, req)
	for i, res := range resp.Resources {
		if res.ErrorCode != 42 || *res.ErrorMessage != invalidRequestMessage || res.ResourceType != req.Resources[i].ResourceType || len(res.Configs) > 0 {
			t.Errorf("%+v", res)
		}
	}
}

func alterResource(t kmsg.ConfigResourceType, name string, changes ...kmsg.IncrementalAlterConfigsRequestResourceConfig) kmsg.IncrementalAlterConfigsRequestResource {
	return kmsg.IncrementalAlterConfigsRequestResource{ResourceType: t, ResourceName: name, Configs: changes}
}

func change(name string, op kmsg.IncrementalAlterConfigOp, value string) kmsg.IncrementalAlterConfigsRequestResourceConfig {
	return kmsg.IncrementalAlterConfigsRequestResourceConfig{Name: name, Op: op, Value: &value}
}

func TestIncrementalAlterConfigsChecksBeforeTheController(t *testing.T) {
	loggers := fakeLoggers{"root": "INFO"}
	var forwarded []string
	controller := controllerFunc(func(req kmsg.Request) (kmsg.Response, error) {
		resp := req.ResponseKind().(*kmsg.IncrementalAlterConfigsResponse)
		for _, res := range req.(*kmsg.IncrementalAlterConfigsRequest).Resources {
			forwarded = append(forwarded, res.ResourceName)
			resp.Resources = append(resp.Resources, kmsg.IncrementalAlterConfigsResponseResource{ResourceType: res.ResourceType, ResourceName: res.ResourceName})
		}
		return resp, nil
	})
	r := newRig(t, withLoggers(loggers), withController(controller))
	const set, del, appendOp, subtract = kmsg.IncrementalAlterConfigOpSet, kmsg.IncrementalAlterConfigOpDelete, kmsg.IncrementalAlterConfigOpAppend, kmsg.IncrementalAlterConfigOpSubtract
	null := kmsg.IncrementalAlterConfigsRequestResourceConfig{Name: "retention.ms"}
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Resources = []kmsg.IncrementalAlterConfigsRequestResource{
		alterResource(kmsg.ConfigResourceTypeTopic, "fine", change("retention.ms", set, "5")),
		alterResource(kmsg.ConfigResourceTypeTopic, "null", null),
		alterResource(kmsg.ConfigResourceTypeTopic, "twice", change("a", set, "5"), change("a", del, "")),
		alterResource(kmsg.ConfigResourceTypeTopic, "same", change("a", set, "5")),
		alterResource(kmsg.ConfigResourceTypeTopic, "same", change("b", set, "5")),
		alterResource(kmsg.ConfigResourceTypeBroker, "9", change("log.retention.ms", set, "5")),
		alterResource(kmsg.ConfigResourceTypeBroker, "x", change("log.retention.ms", set, "5")),
		alterResource(kmsg.ConfigResourceTypeBroker, "1", change("num.io.threads", appendOp, "5")),
		alterResource(kmsg.ConfigResourceTypeBroker, "+1", change("foo", subtract, "5")),
		alterResource(kmsg.ConfigResourceTypeBroker, "01", change("num.partitions", set, "5")),
		alterResource(kmsg.ConfigResourceTypeBroker, "", change("log.cleanup.policy", appendOp, "compact")),
		alterResource(kmsg.ConfigResourceTypeBrokerLogger, "1", change("root", set, "DEBUG")),
		alterResource(kmsg.ConfigResourceTypeBrokerLogger, "01", change("root", set, "FOO")),
		alterResource(kmsg.ConfigResourceTypeBrokerLogger, "001", change("nope", set, "INFO")),
		alterResource(kmsg.ConfigResourceTypeBrokerLogger, "", change("root", set, "INFO")),
		alterResource(kmsg.ConfigResourceTypeBrokerLogger, "+1", change("root", del, "")),
		alterResource(kmsg.ConfigResourceTypeBrokerLogger, "9", change("root", set, "INFO")),
		alterResource(kmsg.ConfigResourceType(99), "x", change("root", set, "INFO")),
	}
	want := []string{
		"0", "42 Null value not supported for : retention.ms", "42 Error due to duplicate config keys",
		"42 Each resource must appear at most once.", "42 Each resource must appear at most once.",
		"42 Unexpected broker id, expected 1, but received 9", "42 Node id must be an integer, but it is: x",
		"40 Config value append is not allowed for config key: num.io.threads", "40 Unknown config name: foo",
		"42 Cannot update these configs dynamically: [num.partitions]", "0",
		"0", "40 Cannot set the log level of root to FOO as it is not a supported log level. Valid log levels are DEBUG, ERROR, FATAL, INFO, TRACE, WARN",
		"40 Logger nope does not exist!", "42 Node id must be an integer, but it is: ", "42 Removing the log level of the root logger is not allowed",
		"42 Unexpected node id. Expected 1, but received 9", "42 Unknown resource type 99",
	}
	resp := call[*kmsg.IncrementalAlterConfigsResponse](r.dial(), 1, req)
	for i, res := range resp.Resources {
		got := fmt.Sprint(res.ErrorCode)
		if res.ErrorMessage != nil {
			got += " " + *res.ErrorMessage
		}
		if got != want[i] {
			t.Errorf("%v %q:\n got %s\nwant %s", req.Resources[i].ResourceType, req.Resources[i].ResourceName, got, want[i])
		}
	}
	if strings.Join(forwarded, ",") != "fine," {
		t.Errorf("forwarded %q", forwarded)
	}
	if loggers["root"] != "DEBUG" {
		t.Errorf("root logger at %s", loggers["root"])
	}
}

func TestAlterConfigsWhenTheControllerFails(t *testing.T) {
	r := newRig(t, withController(controllerFunc(func(kmsg.Request) (kmsg.Response, error) { return nil, context.DeadlineExceeded })))
	req := kmsg.NewPtrAlterConfigsRequest()
	req.Resources = []kmsg.AlterConfigsRequestResource{{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: "t"}, {ResourceType: kmsg.ConfigResourceTypeBrokerLogger, ResourceName: "1"}}
	resp := call[*kmsg.AlterConfigsResponse](r.dial(), 2, req)
	if resp.Resources[0].ErrorCode != 7 || resp.Resources[1].ErrorCode != 42 || *resp.Resources[1].ErrorMessage != "Unknown resource type 8" {
		t.Errorf("%+v", resp.Resources)
	}
}

func TestTopicRequestsWhenTheControllerFails(t *testing.T) {
	r := newRig(t, withController(controllerFunc(func(kmsg.Request) (kmsg.Response, error) { return nil, errors.New("boom") })))
	w := r.dial()
	create := kmsg.NewPtrCreateTopicsRequest()
	create.Topics = []kmsg.CreateTopicsRequestTopic{{Topic: "a"}}
	if got := call[*kmsg.CreateTopicsResponse](w, 7, create).Topics; len(got) != 1 || got[0].Topic != "a" || got[0].ErrorCode != -1 {
		t.Errorf("create: %+v", got)
	}
	remove := kmsg.NewPtrDeleteTopicsRequest()
	remove.TopicNames = []string{"a"}
	if got := call[*kmsg.DeleteTopicsResponse](w, 5, remove).Topics; len(got) != 1 || *got[0].Topic != "a" || got[0].ErrorCode != -1 {
		t.Errorf("delete: %+v", got)
	}
	grow := kmsg.NewPtrCreatePartitionsRequest()
	grow.Topics = []kmsg.CreatePartitionsRequestTopic{{Topic: "a", Count: 3}}
	if got := call[*kmsg.CreatePartitionsResponse](w, 3, grow).Topics; len(got) != 1 || got[0].Topic != "a" || got[0].ErrorCode != -1 {
		t.Errorf("grow: %+v", got)
	}
}

// The order of types is Kafka's.
func TestListConfigResources(t *testing.T) {
	r := newRig(t)
	r.createTopic("t1", 1)
	r.apply(configRecord(metadata.GroupResource, "g1", "consumer.session.timeout.ms", "50000"), configRecord(metadata.ClientMetricsResource, "c", "interval.ms", "1000"))
	w := r.dial()
	list := func(version int16, types ...int8) string {
		req := kmsg.NewPtrListConfigResourcesRequest()
		req.ResourceTypes = types
		resp := call[*kmsg.ListConfigResourcesResponse](w, version, req)
		line := fmt.Sprint(resp.ErrorCode)
		for _, res := range resp.ConfigResources {
			line += fmt.Sprintf(" %d:%s", res.Type, res.Name)
		}
		return line
	}
	for _, tt := range []struct{ got, want string }{
		{list(0), "0 16:c"}, {list(1), "0 32:g1 16:c 8:1 4:1 2:t1"}, {list(1, 2), "0 2:t1"}, {list(1, 2, 77), "35"},
	} {
		if tt.got != tt.want {
			t.Errorf("%s, want %s", tt.got, tt.want)
		}
	}
}

func TestNoAuthorizerAndNoSASL(t *testing.T) {
	w := newRig(t).dial()
	d := kmsg.NewPtrDescribeACLsRequest()
	d.ResourceType, d.Operation, d.PermissionType = kmsg.ACLResourceTypeAny, kmsg.ACLOperationAny, kmsg.ACLPermissionTypeAny
	if resp := call[*kmsg.DescribeACLsResponse](w, 3, d); resp.ErrorCode != 54 || *resp.ErrorMessage != noAuthorizerOnBroker {
		t.Errorf("%+v", resp)
	}
	c := kmsg.NewPtrCreateACLsRequest()
	c.Creations = []kmsg.CreateACLsRequestCreation{{ResourceType: 2, ResourceName: "x", ResourcePatternType: 3, Principal: "User:a", Host: "*", Operation: 3, PermissionType: 3}}
	if resp := call[*kmsg.CreateACLsResponse](w, 1, c); len(resp.Results) != 1 || resp.Results[0].ErrorCode != 54 || *resp.Results[0].ErrorMessage != noAuthorizerOnController {
		t.Errorf("%+v", resp)
	}
	for version := int16(0); version <= 1; version++ {
		if resp := call[*kmsg.SASLHandshakeResponse](w, version, kmsg.NewPtrSASLHandshakeRequest()); resp.ErrorCode != 34 {
			t.Errorf("handshake: %+v", resp)
		}
	}
	if resp := call[*kmsg.SASLAuthenticateResponse](w, 2, kmsg.NewPtrSASLAuthenticateRequest()); resp.ErrorCode != 34 {
		t.Errorf("authenticate: %+v", resp)
	}
	c.Creations[0].ResourceType = 0
	c.SetVersion(3)
	w.send(c)
	w.expectClose()
}

func TestDescribeLogDirs(t *testing.T) {
	r := newRig(t)
	r.createTopic("t1", 2)
	r.createTopic("t2", 1)
	w := r.dial()
	w.produce("t1", 1, "v")
	describeDirs := func(version int16, topics []kmsg.DescribeLogDirsRequestTopic) string {
		req := kmsg.NewPtrDescribeLogDirsRequest()
		req.Topics = topics
		resp := call[*kmsg.DescribeLogDirsResponse](w, version, req)
		line := fmt.Sprintf("%d %d", resp.ErrorCode, len(resp.Dirs))
		for _, topic := range resp.Dirs[0].Topics {
			for _, p := range topic.Partitions {
				line += fmt.Sprintf(" %s-%d:%v", topic.Topic, p.Partition, p.Size > 0)
			}
		}
		return line
	}
	if got, want := describeDirs(1, nil), "0 1 t1-0:false t1-1:true t2-0:false"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	named := []kmsg.DescribeLogDirsRequestTopic{{Topic: "t1", Partitions: []int32{1, 7}}, {Topic: "nope", Partitions: []int32{0}}}
	if got, want := describeDirs(5, named), "0 1 t1-1:true"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got, want := describeDirs(5, []kmsg.DescribeLogDirsRequestTopic{}), "0 1"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// What clients repeat in a request costs no more than its length: the bound is minutes below the square.
func TestManyResourcesInOneAlteration(t *testing.T) {
	const n = 300_000
	a := alteration{incremental: true}
	for i := range n {
		a.resources = append(a.resources, alteredResource{kind: 99, name: strconv.Itoa(i)})
	}
	changes := make([]configChange, n)
	for i := range changes {
		changes[i].name, changes[i].op = strconv.Itoa(i), kmsg.IncrementalAlterConfigOpDelete
	}
	a.resources = append(a.resources, alteredResource{kind: 99, name: "many", changes: changes}, alteredResource{kind: 99, name: "0"})
	began := time.Now()
	a.precheck()
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("%d resources took %v", n, took)
	}
	if first, last, second := a.resources[0].result, a.resources[n+1].result, a.resources[1].result; first.Message != last.Message || first.Message == second.Message {
		t.Errorf("%v, %v, %v", first, last, second)
	}
}
