package oracle

import (
	"context"
	"testing"

	"grete/compat-tests/kafka"
)

var saslSpecial = special{"testdata/kafka-4.4.0-sasl.json.gz", SASLScenarios, startWithSASL, saslExceptions}

// TestRecordSASL records what Kafka answers to those who authenticate.
func TestRecordSASL(t *testing.T) { saslSpecial.record(t) }
func TestGreteSASL(t *testing.T)  { saslSpecial.grete(t) }
func TestKafkaSASL(t *testing.T)  { saslSpecial.kafka(t) }

// launcher starts brokers of that name.
func launcher(name string) func(context.Context, kafka.Options) (*kafka.Broker, error) {
	if name == "kafka" {
		return kafka.StartApache
	}
	return kafka.StartGrete
}

func startWithSASL(t *testing.T, name string) Target {
	t.Helper()
	at, err := kafka.FreeAddr()
	if err != nil {
		t.Fatal(err)
	}
	target := startWith(t, name, launcher(name), SASLProperties, "SASL_PLAINTEXT://"+at)
	target.At = at
	return target
}
