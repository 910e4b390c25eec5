package cluster

import "encoding/binary"

// Kinds of memberlist's messages: the byte that each begins with.
const (
	pingKind         = 0
	indirectPingKind = 1
	ackKind          = 2
	deadKind         = 5
	pushPullKind     = 6
	compoundKind     = 7
	encryptKind      = 10
	nackKind         = 11
	crcKind          = 12
	errorKind        = 13
)

const crcHeaderBytes = 5

// soundPacket refuses, where packets are not encrypted, what our nodes never send: compressed messages, which may be
// bombs, messages of users, labels, and compounds within compounds.
func soundPacket(b []byte) bool {
	if len(b) > crcHeaderBytes && b[0] == crcKind {
		b = b[crcHeaderBytes:]
	}
	if len(b) < 2 || b[0] != compoundKind {
		return soundMessage(b)
	}
	count, b := int(b[1]), b[2:]
	if len(b) < 2*count {
		return false
	}
	sizes, parts := b[:2*count], b[2*count:]
	for ; len(sizes) > 0; sizes = sizes[2:] {
		size := int(binary.BigEndian.Uint16(sizes))
		if size > len(parts) || !soundMessage(parts[:size]) {
			return false
		}
		parts = parts[size:]
	}
	return true
}

// soundMessage: pings and answers, suspect, alive and dead.
func soundMessage(b []byte) bool {
	return len(b) > 0 && (b[0] <= deadKind || b[0] == nackKind)
}

// soundStream judges a stream by its first byte.
func soundStream(kind byte, encrypted bool) bool {
	switch kind {
	case pingKind, ackKind, pushPullKind, errorKind:
		return !encrypted
	case encryptKind:
		return encrypted
	}
	return false
}
