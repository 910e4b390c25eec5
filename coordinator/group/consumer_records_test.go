package group

import (
	"bytes"
	"encoding/hex"
	"testing"

	"grete/cluster/metadata"
	"grete/coordinator"
	"grete/protocol/batch"
)

// kafkasConsumerRecords are values that Kafka 4.4's generated classes wrote (ConsumerGroup*Value, version 0).
var kafkasConsumerRecords = []struct {
	name  string
	key   consumerKey
	value string
}{
	{"group", consumerKey{kind: consumerGroupType, group: "g"}, "0000000000070100081122334455667788"},
	{"group without topics", consumerKey{kind: consumerGroupType, group: "g"}, "00000000000700"},
	{"member", consumerKey{consumerMemberType, "g", "m"}, "00000269000263032f680302610262010000012c0001000100"},
	{"classic member", consumerKey{consumerMemberType, "g", "m"}, "00000269000263032f68030261026204782e2a0000012c0672616e6765010011010000002d020672616e67650301020000"},
	{"target epoch", consumerKey{kind: targetMetadataType, group: "g"}, "0000000000030100080000000000000063"},
	{"target epoch without a time", consumerKey{kind: targetMetadataType, group: "g"}, "00000000000300"},
	{"target", consumerKey{targetMemberType, "g", "m"}, "000002010203040506070811121314151617180300000000000000010000"},
	{"expression", consumerKey{regexType, "g", "x.*"}, "00000202610000000000000005000000000000000600"},
}

func unhex(t testing.TB, text string) []byte {
	raw, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func replayed(t testing.TB, key consumerKey, value []byte) *consumerGroup {
	t.Helper()
	cfg := DefaultConfig()
	s := newShard(&cfg, nil)
	if err := s.Replay(coordinator.Position{ProducerID: batch.NoProducerID}, key.bytes(), value); err != nil {
		t.Fatal(err)
	}
	return s.groups["g"].(*consumerGroup)
}

// rewritten is the value that the record's part of the group would be written as.
func rewritten(g *consumerGroup, key consumerKey) []byte {
	switch m := g.members["m"]; key.kind {
	case consumerGroupType:
		return epochValue(g.epoch, g.metadataHash)
	case targetMetadataType:
		return epochValue(g.assignmentEpoch, g.assignmentMs)
	case targetMemberType:
		return g.target[key.name].targetValue()
	case consumerMemberType:
		return m.memberValue()
	case currentMemberType:
		return m.currentValue()
	case regexType:
		return g.regexes[key.name].value()
	}
	return nil
}

// TestKafkasConsumerRecordsAreOurs reads what Kafka wrote, and writes it again: the bytes are the same.
func TestKafkasConsumerRecordsAreOurs(t *testing.T) {
	for _, r := range kafkasConsumerRecords {
		want := unhex(t, r.value)
		if got := rewritten(replayed(t, r.key, want), r.key); !bytes.Equal(got, want) {
			t.Errorf("%s: %x, want %x", r.name, got, want)
		}
	}
}

// TestOldCurrentAssignment: before KIP-1251 there were no assignment epochs; the member's own stands for them.
func TestOldCurrentAssignment(t *testing.T) {
	const value = "00000000000400000003010201020304050607081112131415161718030000000000000002010009030000000300000004020102030405060708111213141516171802000000050000"
	key := consumerKey{currentMemberType, "g", "m"}
	g := replayed(t, key, unhex(t, value))
	m, id := g.members["m"], topicID(unhex(t, "01020304050607081112131415161718"))
	if m.epoch != 4 || m.previousEpoch != 3 || m.state != memberUnrevoked || m.assigned[id][0] != 3 || m.assigned[id][2] != 4 || m.revoking[id][5] != 4 {
		t.Errorf("%+v", m)
	}
	again := replayed(t, key, m.currentValue()).members["m"]
	if !again.sameAssignment(m) {
		t.Errorf("%+v became %+v", m, again)
	}
}

// TestMetadataHash: the hashes are those that Kafka 4.4 computed for this topic (Utils.computeTopicHash) and for it
// with one whose hash is 5 (computeGroupHash).
func TestMetadataHash(t *testing.T) {
	id, none, rack := topicID(unhex(t, "01020304050607081112131415161718")), "", "r1"
	im := apply(t, &metadata.Image{},
		&metadata.RegisterBrokerRecord{BrokerID: 1, Rack: &rack}, &metadata.RegisterBrokerRecord{BrokerID: 2, Rack: &none},
		&metadata.TopicRecord{Name: "topic", ID: id},
		&metadata.PartitionRecord{Index: 0, TopicID: id, Partition: metadata.Partition{Replicas: []int32{2, 1}, ISR: []int32{1}, Leader: 1}},
		&metadata.PartitionRecord{Index: 1, TopicID: id, Partition: metadata.Partition{Replicas: []int32{2}, ISR: []int32{2}, Leader: 2}})
	if got := int64(topicHash(im, im.Topic("topic"))); got != -7739583165623190625 {
		t.Errorf("topic %d", got)
	}
	if got := metadataHash(im, map[string]struct{}{"none": {}}); got != 0 {
		t.Errorf("no topics: %d", got)
	}
	if got := hashOf(topicHash(im, im.Topic("topic")), 5); got != -6550666140059398767 {
		t.Errorf("group %d", got)
	}
}

func apply(t testing.TB, im *metadata.Image, records ...metadata.Record) *metadata.Image {
	t.Helper()
	next, _, err := im.Apply(records, im.Offset()+1, 1)
	if err != nil {
		t.Fatal(err)
	}
	return next
}

// rewrite holds that what was read can be written, and is the same when read again.
func rewrite(t testing.TB, g *consumerGroup) {
	t.Helper()
	for id, m := range g.members {
		again := newConsumerMember(id)
		if err := again.readMember(m.memberValue()); err != nil || !again.sameSubscription(m) {
			t.Errorf("%+v became %+v, %v", m, again, err)
		}
		if err := again.readCurrent(m.currentValue()); err != nil || !again.sameAssignment(m) {
			t.Errorf("%+v became %+v, %v", m, again, err)
		}
	}
	for id, p := range g.target {
		if again, err := readTarget(p.targetValue()); err != nil || !again.equal(p) {
			t.Errorf("target of %s: %v became %v, %v", id, p, again, err)
		}
	}
	for _, x := range g.regexes {
		if _, err := readRegex(x.value()); err != nil {
			t.Error(err)
		}
	}
}
