package logstore

import (
	"fmt"
	"strconv"
	"strings"
)

// Kafka's file and directory names (LogFileUtils, LocalLog).
const (
	logSuffix       = ".log"
	indexSuffix     = ".index"
	timeIndexSuffix = ".timeindex"
	txnIndexSuffix  = ".txnindex"
	snapshotSuffix  = ".snapshot"
	deletedSuffix   = ".deleted"
	cleanedSuffix   = ".cleaned"
	swapSuffix      = ".swap"

	deleteDirSuffix = "-delete"
	futureDirSuffix = "-future"
	strayDirSuffix  = "-stray"

	// raftSnapshotDeleted ends names that the metadata log, not the loader, takes care of.
	raftSnapshotDeleted = ".checkpoint.deleted"

	maxFileNameBytes = 255
)

// fileName is the 20-digit offset that Kafka names a segment's files by.
func fileName(base int64, suffix string) string { return fmt.Sprintf("%020d%s", base, suffix) }

// offsetOfFile reads the offset in front of the first dot.
func offsetOfFile(name string) (int64, bool) {
	digits, _, found := strings.Cut(name, ".")
	if !found || digits == "" || strings.Trim(digits, "0123456789") != "" {
		return 0, false
	}
	offset, err := strconv.ParseInt(digits, 10, 64)
	return offset, err == nil
}

// parseDirName splits topic-partition at the last dash.
func parseDirName(name string) (ID, bool) {
	dash := strings.LastIndexByte(name, '-')
	if dash <= 0 {
		return ID{}, false
	}
	partition, err := strconv.ParseInt(name[dash+1:], 10, 32)
	if err != nil || partition < 0 || strings.HasPrefix(name[dash+1:], "+") {
		return ID{}, false
	}
	return ID{name[:dash], int32(partition)}, true
}

// asideDirName is topic-partition.<unique><suffix>, the topic cut so that the name fits a directory entry.
func asideDirName(id ID, unique, suffix string) string {
	tail := fmt.Sprintf("-%d.%s%s", id.Partition, unique, suffix)
	topic := id.Topic
	if over := len(topic) + len(tail) - maxFileNameBytes; over > 0 {
		topic = topic[:len(topic)-over]
	}
	return topic + tail
}
