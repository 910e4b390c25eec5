package clients

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"grete/compat-tests/kafka"
)

// stock lists the clients; what a client's own library lacks is named in its can. Those named -848 use
// group.protocol=consumer.
var stock = []struct {
	name  string
	can   can
	start func(log *os.File, addr string) (Client, error)
}{
	{"franz-go", everything, func(_ *os.File, addr string) (Client, error) { return NewFranz(addr), nil }},
	{"sarama", everything, func(_ *os.File, addr string) (Client, error) { return NewSarama(addr), nil }},
	{"kafka-go", without(everything, func(c *can) { c.idempotent, c.nulls, c.txns = false, false, false }),
		func(_ *os.File, addr string) (Client, error) { return NewKafkaGo(addr), nil }},
	{"java", everything, func(log *os.File, addr string) (Client, error) { return java(log, addr, "classic") }},
	{"java-848", everything, func(log *os.File, addr string) (Client, error) { return java(log, addr, "consumer") }},
	{"confluent-kafka-python", everything, func(log *os.File, addr string) (Client, error) {
		return python(log, addr, "confluent", "confluent", "confluent-kafka")
	}},
	{"confluent-kafka-python-848", everything, func(log *os.File, addr string) (Client, error) {
		return python(log, addr, "confluent-consumer", "confluent", "confluent-kafka")
	}},
	{"kafka-python", without(everything, func(c *can) { c.txns = false }), func(log *os.File, addr string) (Client, error) {
		return python(log, addr, "kafka-python", "kafka-python", "kafka-python", "python-snappy", "lz4", "zstandard")
	}},
	{"kafka-python-2.0.2", without(everything, func(c *can) { c.idempotent, c.txns = false, false }), func(log *os.File, addr string) (Client, error) {
		return python(log, addr, "kafka-python", "kafka-python-2.0.2", "kafka-python==2.0.2", "python-snappy", "lz4", "zstandard", "crc32c")
	}},
	{"aiokafka", everything, func(log *os.File, addr string) (Client, error) {
		return python(log, addr, "aiokafka", "aiokafka", "aiokafka", "cramjam")
	}},
	{"kafkajs", without(everything, func(c *can) { c.codecs = []string{"none", "gzip", "snappy", "lz4"} }),
		func(log *os.File, addr string) (Client, error) {
			return node(log, addr)
		}},
}

func without(c can, change func(*can)) can {
	change(&c)
	return c
}

// startBroker starts our binary, or a real Kafka with COMPAT_TARGET=kafka: the scenario must pass there too.
func startBroker(t *testing.T, dir string) *kafka.Broker {
	t.Helper()
	b, err := kafka.StartTarget(context.Background(), kafka.Options{Dir: dir, Properties: map[string]string{"group.initial.rebalance.delay.ms": "200"}})
	kafka.SkipOrFail(t, err)
	return b
}

// TestStockClients runs every client before and after a kill -9 of the broker, several at a time: mostly they wait.
func TestStockClients(t *testing.T) {
	dir := t.TempDir()
	broker := startBroker(t, dir)
	scenarios := map[string]*scenario{}
	for _, s := range stock {
		scenarios[s.name] = &scenario{name: s.name, can: s.can}
	}
	t.Run("before kill", func(t *testing.T) {
		for _, s := range stock {
			t.Run(s.name, func(t *testing.T) {
				t.Parallel()
				sc := scenarios[s.name]
				runPhase(t, sc, s.start, broker.Addr, sc.phaseOne)
				sc.half = true
			})
		}
	})
	if err := broker.Kill(); err != nil {
		t.Fatal(err)
	}
	broker = startBroker(t, dir)
	t.Cleanup(func() {
		if err := broker.Stop(); err != nil {
			t.Error(err)
		}
	})
	t.Run("after kill", func(t *testing.T) {
		for _, s := range stock {
			t.Run(s.name, func(t *testing.T) {
				t.Parallel()
				sc := scenarios[s.name]
				if !sc.half {
					t.Skip("the first half did not pass")
				}
				runPhase(t, sc, s.start, broker.Addr, sc.phaseTwo)
			})
		}
	})
}

func runPhase(t *testing.T, sc *scenario, start func(*os.File, string) (Client, error), addr string, phase func()) {
	log, err := os.Create(filepath.Join(t.TempDir(), "agent.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	c, err := start(log, addr)
	kafka.SkipOrFail(t, err)
	t.Cleanup(func() {
		_ = c.Close()
		if t.Failed() {
			said, _ := os.ReadFile(log.Name())
			fmt.Printf("%s said:\n%.4000s\n", sc.name, said)
		}
	})
	sc.t, sc.c = t, c
	phase()
}
