package metadata

import (
	"bytes"
	"encoding/base64"
	"fmt"
)

// UUID is a Kafka topic, directory or incarnation id.
type UUID [16]byte

// Ids that Kafka reserves (org.apache.kafka.common.Uuid, DirectoryId).
var (
	ZeroUUID        = UUID{}      // no id
	MetadataTopicID = UUID{15: 1} // Uuid.METADATA_TOPIC_ID: the topic id of __cluster_metadata
	MigratingDir    = UUID{15: 0}
	UnassignedDir   = UUID{15: 1}
	LostDir         = UUID{15: 2}
)

// reservedHighBytes: Kafka reserves the ids 0…99, whose first 15 bytes are zero.
const reservedHighBytes = 15

// String is Kafka's form: URL-safe base64 without padding, 22 characters.
func (u UUID) String() string { return base64.RawURLEncoding.EncodeToString(u[:]) }

// ParseUUID reads what String writes.
func ParseUUID(s string) (UUID, error) {
	raw, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil || len(raw) != len(UUID{}) {
		return UUID{}, fmt.Errorf("%q is no Kafka id (22 characters of URL-safe base64)", s)
	}
	return UUID(raw), nil
}

// Reserved says whether Kafka keeps u for itself, so that no topic or directory may get it.
func (u UUID) Reserved() bool {
	return bytes.Equal(u[:reservedHighBytes], ZeroUUID[:reservedHighBytes]) && u[15] < 100
}

// NewUUID makes a random (version 4) id from random bytes; like Kafka it avoids reserved ids and those whose
// text starts with a dash, which command lines take for an option.
func NewUUID(fill func(p []byte)) UUID {
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
