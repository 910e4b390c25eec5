package txn

import (
	"bytes"
	"errors"
	"os"
	"testing"

	"grete/protocol/batch"
)

// kafkaRecords is a partition of __transaction_state that Kafka 4.4 wrote.
func kafkaRecords(t *testing.T) (out []batch.Record) {
	t.Helper()
	raw, err := os.ReadFile("testdata/kafka-4.4.log")
	if err != nil {
		t.Fatal(err)
	}
	for len(raw) > 0 {
		var b batch.Batch
		if b, raw, err = batch.Next(raw); err != nil {
			t.Fatal(err)
		}
		for r, err := range b.Records() {
			if err != nil {
				t.Fatal(err)
			}
			r.Key, r.Value = bytes.Clone(r.Key), bytes.Clone(r.Value)
			out = append(out, r)
		}
	}
	return out
}

// TestKafkasRecordsAreOurs reads what Kafka wrote and writes it again: the bytes are the same. And each record follows
// from the one before as our transitions make it.
func TestKafkasRecordsAreOurs(t *testing.T) {
	last := map[string]metadata{}
	seen := map[State]int{}
	for _, r := range kafkaRecords(t) {
		id, ok, err := readKey(r.Key)
		if err != nil || !ok || !bytes.Equal(recordKey(id), r.Key) {
			t.Fatalf("key %x: %v", r.Key, err)
		}
		m, ok, err := readValue(r.Value)
		if err != nil || !ok {
			t.Fatalf("%s: %v", id, err)
		}
		if again := m.value(maxValueVersion); !bytes.Equal(again, r.Value) {
			t.Errorf("%s:\n%x became\n%x", id, r.Value, again)
		}
		if before, known := last[id]; known {
			checkTransition(t, id, before, m)
		}
		last[id] = m
		seen[m.state]++
	}
	for _, s := range []State{Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit, CompleteAbort} {
		if seen[s] == 0 {
			t.Errorf("nothing of %v in the log", s)
		}
	}
}

// checkTransition makes the transition to m's state from the one before.
func checkTransition(t *testing.T, id string, before, m metadata) {
	t.Helper()
	var ours metadata
	switch m.state {
	case Empty:
		ours, _ = before.bumpEpoch(&ProducerEpoch{before.producerID, m.epoch - 1}, m.timeoutMs, m.updateMs)
		if m.epoch == before.epoch { // it was repeated
			return
		}
	case Ongoing:
		ours = before.add(m.partitions, m.clientVersion, m.updateMs)
	case PrepareCommit, PrepareAbort:
		ours = before.prepare(m.state == PrepareCommit, m.clientVersion, m.nextProducerID, m.updateMs)
	case CompleteCommit, CompleteAbort:
		ours = before.complete(m.updateMs)
	}
	if got, want := ours.value(maxValueVersion), m.value(maxValueVersion); !bytes.Equal(got, want) {
		t.Errorf("%s: from %v to\n%x, ours is\n%x", id, before.state, want, got)
	}
}

func TestRecordsOfALaterKafka(t *testing.T) {
	if _, ok, err := readKey([]byte{0, 1, 9, 9}); ok || err != nil {
		t.Errorf("key of another type: %t, %v", ok, err)
	}
	if _, ok, err := readValue([]byte{0, 2, 9, 9}); ok || err != nil {
		t.Errorf("value of a later version: %t, %v", ok, err)
	}
	m := newMetadata(1)
	value := m.value(maxValueVersion)
	for name, bad := range map[string]func() error{
		"short key":    func() error { _, _, err := readKey([]byte{0}); return err },
		"cut key":      func() error { _, _, err := readKey([]byte{0, 0, 0, 9}); return err },
		"short value":  func() error { _, _, err := readValue([]byte{0}); return err },
		"cut value":    func() error { _, _, err := readValue(value[:9]); return err },
		"absurd state": func() error { m := m; m.state = 77; _, _, err := readValue(m.value(0)); return err },
	} {
		if err := bad(); !errors.Is(err, errMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzReadValue(f *testing.F) {
	m := newMetadata(1)
	f.Add(m.value(0))
	f.Add(m.value(1))
	f.Fuzz(func(t *testing.T, value []byte) {
		m, ok, err := readValue(value)
		if err != nil || !ok {
			return
		}
		again, ok, err := readValue(m.value(maxValueVersion))
		if err != nil || !ok || again.text() != m.text() {
			t.Errorf("%s became %s, %v", m.text(), again.text(), err)
		}
	})
}

func (m metadata) text() string {
	e := entry{metadata: m}
	return e.text(0)
}
