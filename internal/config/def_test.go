package config

import (
	"fmt"
	"strings"
	"testing"
)

// Counts and samples are those of Kafka 4.4's ConfigDefs.
func TestDefinitionsAreComplete(t *testing.T) {
	for name, want := range map[string]struct {
		defs             *Defs
		public, internal int
	}{
		"topic": {TopicDefs, 37, 1}, "broker": {BrokerDefs, 350, 29}, "group": {GroupDefs, 21, 6}, "client": {ClientMetricsDefs, 3, 0}, "dynamic": {DynamicDefs, 3, 0},
	} {
		public, internal := 0, 0
		for d := range want.defs.All() {
			if d.Internal {
				internal++
			} else {
				public++
			}
		}
		if public != want.public || internal != want.internal {
			t.Errorf("%s: %d public and %d internal definitions, want %d and %d", name, public, internal, want.public, want.internal)
		}
	}
}

func TestEveryDefaultIsValid(t *testing.T) {
	for _, defs := range []*Defs{TopicDefs, BrokerDefs, GroupDefs, ClientMetricsDefs, DynamicDefs, OwnDefs} {
		for d := range defs.All() {
			text, ok := d.defaultText()
			if !ok {
				continue
			}
			if got, err := d.Canonical(text); err != nil || got != text {
				t.Errorf("%s: default %q is %q, %v", d.Name, text, got, err)
			}
		}
	}
}

// The answers are those of Kafka 4.4's ConfigDef.parse.
func TestCanonical(t *testing.T) {
	const reset = "The value must be either 'earliest', 'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'."
	const replicas = "must be the literal '*' or a list of replicas in the following format: " +
		"[partitionId]:[brokerId],[partitionId]:[brokerId],..."
	tests := []struct{ name, value, want string }{
		{"segment.bytes", "12", "error: Invalid value 12 for configuration segment.bytes: Value must be at least 1048576"},
		{"segment.bytes", "x", "error: Invalid value x for configuration segment.bytes: Not a number of type INT"},
		{"segment.bytes", " 2000000 ", "2000000"},
		{"segment.bytes", "+2000000", "2000000"},
		{"segment.bytes", "0x10", "error: Invalid value 0x10 for configuration segment.bytes: Not a number of type INT"},
		{"segment.bytes", "99999999999", "error: Invalid value 99999999999 for configuration segment.bytes: Not a number of type INT"},
		{"segment.bytes", "", "error: Invalid value  for configuration segment.bytes: Not a number of type INT"},
		{"retention.ms", "-2", "error: Invalid value -2 for configuration retention.ms: Value must be at least -1"},
		{"retention.bytes", "-2", "-2"},
		{"min.cleanable.dirty.ratio", "1.5", "error: Invalid value 1.5 for configuration min.cleanable.dirty.ratio: Value must be no more than 1"},
		{"min.cleanable.dirty.ratio", "-0.5", "error: Invalid value -0.5 for configuration min.cleanable.dirty.ratio: Value must be at least 0"},
		{"min.cleanable.dirty.ratio", "1e-1", "0.1"},
		{"min.cleanable.dirty.ratio", "0.00001", "1.0E-5"},
		{"min.cleanable.dirty.ratio", "1", "1.0"},
		{"min.cleanable.dirty.ratio", "0.5f", "0.5"},
		{"min.cleanable.dirty.ratio", "NaN", "NaN"},
		{"min.cleanable.dirty.ratio", "inf", "error: Invalid value inf for configuration min.cleanable.dirty.ratio: Not a number of type DOUBLE"},
		{"cleanup.policy", "", ""},
		{"cleanup.policy", "delete , compact", "delete,compact"},
		{"cleanup.policy", "delete,delete", "delete"},
		{"cleanup.policy", "foo,foo", "error: Invalid value foo for configuration cleanup.policy: String must be one of: compact, delete"},
		{"cleanup.policy", "delete,", "error: Configuration 'cleanup.policy' values must not be empty."},
		{"preallocate", "yes", "error: Invalid value yes for configuration preallocate: Expected value to be either true or false"},
		{"preallocate", " TRUE ", "true"},
		{"compression.type", "GZIP", "error: Invalid value GZIP for configuration compression.type: String must be one of: " +
			"uncompressed, zstd, lz4, snappy, gzip, producer"},
		{"compression.gzip.level", "0", "error: Invalid value 0 for configuration compression.gzip.level: Value must be between 1 and 9 or equal to -1"},
		{"compression.gzip.level", "-1", "-1"},
		{"compression.lz4.level", "18", "error: Invalid value 18 for configuration compression.lz4.level: Value must be no more than 17"},
		{"leader.replication.throttled.replicas", "*", "*"},
		{"leader.replication.throttled.replicas", "1:2, 3:4", "1:2,3:4"},
		{"leader.replication.throttled.replicas", "*,1:2", "error: Invalid value [*, 1:2] for configuration " +
			"leader.replication.throttled.replicas: leader.replication.throttled.replicas " + replicas},
	}
	checkCanonical(t, TopicDefs, tests)
	checkCanonical(t, BrokerDefs, []struct{ name, value, want string }{
		{"log.dirs", "", "error: Configuration 'log.dirs' must not be empty. Valid values include: any non-empty value"},
		{"log.dirs", "a,,b", "error: Configuration 'log.dirs' values must not be empty."},
		{"process.roles", "", "error: Configuration 'process.roles' must not be empty. Valid values include: [broker, controller]"},
		{"controller.quorum.voters", "", ""},
		{"controller.quorum.voters", "1@a:9,2@[::1]:9", "1@a:9,2@[::1]:9"},
		{"controller.quorum.voters", "x@a:9", "error: Failed to parse voter ID as an integer from x"},
		{"controller.quorum.voters", "1a:9", "error: Invalid configuration value for controller.quorum.voters. " +
			"Each entry should be in the form `{id}@{host}:{port}`."},
		{"controller.quorum.bootstrap.servers", "a", "error: Failed to parse host name from a for the configuration " +
			`controller.quorum.bootstrap.servers. Each entry should be in the form "{host}:{port}"`},
		{"group.consumer.migration.policy", "upgrade", "upgrade"},
		{"group.consumer.migration.policy", "foo", "error: Invalid value foo for configuration group.consumer.migration.policy: " +
			"String must be one of (case insensitive): DISABLED, DOWNGRADE, UPGRADE, BIDIRECTIONAL"},
		{"remote.log.storage.manager.impl.prefix", "", "error: Invalid value  for configuration " +
			"remote.log.storage.manager.impl.prefix: String must be non-empty"},
		{"sasl.login.refresh.buffer.seconds", "99999", "error: Invalid value 99999 for configuration " +
			"sasl.login.refresh.buffer.seconds: Not a number of type SHORT"},
	})
	checkCanonical(t, GroupDefs, []struct{ name, value, want string }{
		{"share.auto.offset.reset", "earliest", "earliest"},
		{"share.auto.offset.reset", "by_duration:PT1H", "by_duration:PT1H"},
		{"share.auto.offset.reset", "by_duration:P1DT1H2M3.5S", "by_duration:P1DT1H2M3.5S"},
		{"share.auto.offset.reset", "by_duration:PT0S", "by_duration:PT0S"},
		{"share.auto.offset.reset", "by_duration:P", "error: Invalid value by_duration:P for configuration share.auto.offset.reset: " +
			"Invalid value `by_duration:P` for configuration share.auto.offset.reset. " + reset},
		{"share.auto.offset.reset", "by_duration:-PT1H", "error: Invalid value by_duration:-PT1H for configuration share.auto.offset.reset: " +
			"Invalid value `by_duration:-PT1H` for configuration share.auto.offset.reset. " + reset},
	})
}

func checkCanonical(t *testing.T, defs *Defs, tests []struct{ name, value, want string }) {
	t.Helper()
	for _, tt := range tests {
		got, err := defs.Lookup(tt.name).Canonical(tt.value)
		if err != nil {
			got = fmt.Sprintf("error: %v", err)
		}
		if got != tt.want {
			t.Errorf("%s=%q:\n got %s\nwant %s", tt.name, tt.value, got, tt.want)
		}
	}
}

func TestEveryDefinitionIsDocumented(t *testing.T) {
	for _, defs := range []*Defs{TopicDefs, BrokerDefs, GroupDefs, ClientMetricsDefs, DynamicDefs, OwnDefs} {
		for d := range defs.All() {
			if !strings.HasSuffix(d.Doc, ".") {
				t.Errorf("%s: documentation %q", d.Name, d.Doc)
			}
		}
	}
}
