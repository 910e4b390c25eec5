package config

import (
	"fmt"
	"strings"
	"testing"
)

func find(t *testing.T, all []Described, name string) string {
	t.Helper()
	for _, d := range all {
		if d.Def.Name != name {
			continue
		}
		var b strings.Builder
		fmt.Fprintf(&b, "%s from %d", show(d.Value), d.Source)
		for _, s := range d.Synonyms {
			fmt.Fprintf(&b, "; %s=%s from %d", s.Name, show(s.Value), s.Source)
		}
		return b.String()
	}
	return "absent"
}

func show(v *string) string {
	if v == nil {
		return "null"
	}
	return *v
}

// Each expectation is what Kafka 4.4 answered to DescribeConfigs with the same values set.
func TestDescribe(t *testing.T) {
	l := Layers{
		Static:         map[string]string{"node.id": "1", "log.retention.hours": "24", "num.partitions": "3"},
		Broker:         map[string]string{"log.cleaner.threads": "2", "log.flush.interval.messages": "7"},
		ClusterDefault: map[string]string{"min.insync.replicas": "2", "log.flush.interval.messages": "9"},
	}
	overrides := map[string]string{"segment.bytes": " 2000000 ", "flush.messages": "5"}
	for name, want := range map[string]string{
		"segment.bytes":       "2000000 from 1; segment.bytes=2000000 from 1; log.segment.bytes=1073741824 from 5",
		"retention.ms":        "86400000 from 5",
		"segment.ms":          "604800000 from 5",
		"flush.ms":            "9223372036854775807 from 5",
		"min.insync.replicas": "2 from 3; min.insync.replicas=2 from 3; min.insync.replicas=1 from 5",
		"flush.messages": "5 from 1; flush.messages=5 from 1; log.flush.interval.messages=7 from 2; " +
			"log.flush.interval.messages=9 from 3; log.flush.interval.messages=9223372036854775807 from 5",
		"cleanup.policy":         "delete from 5; log.cleanup.policy=delete from 5",
		"remote.storage.enable":  "false from 5",
		"internal.segment.bytes": "absent",
	} {
		if got := find(t, l.DescribeTopic(overrides), name); got != want {
			t.Errorf("topic %s:\n got %s\nwant %s", name, got, want)
		}
	}
	for name, want := range map[string]string{
		"log.retention.ms":    "null from 5",
		"log.retention.hours": "24 from 4; log.retention.hours=24 from 4; log.retention.hours=168 from 5",
		"log.cleaner.threads": "2 from 2; log.cleaner.threads=2 from 2; log.cleaner.threads=1 from 5",
		"node.id":             "1 from 4; node.id=1 from 4",
		"broker.rack":         "null from 5",
		"ssl.key.password":    "null from 5",
		"num.partitions":      "3 from 4; num.partitions=3 from 4; num.partitions=1 from 5",
	} {
		if got := find(t, l.DescribeBroker(false), name); got != want {
			t.Errorf("broker %s:\n got %s\nwant %s", name, got, want)
		}
	}
	cluster := l.DescribeBroker(true)
	if got := find(t, cluster, "min.insync.replicas"); len(cluster) != 2 || got != "2 from 3; min.insync.replicas=2 from 3" {
		t.Errorf("cluster default: %d entries, %s", len(cluster), got)
	}
}

func TestDescribeGroupAndClientMetrics(t *testing.T) {
	group := Layers{}.DescribeGroup(map[string]string{"consumer.session.timeout.ms": "50000"})
	for name, want := range map[string]string{
		"consumer.session.timeout.ms":    "50000 from 8; consumer.session.timeout.ms=50000 from 8; group.consumer.session.timeout.ms=45000 from 5",
		"consumer.heartbeat.interval.ms": "5000 from 5; group.consumer.heartbeat.interval.ms=5000 from 5",
		"share.auto.offset.reset":        "latest from 5; share.auto.offset.reset=latest from 5",
		"streams.assignor.name":          "sticky from 5; group.streams.assignors=sticky from 5",
	} {
		if got := find(t, group, name); got != want {
			t.Errorf("group %s:\n got %s\nwant %s", name, got, want)
		}
	}
	client := DescribeClientMetrics(map[string]string{"interval.ms": "1000"})
	if got, want := find(t, client, "interval.ms"), "1000 from 7; interval.ms=1000 from 7"; got != want {
		t.Errorf("interval.ms: %s, want %s", got, want)
	}
	if got, want := find(t, client, "match"), " from 5"; got != want {
		t.Errorf("match: %q, want %q", got, want)
	}
}

func TestTopicInNumbers(t *testing.T) {
	l := Layers{Static: map[string]string{"log.retention.minutes": "2", "log.roll.hours": "1", "log.retention.hours": "5"}}
	got := l.Topic(map[string]string{"cleanup.policy": "compact", "message.timestamp.type": "LogAppendTime"})
	if got.RetentionMs != 120000 || got.SegmentMs != 3600000 {
		t.Errorf("retention %d, segment %d", got.RetentionMs, got.SegmentMs)
	}
	if !got.Compact || got.Delete || !got.LogAppendTime {
		t.Errorf("compact %v delete %v appendTime %v", got.Compact, got.Delete, got.LogAppendTime)
	}
	unlimited := Layers{Static: map[string]string{"log.retention.hours": "-1"}}.Topic(nil)
	if unlimited.RetentionMs != -1 || !unlimited.Delete || unlimited.MaxMessageBytes != 1048588 || unlimited.SegmentBytes != 1<<30 {
		t.Errorf("%+v", unlimited)
	}
}

func TestValidateWholeResources(t *testing.T) {
	var l Layers
	message := func(err error) string {
		if err == nil {
			return ""
		}
		return err.Error()
	}
	for _, tt := range []struct {
		values map[string]string
		want   string
	}{
		{map[string]string{"foo": "1"}, "Unknown topic config name: foo"},
		{map[string]string{"min.compaction.lag.ms": "100000", "max.compaction.lag.ms": "100"},
			"conflict topic config setting min.compaction.lag.ms (100000) > max.compaction.lag.ms (100)"},
		{map[string]string{"remote.storage.enable": "true"},
			"Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log storage."},
		{map[string]string{"retention.ms": "5", "cleanup.policy": ""}, ""},
	} {
		if got := message(l.ValidateTopic(tt.values)); got != tt.want {
			t.Errorf("topic %v: %q, want %q", tt.values, got, tt.want)
		}
	}
	for _, tt := range []struct{ name, value, want string }{
		{"foo", "1", "Unknown group config name: foo"},
		{"consumer.session.timeout.ms", "1", "consumer.session.timeout.ms must be in the range 45000 to 60000 inclusive."},
		{"share.delivery.count.limit", "99", "share.delivery.count.limit must be in the range 2 to 10 inclusive."},
		{"share.partition.max.record.locks", "100", ""},
		{"streams.num.standby.replicas", "9", "streams.num.standby.replicas must be less than or equal to 2"},
		{"streams.task.offset.interval.ms", "1", "streams.task.offset.interval.ms must be greater than or equal to 15000"},
		{"streams.assignor.name", "foo", "streams.assignor.name 'foo' is not a registered task assignor. Registered assignors are: [sticky]."},
		{"consumer.heartbeat.interval.ms", "x", "Invalid value x for configuration consumer.heartbeat.interval.ms: Not a number of type INT"},
	} {
		if got := message(l.ValidateGroup(map[string]string{tt.name: tt.value})); got != tt.want {
			t.Errorf("group %s=%s: %q, want %q", tt.name, tt.value, got, tt.want)
		}
	}
	for _, tt := range []struct {
		name, value, want string
		invalidRequest    bool
	}{
		{"foo", "1", "Unknown client metrics configuration: foo", true},
		{"interval.ms", "99", "Invalid value 99 for interval.ms, interval must be between 100 and 3600000 (1 hour)", true},
		{"interval.ms", "x", "Invalid value x for configuration interval.ms: Not a number of type INT", false},
		{"match", "client_id=[", "Illegal client matching pattern: client_id=[", false},
		{"match", "foo=a", "Illegal client matching pattern: foo=a", false},
		{"match", "client_id=a.*", "", false},
	} {
		invalidRequest, err := ValidateClientMetrics(map[string]string{tt.name: tt.value})
		if got := message(err); got != tt.want || invalidRequest != tt.invalidRequest {
			t.Errorf("client metrics %s=%s: %q (%v), want %q", tt.name, tt.value, got, invalidRequest, tt.want)
		}
	}
}
