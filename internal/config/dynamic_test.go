package config

import "testing"

// The answers are Kafka 4.4's, but where a change that it makes would be ignored here.
func TestValidateDynamicBroker(t *testing.T) {
	l := Layers{Static: map[string]string{"log.dirs": "/a"}}
	for _, tt := range []struct {
		name, value string
		perBroker   bool
		want        string
	}{
		{"foo", "1", true, ""},
		{"leader.replication.throttled.rate", "0", true, ""},
		{"follower.replication.throttled.rate", "-1", false, "Invalid value -1 for configuration follower.replication.throttled.rate: Value must be at least 0"},
		{"replica.alter.log.dirs.io.max.bytes.per.second", "x", true,
			"Invalid value x for configuration replica.alter.log.dirs.io.max.bytes.per.second: Not a number of type LONG"},
		{"log.retention.ms", "5", true, ""},
		{"log.retention.ms", "5", false, ""},
		{"log.retention.ms", "x", true, "Invalid value x for configuration log.retention.ms: Not a number of type LONG"},
		{"log.retention.ms", "0", true, "requirement failed: log.retention.ms must be unlimited (-1) or, greater than or equal to 1"},
		{"log.roll.ms", "0", true, "requirement failed: log.roll.ms must be greater than or equal to 1"},
		{"log.retention.hours", "1", true, "Cannot update these configs dynamically: [log.retention.hours]"},
		{"node.id", "3", true, "Cannot update these configs dynamically: [node.id]"},
		{"listeners", "PLAINTEXT://:1", true, "Cannot update these configs dynamically: [listeners]"},
		{"listeners", "PLAINTEXT://:1", false, "Cannot update these configs at default cluster level, broker id must be specified: [listeners]"},
		{"sasl.jaas.config", "x", false, "Cannot update these configs at default cluster level, broker id must be specified: [sasl.jaas.config]"},
		{"listener.name.plaintext.ssl.keystore.location", "x", false,
			"Cannot update these configs at default cluster level, broker id must be specified: [listener.name.plaintext.ssl.keystore.location]"},
		{"listener.name.plaintext.max.connections", "5", false, ""},
		{"ssl.keystore.location", "x", true,
			"These security configs can be dynamically updated only per-listener using the listener prefix: [ssl.keystore.location]"},
		{"num.io.threads", "17", true, "Invalid value org.apache.kafka.common.config.ConfigException: Dynamic thread count update " +
			"validation failed for num.io.threads=17, value should not be greater than double the current value 8 for configuration Invalid dynamic configuration"},
		{"num.io.threads", "3", true, "Invalid value org.apache.kafka.common.config.ConfigException: Dynamic thread count update " +
			"validation failed for num.io.threads=3, value should be at least half the current value 8 for configuration Invalid dynamic configuration"},
		{"num.io.threads", "9", true, "Cannot update these configs dynamically: [num.io.threads]"},
		{"num.io.threads", "8", true, ""}, // it is so
		{"listener.name.plaintext.ssl.keystore.location", "x", true, ""},
		{"listener.name.plaintext.ssl.provider", "x", true, "Cannot update these configs dynamically: [listener.name.plaintext.ssl.provider]"},
		{"listener.name.plaintext.log.retention.ms", "5", true, "Cannot update these configs dynamically: [listener.name.plaintext.log.retention.ms]"},
		{"sasl.enabled.mechanisms", "PLAIN", true, "Cannot update these configs dynamically: [sasl.enabled.mechanisms]"},
		{"log.cleaner.dedupe.buffer.size", "5", true, "requirement failed: log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread."},
		{"log.cleaner.threads", "0", true, "/ by zero"},
		{"log.cleaner.threads", "2", true, ""},
		{"log.cleaner.threads", "3", true, "Invalid value org.apache.kafka.common.config.ConfigException: " +
			"Log cleaner threads cannot be increased to more than double the current value 1 for configuration Invalid dynamic configuration"},
		{"cordoned.log.dirs", "/b", true, "requirement failed: All entries in cordoned.log.dirs must be present in log.dirs or log.dir. Missing entries : /b"},
	} {
		got := ""
		if err := l.ValidateDynamicBroker(map[string]string{tt.name: tt.value}, tt.perBroker); err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%s=%s:\n got %s\nwant %s", tt.name, tt.value, got, tt.want)
		}
	}
}
