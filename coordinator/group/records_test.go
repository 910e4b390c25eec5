package group

import (
	"bytes"
	"errors"
	"os"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/coordinator"
	"grete/protocol/batch"
)

// kafkaRecords are what a real Kafka 4.4 wrote while testdata/group_answers.txt of the handlers was recorded.
func kafkaRecords(t testing.TB) []batch.Record {
	raw, err := os.ReadFile("testdata/kafka-4.4.log")
	if err != nil {
		t.Fatal(err)
	}
	var out []batch.Record
	for len(raw) > 0 {
		b, rest, err := batch.Next(raw)
		if err != nil || !b.ChecksumOK() {
			t.Fatalf("batch: %v", err)
		}
		for r, err := range b.Records() {
			if err != nil {
				t.Fatal(err)
			}
			r.Key, r.Value = bytes.Clone(r.Key), bytes.Clone(r.Value)
			out = append(out, r)
		}
		raw = rest
	}
	return out
}

// TestKafkasRecordsAreOurs reads what Kafka wrote, and writes it again: the bytes are the same.
func TestKafkasRecordsAreOurs(t *testing.T) {
	offsets, groups := 0, 0
	for _, r := range kafkaRecords(t) {
		switch {
		case r.Value == nil:
		case r.Key[1] == offsetCommitType:
			offsets++
			var k kmsg.OffsetCommitKey
			var c committed
			if err := errors.Join(k.ReadFrom(r.Key), c.read(r.Value)); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(offsetCommitKey(k.Group, k.Topic, k.Partition), r.Key) || !bytes.Equal(c.value(), r.Value) {
				t.Errorf("%s: %x %x", recordText(r.Key, r.Value), offsetCommitKey(k.Group, k.Topic, k.Partition), c.value())
			}
		case r.Key[1] == groupMetadataType:
			groups++
			var k kmsg.GroupMetadataKey
			if err := k.ReadFrom(r.Key); err != nil {
				t.Fatal(err)
			}
			g, err := classicFromRecord(k.Group, r.Value)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(groupMetadataKey(k.Group), r.Key) || !bytes.Equal(g.metadataValue(g.assignments()), r.Value) {
				t.Errorf("%s: %x", recordText(r.Key, r.Value), g.metadataValue(g.assignments()))
			}
		}
	}
	if offsets < 10 || groups < 20 {
		t.Errorf("only %d offsets and %d groups", offsets, groups)
	}
}

// TestEveryVersionIsRead: logs of older brokers have older values.
func TestEveryVersionIsRead(t *testing.T) {
	for version := int16(0); version <= latestReadableValueVersion; version++ {
		v := kmsg.OffsetCommitValue{Version: version, Offset: 7, LeaderEpoch: 3, Metadata: "m", CommitTimestamp: 5, ExpireTimestamp: 9, TopicID: [16]byte{1}}
		var c committed
		if err := c.read(v.AppendTo(nil)); err != nil {
			t.Fatalf("offset v%d: %v", version, err)
		}
		want := committed{offset: 7, leaderEpoch: absentLeaderEpoch, metadata: "m", commitMs: 5, expireMs: unknownTimestampMs}
		if version == 1 {
			want.expireMs = 9
		}
		if version >= 3 {
			want.leaderEpoch = 3
		}
		if version >= 4 {
			want.topicID = [16]byte{1}
		}
		if c != want {
			t.Errorf("offset v%d: %+v, want %+v", version, c, want)
		}
		checkGroupVersion(t, version)
	}
}

func checkGroupVersion(t *testing.T, version int16) {
	t.Helper()
	v := kmsg.GroupMetadataValue{
		Version: version, ProtocolType: "consumer", Generation: 4, Protocol: ptr("range"), Leader: ptr("m"), CurrentStateTimestamp: 11,
		Members: []kmsg.GroupMetadataValueMember{{
			MemberID: "m", InstanceID: ptr("i"), ClientID: "c", ClientHost: "/h", RebalanceTimeoutMillis: 60, SessionTimeoutMillis: 30,
			Subscription: subscription("t"), Assignment: []byte("A"),
		}},
	}
	g, err := classicFromRecord("g", v.AppendTo(nil))
	if err != nil {
		t.Fatalf("group v%d: %v", version, err)
	}
	m := g.byID["m"]
	rebalance, since, static := int32(30), int64(unknownTimestampMs), 0
	if version >= 1 {
		rebalance = 60
	}
	if version >= 2 {
		since = 11
	}
	if version >= 3 {
		static = 1
	}
	if g.state != stable || g.generation != 4 || g.leader != "m" || g.sinceMs != since || m.rebalanceTimeoutMs != rebalance ||
		m.sessionTimeoutMs != 30 || len(g.static) != static || string(m.assignment) != "A" || !g.subscribedTo("t") || g.subscribedTo("u") {
		t.Errorf("group v%d: %s %+v", version, groupText(g), m)
	}
}

// TestMalformedRecords: what cannot be read is an error, what is of another kind is passed over.
func TestMalformedRecords(t *testing.T) {
	cfg := DefaultConfig()
	value := (&committed{}).value()
	newer := bytes.Clone(value)
	newer[1] = latestReadableValueVersion + 1
	for name, r := range map[string][2][]byte{
		"empty key":         {{}, value},
		"short key":         {{0}, value},
		"cut key":           {{0, 1, 0, 5, 'a'}, value},
		"empty value":       {offsetCommitKey("g", "t", 0), {}},
		"cut value":         {offsetCommitKey("g", "t", 0), value[:5]},
		"newer value":       {offsetCommitKey("g", "t", 0), newer},
		"cut group":         {groupMetadataKey("g"), {0, 3, 0, 9}},
		"cut group key":     {{0, 2, 0}, {0, 3}},
		"newer group value": {groupMetadataKey("g"), {0, 9, 0, 0}},
		"cut member key":    {{0, 5, 0, 1, 'g'}, {0, 0}},
		"cut epoch":         {consumerKey{kind: consumerGroupType, group: "g"}.bytes(), {0, 0, 0}},
		"newer epoch":       {consumerKey{kind: consumerGroupType, group: "g"}.bytes(), {0, 1, 0, 0, 0, 1, 0}},
		"cut member":        {consumerKey{consumerMemberType, "g", "m"}.bytes(), {0, 0, 0, 0, 2}},
		"cut current":       {consumerKey{currentMemberType, "g", "m"}.bytes(), {0, 0, 0, 0, 0, 1}},
		"cut target":        {consumerKey{targetMemberType, "g", "m"}.bytes(), {0, 0, 9}},
		"cut expression":    {consumerKey{regexType, "g", "x"}.bytes(), {0, 0, 2, 9}},
	} {
		if err := newShard(&cfg, nil).Replay(coordinator.Position{ProducerID: batch.NoProducerID}, r[0], r[1]); !errors.Is(err, errMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, kind := range []byte{9, 15, 17, 200} {
		if err := newShard(&cfg, nil).Replay(coordinator.Position{ProducerID: batch.NoProducerID}, []byte{0, kind, 0, 1, 'g'}, []byte{0, 0}); err != nil {
			t.Errorf("type %d: %v", kind, err)
		}
	}
}

// FuzzReplay: whatever is in a log, loading ends with the state or an error, and what was read can be written.
func FuzzReplay(f *testing.F) {
	for _, r := range kafkaRecords(f) {
		f.Add(r.Key, r.Value)
	}
	for _, r := range kafkasConsumerRecords {
		f.Add(r.key.bytes(), unhex(f, r.value))
	}
	f.Fuzz(func(t *testing.T, key, value []byte) {
		cfg := DefaultConfig()
		s := newShard(&cfg, nil)
		if s.Replay(coordinator.Position{ProducerID: batch.NoProducerID}, key, value) != nil {
			return
		}
		for _, g := range s.groups {
			if g, ok := g.(*consumerGroup); ok {
				rewrite(t, g)
				continue
			}
			classic := g.(*classicGroup)
			again, err := classicFromRecord(classic.id, classic.metadataValue(classic.assignments()))
			if err != nil {
				t.Fatal(err)
			}
			if groupText(again) != groupText(classic) {
				t.Errorf("%s became %s", groupText(classic), groupText(again))
			}
		}
	})
}
