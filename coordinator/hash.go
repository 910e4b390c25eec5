package coordinator

import "unicode/utf16"

// PartitionOf is the partition of an internal topic that a group or transactional id lives on (Kafka's Utils.abs over
// String.hashCode).
func PartitionOf(key string, partitions int32) int32 {
	h := JavaHash(key)
	switch {
	case h == -1<<31:
		h = 0
	case h < 0:
		h = -h
	}
	return h % partitions
}

// JavaHash is String.hashCode: over UTF-16 units.
func JavaHash(s string) int32 {
	var h int32
	for _, r := range s {
		if r1, r2 := utf16.EncodeRune(r); r1 != 0xfffd {
			h = 31*(31*h+r1) + r2
		} else {
			h = 31*h + r
		}
	}
	return h
}
