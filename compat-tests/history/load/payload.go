package load

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"

	"grete/internal/history"

	"github.com/twmb/franz-go/pkg/kgo"
)

// A record's value is the unique value of the history and a bar, and that again and again, so that a reader sees
// damage. Keys are of the compacted topic alone, and few.

const (
	// tooLargeBytes is over the topics' max.message.bytes: the broker refuses it.
	tooLargeBytes = 2 << 20
	keys          = 50
)

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

// payload is at least value and the bar.
func payload(value string, size int) []byte {
	word := []byte(value + "|")
	size = max(size, len(word))
	return bytes.Repeat(word, size/len(word)+1)[:size]
}

func (r *run) newRecord(topic string, partition int32, client string, size int, rng *rand.Rand) *kgo.Record {
	rec := &kgo.Record{Topic: topic, Partition: partition, Value: payload(fmt.Sprintf("%s:%d", client, r.names.Add(1)), size)}
	if topic == compactedTopic {
		rec.Key = fmt.Appendf(nil, "key%d", rng.IntN(keys))
	}
	return rec
}

// asRead is a record as the history has it; a damaged one becomes a value that nobody sent.
func asRead(k *kgo.Record) history.Record {
	value, _, whole := strings.Cut(string(k.Value), "|")
	if !whole || !bytes.Equal(k.Value, payload(value, len(k.Value))) {
		value += " damaged"
	}
	return history.Record{Partition: history.Partition{Topic: k.Topic, ID: k.Partition}, Offset: k.Offset, Value: value, Key: string(k.Key)}
}
