package group

import (
	"encoding/binary"
	"maps"
	"slices"
	"unicode/utf16"

	"github.com/zeebo/xxh3"

	"grete/cluster/metadata"
)

// topicHashMagic is the version of the hash's composition (Kafka's Utils.TOPIC_HASH_MAGIC_BYTE).
const topicHashMagic = 0

// metadataHash is Kafka's hash over everything of topics that assignments depend on (KIP-1101): when it changes the
// group is to be assigned anew. Topics that do not exist are left out; 0 is the hash of none.
func metadataHash(im *metadata.Image, topics map[string]struct{}) int64 {
	var hashes []uint64
	for _, name := range slices.Sorted(maps.Keys(topics)) {
		if t := im.Topic(name); t != nil {
			hashes = append(hashes, topicHash(im, t))
		}
	}
	if hashes == nil {
		return 0
	}
	return hashOf(hashes...)
}

func hashOf(hashes ...uint64) int64 {
	var b []byte
	for _, h := range hashes {
		b = binary.LittleEndian.AppendUint64(b, h)
	}
	return int64(xxh3.Hash(b))
}

// topicHash covers id, name, and each partition with the racks of its replicas. Numbers are little endian, strings
// UTF-16 with their length behind them.
func topicHash(im *metadata.Image, t *metadata.Topic) uint64 {
	b := []byte{topicHashMagic}
	b = binary.LittleEndian.AppendUint64(b, binary.BigEndian.Uint64(t.ID[:8]))
	b = binary.LittleEndian.AppendUint64(b, binary.BigEndian.Uint64(t.ID[8:]))
	b = appendHashString(b, t.Name)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(t.Partitions)))
	for i := range t.Partitions {
		b = binary.LittleEndian.AppendUint32(b, uint32(i))
		for _, rack := range racks(im, &t.Partitions[i]) {
			b = binary.LittleEndian.AppendUint32(b, uint32(len(utf16.Encode([]rune(rack)))))
			b = appendHashString(b, rack)
		}
	}
	return xxh3.Hash(b)
}

func appendHashString(b []byte, s string) []byte {
	units := utf16.Encode([]rune(s))
	for _, u := range units {
		b = binary.LittleEndian.AppendUint16(b, u)
	}
	return binary.LittleEndian.AppendUint32(b, uint32(len(units)))
}

func racks(im *metadata.Image, p *metadata.Partition) []string {
	var out []string
	for _, id := range p.Replicas {
		if broker := im.Broker(id); broker != nil && broker.Rack != "" {
			out = append(out, broker.Rack)
		}
	}
	slices.Sort(out)
	return out
}

// subscribedIDs is the topics that m subscribes to and that exist.
func (g *consumerGroup) subscribedIDs(im *metadata.Image, m *consumerMember) map[topicID]bool {
	out := make(map[topicID]bool, len(m.topics))
	add := func(names []string) {
		for _, name := range names {
			if t := im.Topic(name); t != nil {
				out[t.ID] = true
			}
		}
	}
	add(m.topics)
	if x := g.regexes[m.regex]; x != nil {
		add(x.topics)
	}
	return out
}
