package logstore

import (
	"encoding/binary"
	"io"
	"math/bits"

	"github.com/dchest/siphash"
)

// mapSlotBytes is a slot's size, the same as in Kafka's SkimpyOffsetMap: 16 bytes of hash, 8 of offset.
const mapSlotBytes = 24

// offsetMap holds the last offset of each key of a log's dirty part. Keys are known by 128 bits of a keyed hash, so
// that nobody can choose keys that are taken for each other. Memory is bounded by the number of keys.
type offsetMap struct {
	k0, k1  uint64
	slots   []mapSlot
	keys    int
	maxKeys int
	// latest is the offset up to which (inclusive) the log is in the map, -1 at first.
	latest int64
}

// mapSlot is free while next is 0.
type mapSlot struct {
	h0, h1 uint64
	next   int64 // offset + 1
}

// reset empties the map and makes room for maxKeys keys, or for records of them when there are no more to come. Memory
// is used again.
func (m *offsetMap) reset(maxKeys int, records int64, loadFactor float64, entropy io.Reader) error {
	m.keys, m.latest, m.maxKeys = 0, -1, mapKeys(maxKeys, records)
	slots := mapSlots(maxKeys, records, loadFactor)
	if cap(m.slots) < slots {
		m.slots = make([]mapSlot, slots)
	} else {
		m.slots = m.slots[:slots]
		clear(m.slots)
	}
	if entropy == nil {
		return nil
	}
	var key [16]byte
	if _, err := io.ReadFull(entropy, key[:]); err != nil {
		return err
	}
	m.k0, m.k1 = binary.LittleEndian.Uint64(key[:]), binary.LittleEndian.Uint64(key[8:])
	return nil
}

func mapKeys(maxKeys int, records int64) int { return int(max(min(int64(maxKeys), records), 1)) }

func mapSlots(maxKeys int, records int64, loadFactor float64) int {
	return int(float64(mapKeys(maxKeys, records))/loadFactor) + 1
}

// find returns key's slot, or the free one where it belongs. There is always a free slot.
func (m *offsetMap) find(key []byte) (s *mapSlot, h0, h1 uint64) {
	h0, h1 = siphash.Hash128(m.k0, m.k1, key)
	at, _ := bits.Mul64(h0, uint64(len(m.slots)))
	for {
		s = &m.slots[at]
		if s.next == 0 || s.h0 == h0 && s.h1 == h1 {
			return s, h0, h1
		}
		if at++; at == uint64(len(m.slots)) {
			at = 0
		}
	}
}

// put notes that key is at offset, which is above all before; false: the map is full.
func (m *offsetMap) put(key []byte, offset int64) bool {
	s, h0, h1 := m.find(key)
	if s.next == 0 {
		if m.keys == m.maxKeys {
			return false
		}
		m.keys++
		s.h0, s.h1 = h0, h1
	}
	s.next = offset + 1
	m.latest = offset
	return true
}

// get returns the last offset of key, -1 when it is not in the map.
func (m *offsetMap) get(key []byte) int64 {
	s, _, _ := m.find(key)
	return s.next - 1
}
