package load

import (
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

// damage does to the data directory of a dead broker what must not matter: derived files are deleted, emptied or garbled,
// and a log ends in a write that was cut. Of the metadata nothing is touched: there, damage must be refused.
func damage(rng *rand.Rand, dir string) (done []string, err error) {
	lastLogs := map[string]string{} // by partition
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasPrefix(filepath.Base(filepath.Dir(path)), "__cluster_metadata") {
			return err
		}
		if strings.HasSuffix(path, ".log") {
			lastLogs[filepath.Dir(path)] = path // in the order of names, which is that of offsets
		}
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
