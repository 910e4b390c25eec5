package logstore

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Kafka's checkpoint files are text: a version line, a count line, and one line for each entry
// (CheckpointFile, OffsetCheckpointFile, LeaderEpochCheckpointFile).
const (
	recoveryPointFile = "recovery-point-offset-checkpoint"
	logStartFile      = "log-start-offset-checkpoint"
	highWatermarkFile = "replication-offset-checkpoint"
	cleanerFile       = "cleaner-offset-checkpoint"
	leaderEpochFile   = "leader-epoch-checkpoint"

	checkpointVersion = 0
)

// checkpointFiles in the order in which they are written.
var checkpointFiles = []string{recoveryPointFile, logStartFile, highWatermarkFile, cleanerFile}

// maxCheckpointEntries bounds what a count line can make us allocate.
const maxCheckpointEntries = 4 << 20

// parseCheckpoint returns the fields of each entry line; every line must have the same number of fields.
func parseCheckpoint(data []byte, fields int) ([][]string, error) {
	lines := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	if len(lines) < 2 {
		return nil, fmt.Errorf("%w: checkpoint without version and count", ErrCorrupt)
	}
	if version, err := strconv.Atoi(strings.TrimSpace(lines[0])); err != nil || version != checkpointVersion {
		return nil, fmt.Errorf("%w: checkpoint version %q", ErrCorrupt, lines[0])
	}
	count, err := strconv.Atoi(strings.TrimSpace(lines[1]))
	if err != nil || count < 0 || count > maxCheckpointEntries || count != len(lines)-2 {
		return nil, fmt.Errorf("%w: checkpoint with %d entries says %q", ErrCorrupt, len(lines)-2, lines[1])
	}
	entries := make([][]string, count)
	for i, line := range lines[2:] {
		entries[i] = strings.Fields(line)
		if len(entries[i]) != fields {
			return nil, fmt.Errorf("%w: checkpoint line %q", ErrCorrupt, line)
		}
	}
	return entries, nil
}

func checkpointHead(count int) *bytes.Buffer {
	b := new(bytes.Buffer)
	fmt.Fprintf(b, "%d\n%d\n", checkpointVersion, count)
	return b
}

// parseOffsets reads an offset checkpoint: topic, partition, offset.
func parseOffsets(data []byte) (map[ID]int64, error) {
	entries, err := parseCheckpoint(data, 3)
	if err != nil {
		return nil, err
	}
	offsets := make(map[ID]int64, len(entries))
	for _, e := range entries {
		partition, err1 := strconv.ParseInt(e[1], 10, 32)
		offset, err2 := strconv.ParseInt(e[2], 10, 64)
		if err1 != nil || err2 != nil || partition < 0 || offset < 0 {
			return nil, fmt.Errorf("%w: checkpoint line %q", ErrCorrupt, e)
		}
		offsets[ID{e[0], int32(partition)}] = offset
	}
	return offsets, nil
}

// encodeOffsets is the inverse of parseOffsets, sorted so that an unchanged checkpoint has unchanged bytes.
func encodeOffsets(offsets map[ID]int64) []byte {
	ids := make([]ID, 0, len(offsets))
	for id := range offsets {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b ID) int {
		if c := strings.Compare(a.Topic, b.Topic); c != 0 {
			return c
		}
		return int(a.Partition) - int(b.Partition)
	})
	b := checkpointHead(len(ids))
	for _, id := range ids {
		fmt.Fprintf(b, "%s %d %d\n", id.Topic, id.Partition, offsets[id])
	}
	return b.Bytes()
}

// epochEntry says that epoch begins at start.
type epochEntry struct {
	epoch int32
	start int64
}

// parseEpochs reads a leader epoch checkpoint; epochs and offsets must ascend.
func parseEpochs(data []byte) ([]epochEntry, error) {
	entries, err := parseCheckpoint(data, 2)
	if err != nil {
		return nil, err
	}
	epochs := make([]epochEntry, len(entries))
	for i, e := range entries {
		epoch, err1 := strconv.ParseInt(e[0], 10, 32)
		start, err2 := strconv.ParseInt(e[1], 10, 64)
		if err1 != nil || err2 != nil || epoch < 0 || start < 0 {
			return nil, fmt.Errorf("%w: epoch line %q", ErrCorrupt, e)
		}
		epochs[i] = epochEntry{int32(epoch), start}
		if i > 0 && (epochs[i-1].epoch >= epochs[i].epoch || epochs[i-1].start > start) {
			return nil, fmt.Errorf("%w: epoch line %q is out of order", ErrCorrupt, e)
		}
	}
	return epochs, nil
}

func encodeEpochs(epochs []epochEntry) []byte {
	b := checkpointHead(len(epochs))
	for _, e := range epochs {
		fmt.Fprintf(b, "%d %d\n", e.epoch, e.start)
	}
	return b.Bytes()
}
