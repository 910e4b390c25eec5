package handlers

import (
	"strings"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/internal/vfs"
)

// Where the disk refuses an append, an answer from version 8 on says why, in words that name no path; an older one has
// the code alone. It heals.
func TestProduceSaysWhatTheDiskLacks(t *testing.T) {
	for lack, text := range map[error]string{
		syscall.ENOSPC: "The log directory has no space left.", syscall.EDQUOT: "The log directory has no space left.",
		syscall.EMFILE: "The broker is out of file descriptors.", syscall.EIO: "The log directory is offline.",
	} {
		t.Run(lack.Error(), func(t *testing.T) {
			disk := vfs.NewFaulty(vfs.NewMem())
			r := newRig(t, withFS(disk, "/data"))
			r.createTopic("t", 1)
			w := r.dial()
			disk.Inject(vfs.FailMatching(func(o vfs.Op) bool { return o.Kind == vfs.OpWrite && strings.Contains(o.Name, "/t-0/") }, lack))
			for _, version := range []int16{3, 7, 8, 9, 12, 13} {
				a := call[*kmsg.ProduceResponse](w, version, produceRequest("t", 0, -1, records(t, plain, "v"))).Topics[0].Partitions[0]
				if a.ErrorCode != kerr.KafkaStorageError.Code || a.BaseOffset != -1 {
					t.Errorf("version %d: %+v", version, a)
				}
				if want := map[bool]string{true: text}[version >= 8]; message(a) != want {
					t.Errorf("version %d says %q, not %q", version, message(a), want)
				}
			}
			disk.Inject(nil)
			a := w.produce("t", 0, "v")
			if heals := lack != syscall.EIO; heals != (a.ErrorCode == 0) || heals && message(a) != "" {
				t.Errorf("after it: %+v", a)
			}
		})
	}
}

// A volume that really is full refuses what does not fit, with the words, and takes what fits once there is room.
func TestProduceToAFullVolume(t *testing.T) {
	mem := vfs.NewMem()
	r := newRig(t, withFS(mem, "/data"))
	r.createTopic("t", 1)
	w := r.dial()
	if a := w.produce("t", 0, "before"); a.ErrorCode != 0 {
		t.Fatalf("%+v", a)
	}
	total, usable, err := mem.Usage("/data")
	if err != nil {
		t.Fatal(err)
	}
	mem.SetCapacity(total - usable + 10)
	if a := w.produce("t", 0, strings.Repeat("v", 1000)); a.ErrorCode != kerr.KafkaStorageError.Code || message(a) != "The log directory has no space left." {
		t.Errorf("%+v, %q", a, message(a))
	}
	mem.SetCapacity(total)
	if a := w.produce("t", 0, "after"); a.ErrorCode != 0 || a.BaseOffset != 1 {
		t.Errorf("with room again: %+v, %q", a, message(a))
	}
}

// A flush that fails after the append is told in the same words: flush.messages has the answer wait for it.
func TestProduceSaysWhyItsFlushFailed(t *testing.T) {
	disk := vfs.NewFaulty(vfs.NewMem())
	r := newRig(t, withFS(disk, "/data"))
	r.createTopic("t", 1, "flush.messages", "1")
	w := r.dial()
	disk.Inject(vfs.FailMatching(func(o vfs.Op) bool { return o.Kind == vfs.OpSync && strings.Contains(o.Name, "/t-0/") }, syscall.EIO))
	if a := w.produce("t", 0, "v"); a.ErrorCode != kerr.KafkaStorageError.Code || message(a) != "The log directory is offline." {
		t.Errorf("%+v, %q", a, message(a))
	}
}

func message(a kmsg.ProduceResponseTopicPartition) string {
	if a.ErrorMessage == nil {
		return ""
	}
	return *a.ErrorMessage
}
