package load

import (
	"bytes"
	"fmt"
	"math/rand/v2"

	"grete/compat-tests/history"

	"github.com/twmb/franz-go/pkg/kgo"
)

// A record's key is the unique value of the history; its value is the key again and again, so that a reader sees
// damage.

// tooLargeBytes is over the topics' max.message.bytes: the broker refuses it.
const tooLargeBytes = 2 << 20

// payloadBytes is mostly small, at times some batches' worth, and rarely what must be refused.
func payloadBytes(rng *rand.Rand) int {
	switch n := rng.IntN(2000); {
	case n == 0:
		return tooLargeBytes
	case n < 20:
		return 20_000 + rng.IntN(50_000)
	}
	return rng.IntN(300)
}

func payload(key string, size int) []byte {
	return bytes.Repeat([]byte(key), size/len(key)+1)[:size]
}

func (r *run) newRecord(topic string, partition int32, client string, size int) *kgo.Record {
	key := fmt.Sprintf("%s:%d", client, r.names.Add(1))
	return &kgo.Record{Topic: topic, Partition: partition, Key: []byte(key), Value: payload(key, size)}
}

// asRead is a record as the history has it; a damaged one becomes a value that nobody sent.
func asRead(k *kgo.Record) history.Record {
	value := string(k.Key)
	if len(k.Key) == 0 || !bytes.Equal(k.Value, payload(value, len(k.Value))) {
		value += " damaged"
	}
	return history.Record{Partition: history.Partition{Topic: k.Topic, ID: k.Partition}, Offset: k.Offset, Value: value}
}
