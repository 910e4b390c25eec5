package logstore

import (
	"bytes"
	"encoding/json"
	"path"
	"regexp"

	"grete/internal/vfs"
)

const (
	metadataLogDir = "__cluster_metadata-0"
	voteFile       = "quorum-state"
	bootstrapFile  = "bootstrap.checkpoint"
	// ownComment is the first line of this program's meta.properties; Kafka's has the date in a comment.
	ownComment = "#Grete"
)

// javaDate is a comment of java.util.Properties.
var javaDate = regexp.MustCompile(`(?m)^#[A-Z][a-z]{2} [A-Z][a-z]{2} \d\d \d\d:\d\d:\d\d .+ \d{4}\s*$`)

// OfKafka says by which of its files a log directory is known as one that Apache Kafka formatted, "" when it is not. It
// reads and changes nothing. Partition directories alone, without what Kafka formats beside them, are nobody's. An
// error of reading says nothing either: whoever opens the directory meets it, too.
func OfKafka(fsys vfs.FS, dir string) (known string) {
	vote := path.Join(metadataLogDir, voteFile)
	switch text, err := readFile(fsys, path.Join(dir, vote)); {
	case err == nil && ownVote(text):
		return ""
	case err == nil && kafkaVote(text):
		return vote
	}
	if there, err := exists(fsys, path.Join(dir, bootstrapFile)); err == nil && there {
		return bootstrapFile
	}
	if text, err := readFile(fsys, path.Join(dir, metaPropertiesFile)); err == nil && !bytes.HasPrefix(text, []byte(ownComment)) && javaDate.Match(text) {
		return metaPropertiesFile
	}
	return ""
}

// ownVote: the vote file of this program has a checksum, even a damaged one mostly.
func ownVote(text []byte) bool { return bytes.Contains(text, []byte(`"crc32c"`)) }

// kafkaVote: a JSON object with Kafka's fields (QuorumStateData).
func kafkaVote(text []byte) bool {
	var fields map[string]json.RawMessage
	return json.Unmarshal(text, &fields) == nil && fields["leaderEpoch"] != nil && fields["data_version"] != nil
}
