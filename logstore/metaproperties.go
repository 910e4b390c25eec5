package logstore

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"grete/internal/uuid"
	"grete/internal/vfs"
)

// MetaPropertiesFile names a log directory's identity, partitionMetadataFile a partition's topic.
const (
	MetaPropertiesFile    = "meta.properties"
	partitionMetadataFile = "partition.metadata"
	metaVersion           = 1
)

// ErrMetaProperties: the directories belong to different clusters or nodes, or to others than configured.
var ErrMetaProperties = errors.New("meta.properties mismatch")

// MetaProperties is meta.properties, version 1 (Kafka's MetaProperties). Ids are in Kafka's base64.
type MetaProperties struct {
	ClusterID   string
	NodeID      int32
	DirectoryID [16]byte
}

// PrepareDirs reads the meta.properties of every directory, refuses directories that contradict each other or want
// (an empty want.ClusterID takes what is found, or is drawn from random), and writes the file where there is none. It
// returns the cluster id. Directories that cannot be read are left to Open, which serves the others. begin, unless nil,
// is told each directory that gets an id, before the id is written: what belongs to the directory's identity is there
// when it is.
func PrepareDirs(
	fsys vfs.FS, dirs []string, want MetaProperties, random func(p []byte), begin func(dir string, id [16]byte) error,
) (clusterID string, err error) {
	found := map[string]MetaProperties{}
	for _, dir := range dirs {
		m, err := ReadMetaProperties(fsys, dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if errors.Is(err, ErrCorrupt) {
			return "", fmt.Errorf("%s: %w; mend or remove the file", path.Join(dir, MetaPropertiesFile), err)
		}
		if err != nil {
			continue
		}
		if want.ClusterID == "" {
			want.ClusterID = m.ClusterID
		}
		if err := m.mustMatch(want, dir); err != nil {
			return "", err
		}
		found[dir] = m
	}
	if want.ClusterID == "" {
		want.ClusterID = uuid.New(random).String()
	}
	if begin == nil {
		begin = func(string, [16]byte) error { return nil }
	}
	return want.ClusterID, writeMissingMeta(fsys, dirs, found, want, random, begin)
}

func (m MetaProperties) mustMatch(want MetaProperties, dir string) error {
	if m.NodeID != want.NodeID {
		return fmt.Errorf("%w: %s belongs to node.id %d, this node is %d", ErrMetaProperties, dir, m.NodeID, want.NodeID)
	}
	if m.ClusterID != want.ClusterID {
		return fmt.Errorf("%w: %s belongs to cluster %s, expected %s", ErrMetaProperties, dir, m.ClusterID, want.ClusterID)
	}
	return nil
}

// writeMissingMeta gives a file to the directories without one, and a directory id to those whose file has none.
func writeMissingMeta(
	fsys vfs.FS, dirs []string, found map[string]MetaProperties, want MetaProperties, random func(p []byte), begin func(string, [16]byte) error,
) error {
	written, failed := len(found), error(nil)
	for _, dir := range dirs {
		if found[dir].DirectoryID != [16]byte{} {
			continue
		}
		want.DirectoryID = uuid.New(random)
		err := makeDir(fsys, dir)
		if err == nil {
			err = begin(dir, want.DirectoryID)
		}
		if err == nil {
			err = writeMetaProperties(fsys, dir, want)
		}
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		written++
	}
	if written == 0 {
		return fmt.Errorf("no usable log directory: %w", failed)
	}
	return nil
}

func writeMetaProperties(fsys vfs.FS, dir string, m MetaProperties) error {
	text := fmt.Sprintf("%s\ncluster.id=%s\ndirectory.id=%v\nnode.id=%d\nversion=%d\n",
		ownComment, m.ClusterID, uuid.UUID(m.DirectoryID), m.NodeID, metaVersion)
	return replaceFile(fsys, path.Join(dir, MetaPropertiesFile), []byte(text))
}

// ReadMetaProperties reads a directory's file; fs.ErrNotExist when there is none, ErrCorrupt when it makes no sense.
func ReadMetaProperties(fsys vfs.FS, dir string) (MetaProperties, error) {
	data, err := readFile(fsys, path.Join(dir, MetaPropertiesFile))
	if err != nil {
		return MetaProperties{}, err
	}
	return parseMetaProperties(data)
}

func parseMetaProperties(data []byte) (m MetaProperties, err error) {
	props := parseProperties(data)
	switch props["version"] {
	case "1":
	case "0":
		props["node.id"] = props["broker.id"]
	default:
		return m, fmt.Errorf("%w: version %q", ErrCorrupt, props["version"])
	}
	node, err := strconv.ParseInt(props["node.id"], 10, 32)
	if err != nil || node < 0 {
		return m, fmt.Errorf("%w: node.id %q", ErrCorrupt, props["node.id"])
	}
	m.NodeID, m.ClusterID = int32(node), props["cluster.id"]
	if m.ClusterID == "" {
		return m, fmt.Errorf("%w: no cluster.id", ErrCorrupt)
	}
	if id := props["directory.id"]; id != "" {
		m.DirectoryID, err = parseUUID(id)
	}
	return m, err
}

// parseProperties reads the key=value lines that Kafka writes; values have no escapes but those of Properties.store.
func parseProperties(data []byte) map[string]string {
	props := map[string]string{}
	for lines := bufio.NewScanner(bytes.NewReader(data)); lines.Scan(); {
		line := strings.TrimSpace(lines.Text())
		if key, value, ok := strings.Cut(line, "="); ok && !strings.HasPrefix(line, "#") {
			props[strings.TrimSpace(key)] = strings.ReplaceAll(strings.TrimSpace(value), `\`, "")
		}
	}
	return props
}

// readPartitionMetadata takes the topic id; a missing file leaves it zero.
func (l *Log) readPartitionMetadata() error {
	data, err := readFile(l.store.o.FS, l.file(partitionMetadataFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	id, err := parsePartitionMetadata(data)
	if err != nil { // a crash can leave it empty: it is synced with the first flush only
		l.store.o.Log.Warn().Str("log", l.id.String()).Err(err).Msg("ignoring partition.metadata")
		return nil
	}
	l.topicID.Store(&id)
	return nil
}

// parsePartitionMetadata reads "version: 0" and "topic_id: …" (Kafka's PartitionMetadataFile).
func parsePartitionMetadata(data []byte) (id [16]byte, err error) {
	version, topic, _ := strings.Cut(strings.TrimSpace(string(data)), "\n")
	if strings.TrimSpace(version) != "version: 0" || !strings.HasPrefix(topic, "topic_id: ") {
		return id, fmt.Errorf("%w: partition.metadata %q", ErrCorrupt, data)
	}
	return parseUUID(strings.TrimSpace(strings.TrimPrefix(topic, "topic_id: ")))
}

func parseUUID(s string) (uuid.UUID, error) {
	id, err := uuid.Parse(s)
	if err != nil {
		return id, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return id, nil
}

// writePartitionMetadata is not synced: the first flush of the log does it.
func (l *Log) writePartitionMetadata(topicID [16]byte) error {
	text := fmt.Sprintf("version: 0\ntopic_id: %v", uuid.UUID(topicID))
	if err := writeFile(l.store.o.FS, l.file(partitionMetadataFile), []byte(text), false); err != nil {
		return err
	}
	l.topicID.Store(&topicID)
	return nil
}
