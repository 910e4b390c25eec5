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

// A stop with many logs that are not durable syncs their volume once, in place of every file; what a crash leaves after
// it is whole and clean. Where the volume's sync fails, each file is synced, and a crash takes nothing either.
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
			var volumes, files, crashes atomic.Int64
			disk.Inject(func(o vfs.Op) error {
				switch {
				case o.Kind == vfs.OpSync && o.Name == testDir:
					if volumes.Add(1); !works {
						return syscall.EIO
					}
				case o.Kind == vfs.OpSync && path.Ext(o.Name) != besideSuffix:
					files.Add(1)
				case o.Kind == vfs.OpRename && works && volumes.Load() == 1 && crashes.Add(1)%8 == 0: // an epoch checkpoint takes its name
					openAfterCrash(t, mem, 7)
				}
				return nil
			})
			must(t, s.Close())
			want := int64(2) // what was written, then the names of the epoch checkpoints
			if !works {
				want = 1
			}
			if volumes.Load() != want || (files.Load() == 0) != works {
				t.Errorf("%d syncs of the volume, %d of files", volumes.Load(), files.Load())
			}
			for seed := range uint64(10) {
				openAfterCrash(t, mem, seed)
			}
		})
	}
}

// openAfterCrash loses power and looks for all that was written before the stop.
func openAfterCrash(t *testing.T, mem *vfs.Mem, seed uint64) {
	s := openTest(t, testOptions(mem.CrashClone(rand.New(rand.NewPCG(seed, 0)), 50)))
	for p := range int32(volumeSyncAt) {
		l := s.Log(ID{"many", p})
		if l == nil || l.EndOffset() != int64(3-3*(p%2)) || l.TopicID() != [16]byte{1} {
			t.Errorf("seed %d: log %d is not what it was", seed, p)
		}
	}
	must(t, s.Close())
}
