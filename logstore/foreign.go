package logstore

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

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
	if text, err := readFile(fsys, path.Join(dir, MetaPropertiesFile)); err == nil && !bytes.HasPrefix(text, []byte(ownComment)) && javaDate.Match(text) {
		return MetaPropertiesFile
	}
	return ""
}

// OfOthers says by which of its files a log directory is known as neither this program's nor Kafka's, "" when it is
// not: by a meta.properties without this program's mark, or, where there is none, by something that no log directory
// has. It reads and changes nothing. Partition directories are welcome, whoever wrote them; hidden files and lost+found
// are the volume's. An error of reading says nothing, as in OfKafka.
func OfOthers(fsys vfs.FS, dir string) (known string) {
	if text, err := readFile(fsys, path.Join(dir, metadataLogDir, voteFile)); err == nil && ownVote(text) {
		return ""
	}
	switch text, err := readFile(fsys, path.Join(dir, MetaPropertiesFile)); {
	case err == nil && len(text) > 0 && !ownMeta(text):
		return MetaPropertiesFile
	case !errors.Is(err, fs.ErrNotExist):
		return ""
	}
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return ""
	}
	for _, e := range entries {
		if name := e.Name(); !hidden(name) && !belongs(fsys, dir, e) {
			return name
		}
	}
	return ""
}

// ownMeta: the first line of a meta.properties is this program's, or that of its versions before, which wrote # alone.
func ownMeta(text []byte) bool {
	first, _, _ := bytes.Cut(text, []byte("\n"))
	first = bytes.TrimSpace(first)
	return bytes.Equal(first, []byte(ownComment)) || bytes.Equal(first, []byte("#"))
}

func hidden(name string) bool { return strings.HasPrefix(name, ".") || name == "lost+found" }

// belongs says whether an entry is one that a log directory has, or had when a start crashed in it.
func belongs(fsys vfs.FS, dir string, e fs.DirEntry) bool {
	name := e.Name()
	if !e.IsDir() {
		name = strings.TrimSuffix(name, besideSuffix)
		return name == MetaPropertiesFile || slices.Contains(checkpointFiles, name)
	}
	for _, suffix := range []string{deleteDirSuffix, futureDirSuffix, strayDirSuffix} {
		if aside, ok := strings.CutSuffix(name, suffix); ok {
			name = aside[:max(strings.LastIndexByte(aside, '.'), 0)]
		}
	}
	_, named := parseDirName(name)
	return named && isPartition(fsys, path.Join(dir, e.Name()))
}

// isPartition says whether a directory that is named as a partition's has something that a partition's has, or nothing.
func isPartition(fsys vfs.FS, dir string) bool {
	entries, err := fsys.ReadDir(dir)
	if err != nil || len(entries) == 0 {
		return true
	}
	return slices.ContainsFunc(entries, func(e fs.DirEntry) bool {
		name := strings.TrimSuffix(e.Name(), besideSuffix)
		_, ofSegment := offsetOfFile(name)
		return ofSegment || hidden(name) || name == partitionMetadataFile || name == leaderEpochFile || name == voteFile
	})
}

// ownVote: the vote file of this program has a checksum, even a damaged one mostly.
func ownVote(text []byte) bool { return bytes.Contains(text, []byte(`"crc32c"`)) }

// kafkaVote: a JSON object with Kafka's fields (QuorumStateData).
func kafkaVote(text []byte) bool {
	var fields map[string]json.RawMessage
	return json.Unmarshal(text, &fields) == nil && fields["leaderEpoch"] != nil && fields["data_version"] != nil
}
