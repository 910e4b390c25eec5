package load

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// derived are the files of a partition that a broker makes again from its log.
var derived = []string{".index", ".timeindex", ".txnindex", ".snapshot", "leader-epoch-checkpoint"}

// damage does to the data directory of a dead broker what must not matter: derived files are deleted, emptied or
// garbled, and a log ends in a write that was cut. Of the metadata nothing is touched: there, damage must be refused.
func damage(rng *rand.Rand, dir string) (done []string, err error) {
	lastLogs, err := eachFile(dir, func(path string) error {
		isDerived := slices.ContainsFunc(derived, func(end string) bool { return strings.HasSuffix(path, end) })
		if !isDerived || rng.IntN(3) > 0 {
			return nil
		}
		what, err := spoil(rng, path)
		rel, _ := filepath.Rel(dir, path)
		done = append(done, what+" "+rel)
		return err
	})
	for _, log := range lastLogs {
		if err == nil && rng.IntN(3) == 0 {
			err = appendGarbage(rng, log)
		}
	}
	return done, err
}

// eachFile calls f with every file of the partitions, the metadata's excepted, and returns the last .log of each
// partition.
func eachFile(dir string, f func(path string) error) (lastLogs []string, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		in := filepath.Dir(path)
		if err != nil || d.IsDir() || strings.HasPrefix(filepath.Base(in), "__cluster_metadata") {
			return err
		}
		if strings.HasSuffix(path, ".log") {
			if n := len(lastLogs); n > 0 && filepath.Dir(lastLogs[n-1]) == in {
				lastLogs = lastLogs[:n-1] // names are in the order of offsets
			}
			lastLogs = append(lastLogs, path)
		}
		return f(path)
	})
	return lastLogs, err
}

// forgetTails cuts active segments anywhere: none of their bytes were surely synced.
func forgetTails(rng *rand.Rand, dir string) error {
	logs, err := eachFile(dir, func(string) error { return nil })
	for _, log := range logs {
		info, e := os.Stat(log)
		if err = errors.Join(err, e); err != nil {
			return err
		}
		if rng.IntN(2) == 0 {
			err = os.Truncate(log, rng.Int64N(info.Size()+1))
		}
	}
	return err
}

func spoil(rng *rand.Rand, path string) (what string, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	switch rng.IntN(3) {
	case 0:
		return "deleted", os.Remove(path)
	case 1:
		return "emptied", os.Truncate(path, 0)
	}
	garbage := make([]byte, info.Size())
	for i := range garbage {
		garbage[i] = byte(rng.Uint32())
	}
	return "garbled", os.WriteFile(path, garbage, info.Mode())
}

// appendGarbage is a batch of which little was written.
func appendGarbage(rng *rand.Rand, path string) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	garbage := make([]byte, 1+rng.IntN(200))
	for i := range garbage {
		garbage[i] = byte(rng.Uint32())
	}
	if _, err := f.Write(garbage); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return f.Close()
}
