package logstore

import (
	"fmt"
	"math/rand/v2"
	"path"
	"sync/atomic"
	"syscall"
	"testing"

	"grete/internal/vfs"
)

// A stop with many logs that are not durable syncs their volume once, in place of every file; what a crash leaves after it is whole and clean. Where the
// volume's sync fails, each file is synced, and a crash takes nothing either.
func TestManyLogsAreSyncedAsAVolume(t *testing.T) {
	for _, works := range []bool{true, false} {
		t.Run(fmt.Sprint("works ", works), func(t *testing.T) {
			mem := vfs.NewMem()
			disk := vfs.NewFaulty(mem)
			s := openTest(t, testOptions(disk))
			const n = volumeSyncAt
			for p := range int32(n) {
				l, err := s.Create(ID{"many", p}, [16]byte{1}, testConfig())
				must(t, err)
				if p%2 == 0 {
					appendTest(t, l, plain(t, 3, 100, 1))
				}
			}
			var volumes, files atomic.Int64
			disk.Inject(func(o vfs.Op) error {
				switch {
				case o.Kind == vfs.OpSync && o.Name == testDir:
					if volumes.Add(1); !works {
						return syscall.EIO
					}
				case o.Kind == vfs.OpSync && path.Ext(o.Name) != ".tmp":
					files.Add(1)
				}
				return nil
			})
			must(t, s.Close())
			if volumes.Load() != 1 || (files.Load() == 0) != works {
				t.Errorf("%d syncs of the volume, %d of files", volumes.Load(), files.Load())
			}
			for seed := range uint64(10) {
				s := openTest(t, testOptions(mem.CrashClone(rand.New(rand.NewPCG(seed, 0)), 50)))
				for p := range int32(n) {
					l := s.Log(ID{"many", p})
					if l == nil || l.EndOffset() != int64(3-3*(p%2)) || l.TopicID() != [16]byte{1} {
						t.Fatalf("seed %d: log %d is %v", seed, p, l)
					}
				}
				must(t, s.Close())
			}
		})
	}
}
