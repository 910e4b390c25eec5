// Package uuid has Kafka's ids (org.apache.kafka.common.Uuid): of clusters, topics, directories and incarnations.
package uuid

import (
	"bytes"
	"encoding/base64"
	"fmt"
)

// UUID is 16 bytes; zero is no id.
type UUID [16]byte

// reservedHighBytes: Kafka reserves the ids 0…99, whose first 15 bytes are zero.
const reservedHighBytes = 15

// String is Kafka's form: URL-safe base64 without padding, 22 characters.
func (u UUID) String() string { return base64.RawURLEncoding.EncodeToString(u[:]) }

// Parse reads what String writes.
func Parse(s string) (UUID, error) {
	raw, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil || len(raw) != len(UUID{}) {
		return UUID{}, fmt.Errorf("%q is no Kafka id (22 characters of URL-safe base64)", s)
	}
	return UUID(raw), nil
}

// Reserved says whether Kafka keeps u for itself, so that no topic or directory may get it.
func (u UUID) Reserved() bool {
	return bytes.Equal(u[:reservedHighBytes], make([]byte, reservedHighBytes)) && u[15] < 100
}

// New makes a random (version 4) id of the bytes that fill gives; like Kafka it avoids reserved ids and those whose
// text starts with a dash, which command lines take for an option.
func New(fill func(p []byte)) UUID {
	for {
		var u UUID
		fill(u[:])
		u[6] = u[6]&0x0f | 0x40
		u[8] = u[8]&0x3f | 0x80
		if !u.Reserved() && u.String()[0] != '-' {
			return u
		}
	}
}
