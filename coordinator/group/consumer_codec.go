package group

import (
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kbin"
)

// The record types of consumer groups (KIP-848; Kafka's schemas ConsumerGroup*Key and ConsumerGroup*Value). All values
// are of version 0, with flexible fields.
const (
	consumerGroupType     = 3
	partitionMetadataType = 4 // written before Kafka 4.1, deleted since
	consumerMemberType    = 5
	targetMetadataType    = 6
	targetMemberType      = 7
	currentMemberType     = 8
	regexType             = 16
)

// consumerKey is the key of any of these records: all have the group, some a second part.
type consumerKey struct {
	kind  int16
	group string
	name  string // member id or expression, "" where the type has none
}

func (k consumerKey) hasName() bool {
	switch k.kind {
	case consumerMemberType, targetMemberType, currentMemberType, regexType:
		return true
	}
	return false
}

func (k consumerKey) bytes() []byte {
	b := kbin.AppendInt16(nil, k.kind)
	b = kbin.AppendString(b, k.group)
	if k.hasName() {
		b = kbin.AppendString(b, k.name)
	}
	return b
}

func readConsumerKey(raw []byte) (consumerKey, error) {
	r := kbin.Reader{Src: raw}
	k := consumerKey{kind: r.Int16(), group: r.String()}
	if k.hasName() {
		k.name = r.String()
	}
	if err := r.Complete(); err != nil {
		return k, fmt.Errorf("%w: key of type %d: %w", errMalformed, k.kind, err)
	}
	return k, nil
}

// valueReader reads a value of version 0; the first error stays.
type valueReader struct{ kbin.Reader }

func newValueReader(raw []byte) (*valueReader, error) {
	r := &valueReader{kbin.Reader{Src: raw}}
	if v := r.Int16(); !r.Ok() || v != 0 {
		return nil, fmt.Errorf("%w: value version %d", errMalformed, v)
	}
	return r, nil
}

func (r *valueReader) done() error {
	if err := r.Complete(); err != nil {
		return fmt.Errorf("%w: %w", errMalformed, err)
	}
	return nil
}

// tags hands the known tag 0 to read, which gets its own reader; others are skipped.
func (r *valueReader) tags(read func(*valueReader)) {
	for n := r.Uvarint(); n > 0 && r.Ok(); n-- {
		tag, size := r.Uvarint(), r.Uvarint()
		field := r.Span(int(size))
		if tag == 0 && read != nil && r.Ok() {
			read(&valueReader{kbin.Reader{Src: field}})
		}
	}
}

// each reads a compact array; null is empty.
func (r *valueReader) each(read func()) {
	for n := r.CompactArrayLen(); n > 0 && r.Ok(); n-- {
		read()
	}
}

func (r *valueReader) int32s() []int32 {
	var out []int32
	r.each(func() { out = append(out, r.Int32()) })
	return out
}

func (r *valueReader) strings() []string {
	var out []string
	r.each(func() { out = append(out, r.CompactString()) })
	return out
}

// appendTag0 writes a tag section with one field, or an empty one.
func appendTag0(b, field []byte) []byte {
	if field == nil {
		return append(b, 0)
	}
	b = append(b, 1, 0)
	b = kbin.AppendUvarint(b, uint32(len(field)))
	return append(b, field...)
}

func appendInt32s(b []byte, values []int32) []byte {
	b = kbin.AppendCompactArrayLen(b, len(values))
	for _, v := range values {
		b = kbin.AppendInt32(b, v)
	}
	return b
}

func appendStrings(b []byte, values []string) []byte {
	b = kbin.AppendCompactArrayLen(b, len(values))
	for _, v := range values {
		b = kbin.AppendCompactString(b, v)
	}
	return b
}

// epochValue is a value with an int32 and, if it is not zero, an int64 as tag 0: ConsumerGroupMetadataValue (epoch,
// metadata hash) and ConsumerGroupTargetAssignmentMetadataValue (assignment epoch, its time in ms).
func epochValue(epoch int32, tagged int64) []byte {
	b := kbin.AppendInt32(kbin.AppendInt16(nil, 0), epoch)
	if tagged == 0 {
		return appendTag0(b, nil)
	}
	return appendTag0(b, kbin.AppendInt64(nil, tagged))
}

func readEpochValue(raw []byte) (epoch int32, tagged int64, err error) {
	r, err := newValueReader(raw)
	if err != nil {
		return 0, 0, err
	}
	epoch = r.Int32()
	r.tags(func(f *valueReader) { tagged = f.Int64() })
	return epoch, tagged, r.done()
}

// memberValue is ConsumerGroupMemberMetadataValue.
func (m *consumerMember) memberValue() []byte {
	b := kbin.AppendInt16(nil, 0)
	b = kbin.AppendCompactNullableString(b, m.instance)
	b = kbin.AppendCompactNullableString(b, m.rack)
	b = kbin.AppendCompactString(b, m.clientID)
	b = kbin.AppendCompactString(b, m.clientHost)
	b = appendStrings(b, m.topics)
	b = kbin.AppendCompactNullableString(b, &m.regex)
	b = kbin.AppendInt32(b, m.rebalanceTimeoutMs)
	b = kbin.AppendCompactNullableString(b, m.assignor)
	return appendTag0(b, m.classic.appendTo())
}

// appendTo: a nullable struct starts with a byte that says whether it is there. That it is not must be written too:
// Kafka takes a record without the tag for one of a classic member.
func (c *classicMetadata) appendTo() []byte {
	if c == nil {
		return []byte{0}
	}
	b := kbin.AppendInt32([]byte{1}, c.sessionTimeoutMs)
	b = kbin.AppendCompactArrayLen(b, len(c.protocols))
	for _, p := range c.protocols {
		b = kbin.AppendCompactString(b, p.name)
		b = kbin.AppendCompactBytes(b, p.metadata)
		b = append(b, 0)
	}
	return append(b, 0)
}

// readMember sets the fields that a ConsumerGroupMemberMetadataValue holds.
func (m *consumerMember) readMember(raw []byte) error {
	r, err := newValueReader(raw)
	if err != nil {
		return err
	}
	m.instance, m.rack = r.CompactNullableString(), r.CompactNullableString()
	m.clientID, m.clientHost = r.CompactString(), r.CompactString()
	m.topics = sortedUnique(r.strings())
	m.regex = ""
	if regex := r.CompactNullableString(); regex != nil {
		m.regex = *regex
	}
	m.rebalanceTimeoutMs, m.assignor, m.classic = r.Int32(), r.CompactNullableString(), nil
	r.tags(func(f *valueReader) { m.classic = readClassicMetadata(f) })
	return r.done()
}

func readClassicMetadata(r *valueReader) *classicMetadata {
	if r.Int8() <= 0 {
		return nil
	}
	c := &classicMetadata{sessionTimeoutMs: r.Int32()}
	r.each(func() {
		c.protocols = append(c.protocols, protocol{r.CompactString(), slices.Clone(r.CompactBytes())})
		r.tags(nil)
	})
	return c
}

// targetValue is ConsumerGroupTargetAssignmentMemberValue.
func (p partitions) targetValue() []byte {
	b := kbin.AppendInt16(nil, 0)
	b = kbin.AppendCompactArrayLen(b, len(p))
	for _, id := range sortedTopics(p) {
		b = kbin.AppendUuid(b, id)
		b = append(appendInt32s(b, p[id]), 0)
	}
	return append(b, 0)
}

func readTarget(raw []byte) (partitions, error) {
	r, err := newValueReader(raw)
	if err != nil {
		return nil, err
	}
	p := make(partitions)
	r.each(func() {
		id := topicID(r.Uuid())
		p[id] = sortedUnique(r.int32s())
		r.tags(nil)
	})
	r.tags(nil)
	return p, r.done()
}

// currentValue is ConsumerGroupCurrentMemberAssignmentValue.
func (m *consumerMember) currentValue() []byte {
	b := kbin.AppendInt16(nil, 0)
	b = kbin.AppendInt32(b, m.epoch)
	b = kbin.AppendInt32(b, m.previousEpoch)
	b = kbin.AppendInt8(b, int8(m.state))
	b = m.assigned.appendTo(b)
	b = m.revoking.appendTo(b)
	return append(b, 0)
}

func (o ownership) appendTo(b []byte) []byte {
	b = kbin.AppendCompactArrayLen(b, len(o))
	for _, id := range sortedTopics(o) {
		ps := slices.Sorted(maps.Keys(o[id]))
		epochs := make([]int32, len(ps))
		for i, p := range ps {
			epochs[i] = o[id][p]
		}
		b = kbin.AppendUuid(b, id)
		b = appendTag0(appendInt32s(b, ps), appendInt32s(nil, epochs))
	}
	return b
}

// readCurrent sets the fields that a ConsumerGroupCurrentMemberAssignmentValue holds.
func (m *consumerMember) readCurrent(raw []byte) error {
	r, err := newValueReader(raw)
	if err != nil {
		return err
	}
	m.epoch, m.previousEpoch, m.state = r.Int32(), r.Int32(), memberState(r.Int8())
	m.assigned, m.revoking = r.ownership(m.epoch), r.ownership(m.epoch)
	r.tags(nil)
	return r.done()
}

// ownership: records from before KIP-1251 have no assignment epochs; the member's own stands for them.
func (r *valueReader) ownership(memberEpoch int32) ownership {
	o := make(ownership)
	r.each(func() {
		id, ps := topicID(r.Uuid()), r.int32s()
		var epochs []int32
		r.tags(func(f *valueReader) { epochs = f.int32s() })
		of := make(map[int32]int32, len(ps))
		for i, p := range ps {
			of[p] = max(memberEpoch, 0)
			if len(epochs) == len(ps) {
				of[p] = epochs[i]
			}
		}
		o[id] = of
	})
	return o
}

// value is ConsumerGroupRegularExpressionValue.
func (x *resolvedRegex) value() []byte {
	b := appendStrings(kbin.AppendInt16(nil, 0), x.topics)
	b = kbin.AppendInt64(b, x.version)
	b = kbin.AppendInt64(b, x.resolvedMs)
	return append(b, 0)
}

func readRegex(raw []byte) (*resolvedRegex, error) {
	r, err := newValueReader(raw)
	if err != nil {
		return nil, err
	}
	x := &resolvedRegex{topics: sortedUnique(r.strings()), version: r.Int64(), resolvedMs: r.Int64()}
	r.tags(nil)
	return x, r.done()
}
