package config

import (
	"slices"
	"strings"
	"testing"
)

// What nobody knows in a file or the environment is told, with the nearest name, and changes nothing; a flag, and
// --strict, refuse it.
func TestUnknownPropertiesAreWarnings(t *testing.T) {
	for _, tt := range []struct{ file, env, want string }{
		{"num.partitons=1", "", "num.partitons (f), did you mean num.partitions?"},
		{"zookeeper.connect=a:1", "", "zookeeper.connect (f): Kafka has had no ZooKeeper since 4.0; leave it out"},
		{"log.message.format.version=3.0", "", "log.message.format.version (f): Kafka has not had it since 4.0; leave it out"},
		{"inter.broker.protocol.version=3.0", "", "inter.broker.protocol.version (f): Kafka has not had it since 4.0; leave it out"},
		{"confluent.metrics.enable=true", "", "confluent.metrics.enable (f)"},
		{"cruise.control.metrics.reporter.bootstrap.servers=a:1", "", "cruise.control.metrics.reporter.bootstrap.servers (f)"},
		{"strimzi.authorization.x=1", "", "strimzi.authorization.x (f)"},
		{"listener.name.plaintext.nope=1", "", "listener.name.plaintext.nope (f)"},
		{"", "KAFKA_CREATE_TOPICS=a:1:1", "create.topics (KAFKA_CREATE_TOPICS)"},
		{"", "KAFKA_CONFLUENT_SUPPORT_METRICS_ENABLE=false", "confluent.support.metrics.enable (KAFKA_CONFLUENT_SUPPORT_METRICS_ENABLE)"},
		{"", "KAFKA_CFG_NUM_PARTITONS=3", "num.partitons (KAFKA_CFG_NUM_PARTITONS), did you mean num.partitions?"},
		{"", "KAFKA_ADVERTISED_HOST_NAME=h", "advertised.host.name (KAFKA_ADVERTISED_HOST_NAME): Kafka has not had it since 4.0; leave it out"},
		{"", "KAFKA_BOOTSTRAP_SERVERS=h:1", "bootstrap.servers (KAFKA_BOOTSTRAP_SERVERS)"},
		{"", "KAFKA_HEAP=1g", "heap (KAFKA_HEAP)"},
	} {
		s := Sources{FileName: "f", File: []byte(tt.file), Env: []string{tt.env}}
		b, err := Load(s)
		if err != nil {
			t.Errorf("%q %q: %v", tt.file, tt.env, err)
			continue
		}
		if len(b.Unknown) != 1 || b.Unknown[0] != tt.want && !strings.HasPrefix(b.Unknown[0], tt.want+", did you mean ") {
			t.Errorf("%q %q: %q, want %q", tt.file, tt.env, b.Unknown, tt.want)
		}
		if s.Strict = true; fails(s, "nobody knows this property") != "" {
			t.Errorf("%q %q: --strict: %s", tt.file, tt.env, fails(s, "nobody knows this property"))
		}
		name, value, _ := strings.Cut(tt.file, "=")
		if name != "" {
			if problem := fails(Sources{Flags: []Assignment{{"--set", name, value}}}, "nobody knows this property"); problem != "" {
				t.Errorf("--set %s: %s", tt.file, problem)
			}
		}
	}
}

// fails says what is wrong when s can be loaded, or fails with something else or in more than a line.
func fails(s Sources, want string) string {
	switch _, err := Load(s); {
	case err == nil:
		return "was taken"
	case !strings.Contains(err.Error(), want), strings.Contains(err.Error(), "\n"):
		return err.Error()
	}
	return ""
}

// Variables of Kubernetes for services of any name and those for the scripts of images ask for nothing, and are not
// told.
func TestVariablesOfOthersAreSilent(t *testing.T) {
	b, err := Load(Sources{Strict: true, Env: []string{
		"KAFKA_SERVICE_HOST=10.0.0.1", "KAFKA_SERVICE_PORT=9092", "KAFKA_SERVICE_PORT_TCP_KAFKA=9092", "KAFKA_PORT=tcp://10.0.0.1:9092", "KAFKA_PORT_9092_TCP=tcp://x",
		"KAFKA_PORT_9092_TCP_PROTO=tcp", "KAFKA_UI_SERVICE_HOST=10.0.0.2", "KAFKA_UI_SERVICE_PORT=80", "KAFKA_UI_SERVICE_PORT_HTTP=80", "KAFKA_UI_PORT=tcp://x",
		"KAFKA_UI_PORT_80_TCP_ADDR=10.0.0.2", "KAFKA_UI_PORT_80_TCP_PORT=80", "KAFKA_MY_DNS_PORT_53_UDP=udp://x", "KAFKA_HEAP_OPTS=-Xmx1g", "KAFKA_OPTS=x",
		"KAFKA_LOG4J_OPTS=x", "KAFKA_LOG4J_PROPERTIES=x", "KAFKA_LOG4J_ROOT_LOGLEVEL=INFO", "KAFKA_JMX_PORT=1", "KAFKA_JMX_HOSTNAME=h", "KAFKA_VERSION=4.4", "KAFKA_HOME=/x",
		"KAFKA_KRAFT_CLUSTER_ID=abcdefghijklmnopqrstuv", "KAFKA_CFG_NUM_PARTITIONS=3", "KAFKA_CFG_DEFAULT_REPLICATION_FACTOR=2", "KAFKA_DEFAULT_REPLICATION_FACTOR=3",
	}})
	if err != nil {
		t.Fatal(err)
	}
	if len(b.Unknown)+len(b.Unused) != 0 || b.ClusterID != "abcdefghijklmnopqrstuv" || b.Int("num.partitions") != 3 || b.Int("default.replication.factor") != 3 {
		t.Errorf("unknown %q, unused %q, cluster %s, %v", b.Unknown, b.Unused, b.ClusterID, b.Static)
	}
}

// valueFor is a value that asks for something, whatever d's default.
func valueFor(d *Def) string {
	for _, value := range append(slices.Clone(d.rule.choices), "7", "true", "a.b.C") {
		if text, err := d.Canonical(value); err == nil && text != d.def {
			return value
		}
	}
	return d.def
}

// A broker does not start more open than its configuration says: every property that protects stops it, in one line
// without secrets, wherever it is set, and those of Kafka's definitions whose name or documentation speaks of security
// are all judged here.
func TestWhatProtectsStopsTheStart(t *testing.T) {
	harmless := []string{ // of these names, because they protect nothing by themselves
		"connection.failed.authentication.delay.ms", "delegation.token.expiry.check.interval.ms", "delegation.token.expiry.time.ms", "delegation.token.max.lifetime.ms",
		"alter.log.dirs.replication.quota.window.num", "alter.log.dirs.replication.quota.window.size.seconds", "controller.quota.window.num",
		"controller.quota.window.size.seconds", "quota.window.num", "quota.window.size.seconds", "replication.quota.window.num", "replication.quota.window.size.seconds",
		"remote.log.manager.copy.quota.window.num", "remote.log.manager.copy.quota.window.size.seconds", "remote.log.manager.fetch.quota.window.num",
		"remote.log.manager.fetch.quota.window.size.seconds", "early.start.listeners", "gossip.key",
	}
	speaks := func(name string) bool {
		for _, word := range []string{"ssl", "sasl", "auth", "secur", "principal", "quota", "token", "policy.class", "password", "secret"} {
			if strings.Contains(name, word) {
				return true
			}
		}
		return false
	}
	for d := range BrokerDefs.All() {
		// The two that name protocols are judged by value, below.
		if !speaks(d.Name) || honoured(d.Name) || slices.Contains(harmless, d.Name) || d.Name == "listener.security.protocol.map" || d.Name == "security.inter.broker.protocol" {
			continue
		}
		line := d.Name + "=" + valueFor(d)
		for _, line := range []string{line, "listener.name.plaintext." + line, "listener.name.plaintext.scram-sha-256." + line} {
			if name, _, _ := strings.Cut(line, "="); honouredSASL(name) || name == tokenSecret {
				continue
			}
			if problem := fails(Sources{FileName: "f", File: []byte(line)}, "protects, and "); problem != "" {
				t.Errorf("%s: %s", line, problem)
			}
		}
	}
	for _, line := range []string{
		"ssl.keystore.filename=x", "sasl.nonsense=x", "authorizer.clas.name=a.B", "delegation.token.secretkey=x", "listener.name.x.ssl.nonsense=1", "listener.name.x.plain.sasl.nonsense=1",
		"listeners=SASL_PLAINTEXT://:1", "listeners=EXTERNAL://:1\nlistener.security.protocol.map=EXTERNAL:SASL_SSL",
		"security.inter.broker.protocol=SSL", "security.inter.broker.protocol=SASL_PLAINTEXT",
		"quota.producer.default=1000", "listeners=PLAINTEXT://:1,CONTROLLER://:2\nlistener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:SASL_SSL",
		// A way around the security that is asked for.
		"listeners=SSL://:1\nlistener.name.external.ssl.client.auth=required",
		"listeners=SSL://:1,CONTROLLER://:2\nssl.client.auth=required", "listeners=SSL://:1,CONTROLLER://:2\nssl.client.auth=required\nlistener.security.protocol.map=SSL:SSL,CONTROLLER:SSL\nlistener.name.controller.ssl.client.auth=none",
		"listeners=SSL://:1,CONTROLLER://:2,GOSSIP://:3\ngossip.join=a", "ssl.protocol=SSLv3", "ssl.endpoint.identification.algorithm=LDAPS", "ssl.trustmanager.algorithm=none",
	} {
		if problem := fails(Sources{FileName: "f", File: []byte(line)}, "config: "); problem != "" {
			t.Errorf("%q: %s", line, problem)
		}
	}
	secret := Sources{FileName: "f", File: []byte("ssl.keystore.password=hunter2\nssl.keystore.credential=hunter2")}
	if _, err := Load(secret); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Error(err)
	}
}

// What asks for no protection, and what Kafka's own server.properties has, starts.
func TestWhatAsksForNoProtectionStarts(t *testing.T) {
	for _, line := range []string{
		"authorizer.class.name=", "ssl.client.auth=none", "connections.max.reauth.ms=0", "sasl.enabled.mechanisms=", "security.inter.broker.protocol=PLAINTEXT",
		"ssl.endpoint.identification.algorithm=",
		"listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL",
		"principal.builder.class=org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
	} {
		if _, err := Load(Sources{FileName: "f", File: []byte(line)}); err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
}

// Any retention below 0 is unlimited.
func TestNegativeRetentionIsUnlimited(t *testing.T) {
	for _, line := range []string{"log.retention.ms=-5", "log.retention.minutes=-7", "log.retention.hours=-2"} {
		b, err := Load(Sources{FileName: "f", File: []byte(line)})
		if err != nil {
			t.Fatal(err)
		}
		if got := b.Topic(nil).RetentionMs; got != -1 {
			t.Errorf("%s: %d", line, got)
		}
	}
	if err := (Layers{}).ValidateDynamicBroker(map[string]string{"log.retention.ms": "-5"}, true); err != nil {
		t.Error(err)
	}
}
