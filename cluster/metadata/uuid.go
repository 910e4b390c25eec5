package metadata

import "grete/internal/uuid"

// UUID is a Kafka topic, directory or incarnation id.
type UUID = uuid.UUID

// Ids that Kafka reserves (org.apache.kafka.common.Uuid).
var (
	ZeroUUID        = UUID{}      // no id
	MetadataTopicID = UUID{15: 1} // Uuid.METADATA_TOPIC_ID: the topic id of __cluster_metadata
)
