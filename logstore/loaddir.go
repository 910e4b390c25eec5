package logstore

import (
	"io/fs"
	"math"
	"slices"
	"strings"
)

// segmentFiles is what the loader found in a partition's directory, after what an interrupted operation left
// was put in order.
type segmentFiles struct {
	sizes map[int64]int64 // .log files by base offset
	bases []int64         // the keys of sizes, ascending
}

// tidy brings a partition's directory to a state without traces of interrupted operations, as Kafka's LogLoader:
// .deleted and .cleaned files go; a .swap segment is the finished product of compaction and takes the place of
// the segments it covers; an index without its log goes.
func (l *Log) tidy() (segmentFiles, error) {
	names, err := l.list()
	if err != nil {
		return segmentFiles{}, err
	}
	changed, err := l.removeLeftovers(names)
	if err != nil {
		return segmentFiles{}, err
	}
	if changed {
		if err := l.store.o.FS.SyncDir(*l.path.Load()); err != nil { // a .swap that came back would count as finished
			return segmentFiles{}, err
		}
	}
	swapped, err := l.finishSwap(names)
	if err != nil {
		return segmentFiles{}, err
	}
	if changed || swapped {
		l.entries.made++
		if names, err = l.list(); err != nil {
			return segmentFiles{}, err
		}
	}
	return l.collect(names)
}

func (l *Log) list() (map[string]fs.DirEntry, error) {
	entries, err := l.store.o.FS.ReadDir(*l.path.Load())
	if err != nil {
		return nil, err
	}
	names := make(map[string]fs.DirEntry, len(entries))
	for _, e := range entries {
		if !e.IsDir() {
			names[e.Name()] = e
		}
	}
	return names, nil
}

// removeLeftovers also removes .swap files at or above the lowest .cleaned one: they belong to a split that did not
// finish (KAFKA-6264).
func (l *Log) removeLeftovers(names map[string]fs.DirEntry) (changed bool, err error) {
	lowestCleaned := int64(math.MaxInt64)
	for name := range names {
		if offset, ok := offsetOfFile(name); ok && strings.HasSuffix(name, cleanedSuffix) {
			lowestCleaned = min(lowestCleaned, offset)
		}
	}
	for name := range names {
		offset, ok := offsetOfFile(name)
		dead := strings.HasSuffix(name, deletedSuffix) && !strings.HasSuffix(name, raftSnapshotDeleted) ||
			strings.HasSuffix(name, cleanedSuffix) ||
			strings.HasSuffix(name, swapSuffix) && ok && offset >= lowestCleaned
		if !dead {
			continue
		}
		if err := removeIfExists(l.store.o.FS, l.file(name)); err != nil {
			return changed, err
		}
		delete(names, name)
		changed = true
	}
	return changed, nil
}

// finishSwap renames .swap files into place after removing the segments that they cover. The removals are made
// durable first: no crash leaves a covered segment beside what covers it.
func (l *Log) finishSwap(names map[string]fs.DirEntry) (changed bool, err error) {
	covered, err := l.coveredBySwap(names)
	if err != nil {
		return false, err
	}
	for name := range names {
		offset, ok := offsetOfFile(name)
		if !ok || !covered(offset) || strings.HasSuffix(name, swapSuffix) || name == fileName(offset, snapshotSuffix) {
			continue
		}
		if err := removeIfExists(l.store.o.FS, l.file(name)); err != nil {
			return changed, err
		}
		changed = true
	}
	if changed {
		if err := l.store.o.FS.SyncDir(*l.path.Load()); err != nil {
			return changed, err
		}
	}
	for name := range names {
		if !strings.HasSuffix(name, swapSuffix) {
			continue
		}
		if err := l.store.o.FS.Rename(l.file(name), l.file(strings.TrimSuffix(name, swapSuffix))); err != nil {
			return changed, err
		}
		changed = true
	}
	return changed, nil
}

// coveredBySwap tells which base offsets lie in what the .swap segments replace.
func (l *Log) coveredBySwap(names map[string]fs.DirEntry) (func(base int64) bool, error) {
	from, to := int64(math.MaxInt64), int64(math.MinInt64)
	for name := range names {
		if base, ok := offsetOfFile(name); ok && strings.HasSuffix(name, logSuffix+swapSuffix) {
			end, err := l.endOfFile(name, base)
			if err != nil {
				return nil, err
			}
			from, to = min(from, base), max(to, end, base+1)
		}
	}
	return func(base int64) bool { return base >= from && base < to }, nil
}

// endOfFile is the offset after the last whole batch of a .log file that is not a segment yet.
func (l *Log) endOfFile(name string, base int64) (int64, error) {
	f, err := l.store.files.openAny(l.file(name))
	if err != nil {
		return 0, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return 0, err
	}
	end, _, err := walkEnd(f, 0, size, base)
	return end, err
}

// collect sorts the segments out of names and removes indexes that have no log.
func (l *Log) collect(names map[string]fs.DirEntry) (segmentFiles, error) {
	files := segmentFiles{sizes: map[int64]int64{}}
	for name, entry := range names {
		base, ok := offsetOfFile(name)
		if !ok || name != fileName(base, logSuffix) {
			continue
		}
		info, err := entry.Info()
		if err != nil {
			return files, err
		}
		files.sizes[base] = info.Size()
		files.bases = append(files.bases, base)
	}
	slices.Sort(files.bases)
	for name := range names {
		base, ok := offsetOfFile(name)
		index := strings.HasSuffix(name, indexSuffix) || strings.HasSuffix(name, timeIndexSuffix) || strings.HasSuffix(name, txnIndexSuffix)
		if _, has := files.sizes[base]; !ok || !index || has {
			continue
		}
		l.store.o.Log.Warn().Str("log", l.id.String()).Str("file", name).Msg("removing an index without its log")
		if err := removeIfExists(l.store.o.FS, l.file(name)); err != nil {
			return files, err
		}
	}
	return files, nil
}
