package config

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

func TestEmbeddedDefaults(t *testing.T) {
	b, err := Load(Sources{})
	if err != nil {
		t.Fatal(err)
	}
	want := Listener{"PLAINTEXT", "localhost", 9092, Plaintext}
	if b.NodeID != 1 || !slices.Equal(b.LogDirs, []string{"data"}) || !slices.Equal(b.Listeners, []Listener{want}) ||
		!slices.Equal(b.Advertised, []Listener{want}) || b.InterBroker != "PLAINTEXT" || len(b.Unused) > 0 {
		t.Errorf("%+v", b)
	}
	if b.Text("admin.listen") != "127.0.0.1:9640" || b.Int("num.partitions") != 1 || !b.Bool("auto.create.topics.enable") {
		t.Error("defaults of the definitions are not seen")
	}
}

// TestInternalTopicsOfOneBroker: alone it cannot replicate them; with others Kafka's defaults hold.
func TestInternalTopicsOfOneBroker(t *testing.T) {
	for want, flags := range map[int64][]Assignment{
		1: nil,
		3: {{"--set", "controller.quorum.bootstrap.servers", "a:9093"}, {"--set", "listeners", "PLAINTEXT://a:9092,CONTROLLER://a:9093"}},
		2: {{"--set", "offsets.topic.replication.factor", "2"}},
	} {
		b, err := Load(Sources{Flags: flags})
		if err != nil {
			t.Fatal(err)
		}
		if got := b.Int("offsets.topic.replication.factor"); got != want {
			t.Errorf("%v: %d, want %d", flags, got, want)
		}
	}
}

func TestLaterSourcesWin(t *testing.T) {
	b, err := Load(Sources{
		FileName: "server.properties",
		File:     []byte("num.partitions=2\ndefault.replication.factor = 3 \n# a comment\nlog.dirs=/a,\\\n  /b\nnum.network.threads:4\nlog.dir=${HOME}\n"),
		Env:      []string{"KAFKA_NUM_PARTITIONS=5", "KAFKA_HEAP_OPTS=-Xmx1g", "PATH=/bin", "KAFKA_SERVICE_HOST=1", "KAFKA_PORT=tcp://x", "CLUSTER_ID=abc"},
		Flags:    []Assignment{{"--set", "num.partitions", "7"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if b.Int("num.partitions") != 7 || b.Int("default.replication.factor") != 3 || b.ClusterID != "abc" {
		t.Errorf("%v", b.Static)
	}
	if !slices.Equal(b.LogDirs, []string{"/a", "/b"}) || b.Text("log.dir") != "${HOME}" {
		t.Errorf("log dirs %v, log.dir %s", b.LogDirs, b.Text("log.dir"))
	}
	if !slices.Equal(b.Unused, []string{"num.network.threads"}) {
		t.Errorf("unused: %v", b.Unused)
	}
}

func TestVariablesAsTheImageMapsThem(t *testing.T) {
	got := Sources{Env: []string{"KAFKA_LOG_DIRS=/x", "KAFKA_A__B=1", "KAFKA_A___B=2", "KAFKA_ADVERTISED_LISTENERS=A://h:1,B://[::1]:2"}}.fromEnvironment()
	names := map[string]string{}
	for _, a := range got {
		names[a.Name] = a.Value
	}
	want := map[string]string{
		"log.dirs": "/x", "a_b": "1", "a-b": "2", "advertised.listeners": "A://h:1,B://[::1]:2", "listeners": "A://0.0.0.0:1,B://0.0.0.0:2",
	}
	if !maps.Equal(names, want) {
		t.Errorf("%v", names)
	}
}

func TestListeners(t *testing.T) {
	b, err := Load(Sources{FileName: "f", Hostname: "box", File: []byte(`
listeners=INTERNAL://:9094,external://0.0.0.0:9095,CONTROLLER://:9093
advertised.listeners=INTERNAL://:9094,EXTERNAL://broker.example:19095
listener.security.protocol.map=INTERNAL:PLAINTEXT,EXTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=internal
controller.listener.names=CONTROLLER
controller.quorum.voters=7@localhost:9093
process.roles=controller,broker
broker.id=7`)})
	if err != nil {
		t.Fatal(err)
	}
	listen := []Listener{{"INTERNAL", "", 9094, Plaintext}, {"EXTERNAL", "0.0.0.0", 9095, Plaintext}}
	advertise := []Listener{{"INTERNAL", "box", 9094, Plaintext}, {"EXTERNAL", "broker.example", 19095, Plaintext}}
	if !slices.Equal(b.Listeners, listen) || !slices.Equal(b.Advertised, advertise) || b.InterBroker != "INTERNAL" || b.NodeID != 7 {
		t.Errorf("%+v", b)
	}
	if b.Static["node.id"] != "7" {
		t.Error("node.id does not follow broker.id")
	}
}

func TestRefusals(t *testing.T) {
	for _, tt := range []struct{ file, want string }{
		{"num.partitons=1", "config: num.partitons=1 (f): nobody knows this property, did you mean num.partitions?"},
		{"zookeeper.connect=a:1", "config: zookeeper.connect=a:1 (f): nobody knows this property: Kafka has had no ZooKeeper since 4.0; leave it out"},
		{"retention.ms=1", "config: retention.ms=1 (f): nobody knows this property: it is a topic's; the broker's default is log.retention.ms"},
		{"message.max.bytes=-1", "config: message.max.bytes=-1 (f): Value must be at least 0; allowed: int of at least 0"},
		{"log.cleanup.policy=x", "config: log.cleanup.policy=x (f): String must be one of: compact, delete; allowed: a list, of compact, delete"},
		{"auto.create.topics.enable=yes", "config: auto.create.topics.enable=yes (f): Expected value to be either true or false"},
		{"listeners=X://:1", "config: listeners=X://:1 (f): no security protocol defined for listener X in listener.security.protocol.map"},
		{"listeners=PLAINTEXT://0.0.0.0:1", "config: listeners=PLAINTEXT://0.0.0.0:1 (f): clients cannot reach 0.0.0.0: " +
			"set advertised.listeners to an address they can"},
		{"listeners=PLAINTEXT://a:99999", `config: listeners=PLAINTEXT://a:99999 (f): port "99999" of PLAINTEXT://a:99999 is not from 0 to 65535`},
		{"listeners=CONTROLLER://a:9", "config: listeners=CONTROLLER://a:9 (f): there must be a listener that is not among controller.listener.names"},
		{"advertised.listeners=SSL://a:1", "config: advertised.listeners=SSL://a:1 (f): listener SSL is not one of listeners=PLAINTEXT://localhost:9092"},
		{"inter.broker.listener.name=SSL", "config: inter.broker.listener.name=SSL (f): must be one of advertised.listeners="},
		{"node.id=1\nbroker.id=2", "config: broker.id=2 (f): must be the same as node.id=1"},
		{"broker.id=-1", "config: broker.id=-1 (f): a node id is at least 0"},
		{"node.id=-1", "config: node.id=-1 (f): Value must be at least 0; allowed: int of at least 0"},
		{"process.roles=broker", "config: process.roles=broker (f): a node that is not both broker and controller must be told where others are: " +
			"controller.quorum.bootstrap.servers, controller.quorum.voters or gossip.join"},
		{"process.roles=broker\ncontroller.quorum.voters=1@a:9", "config: controller.quorum.voters=1@a:9 (f): must not contain node.id=1, which has only the role broker"},
		{"process.roles=broker\ncontroller.quorum.voters=2@a:9\nlisteners=PLAINTEXT://a:1,CONTROLLER://a:9", "config: listeners=PLAINTEXT://a:1,CONTROLLER://a:9 (f): " +
			"listener CONTROLLER is one of controller.listener.names, and this node is no controller"},
		{"process.roles=controller\ncontroller.quorum.voters=1@a:9\nlisteners=PLAINTEXT://a:1,CONTROLLER://a:9", "config: listeners=PLAINTEXT://a:1,CONTROLLER://a:9 (f): " +
			"listener PLAINTEXT is not one of controller.listener.names, and this node is no broker"},
		{"controller.quorum.bootstrap.servers=a:9", "config: listeners=PLAINTEXT://localhost:9092 (default): must have a listener of " +
			"controller.listener.names=CONTROLLER, where the other voters reach this one"},
		{"log.dirs=/a,/b\nmetadata.log.dir=/c", "config: metadata.log.dir=/c (f): must be one of log.dirs=/a,/b"},
		{"controller.quorum.voters=1@a:9,2@b:9", "config: listeners=PLAINTEXT://localhost:9092 (default): must have a listener of " +
			"controller.listener.names=CONTROLLER, where the other voters reach this one"},
		{"controller.quorum.voters=1@a:9,1@b:9", "config: controller.quorum.voters=1@a:9,1@b:9 (f): node 1 comes twice"},
		{"controller.quorum.voters=2@b:9", "config: controller.quorum.voters=2@b:9 (f): must contain node.id=1"},
		{"log.retention.hours=0", "config: log.retention.hours=0 (f): must be unlimited (-1) or at least 1 ms"},
		{"log.cleaner.threads=0", "config: log.cleaner.threads=0 (f): must be at least 1; log.cleaner.enable=false turns compaction off"},
		{"log.cleaner.threads=500", "config: log.cleaner.threads=500 (f): each of log.cleaner.threads needs more than 1 MiB of log.cleaner.dedupe.buffer.size"},
		{"queued.max.request.bytes=5", "config: queued.max.request.bytes=5 (f): must be at least socket.request.max.bytes=104857600"},
		{"max.connections.per.ip=0", "config: max.connections.per.ip=0 (f): 0 is allowed only with max.connections.per.ip.overrides"},
		{"max.connections.per.ip.overrides=a", `config: max.connections.per.ip.overrides=a (f): "a" is not host:count`},
		{"log.dirs=q1,./q1/", "config: log.dirs=q1,./q1/ (f): q1 and ./q1/ are the same directory"},
		{"listeners=", "config: listeners= (f): Configuration 'listeners' must not be empty. Valid values include: " +
			"any non-empty value; allowed: a list of at least one"},
	} {
		_, err := Load(Sources{FileName: "f", File: []byte(tt.file), Strict: true})
		if err == nil || err.Error() != tt.want {
			t.Errorf("%q:\n got %v\nwant %s", tt.file, err, tt.want)
		}
		if err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: more than one line", tt.file)
		}
	}
}

func TestPrefixedPropertiesAreKnown(t *testing.T) {
	for name, known := range map[string]bool{
		"listener.name.sasl_ssl.ssl.keystore.location":          true,
		"listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config": true,
		"listener.name.sasl_ssl.nope":                           false,
		"rsm.config.anything":                                   true,
		"config.providers.file.class":                           true,
		"listener.name.internal.connections.max.reauth.ms":      true,
		"listener.name.internal.max.connections":                true,
	} {
		if got := definitionOf(name) != nil; got != known {
			t.Errorf("%s: known %v", name, got)
		}
	}
}

func FuzzLoad(f *testing.F) {
	f.Add([]byte("listeners=PLAINTEXT://:1\nnode.id=3"), "KAFKA_A=1")
	f.Add([]byte("a\\\n=b\nlog.dirs=\\u0041"), "KAFKA_ADVERTISED_LISTENERS=://")
	f.Fuzz(func(t *testing.T, file []byte, env string) {
		b, err := Load(Sources{FileName: "f", File: file, Env: []string{env}})
		if (b == nil) == (err == nil) {
			t.Fatal("neither configuration nor error")
		}
	})
}
