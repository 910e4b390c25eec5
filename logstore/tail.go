package logstore

import (
	"runtime"
	"sync/atomic"
)

// recentBatches is how many of the newest batches a tail remembers, so that consumers at the end of a log find
// their position without a read. A power of two.
const recentBatches = 8

// tail is the end of a log as readers see it: the end offset, the active segment and the position in it, always
// of the same moment. One writer publishes under the log's lock; readers never wait for it: they retry when
// they met it publishing (a sequence lock; each word is atomic).
type tail struct {
	seq     atomic.Uint32 // odd while the writer publishes
	end     atomic.Int64
	base    atomic.Int64 // of the active segment
	pos     atomic.Int64 // bytes in the active segment below end
	written atomic.Uint32
	recent  [recentBatches]struct{ offset, pos atomic.Int64 }
}

// tailView is a consistent copy of a tail's end.
type tailView struct{ end, base, pos int64 }

// reset publishes an end without recent batches: after load, roll and truncation.
func (t *tail) reset(base, end, pos int64) {
	t.seq.Add(1)
	for i := range t.recent {
		t.recent[i].offset.Store(-1)
	}
	t.base.Store(base)
	t.end.Store(end)
	t.pos.Store(pos)
	t.seq.Add(1)
}

// push publishes a batch that begins at offset and position pos and moves the end to end, endPos.
func (t *tail) push(offset, pos, end, endPos int64) {
	t.seq.Add(1)
	n := t.written.Load()
	slot := &t.recent[n%recentBatches]
	slot.offset.Store(offset)
	slot.pos.Store(pos)
	t.written.Store(n + 1)
	t.end.Store(end)
	t.pos.Store(endPos)
	t.seq.Add(1)
}

func (t *tail) load() tailView {
	for {
		seq := t.seq.Load()
		v := tailView{t.end.Load(), t.base.Load(), t.pos.Load()}
		if seq&1 == 0 && t.seq.Load() == seq {
			return v
		}
		runtime.Gosched()
	}
}

// find returns the position of the recent batch that begins at offset, where it ends, and whether it is
// remembered and in the segment that begins at base.
func (t *tail) find(base, offset int64) (pos, endPos int64, ok bool) {
	seq := t.seq.Load()
	n := t.written.Load()
	for back := uint32(1); back <= recentBatches; back++ {
		slot := &t.recent[(n-back)%recentBatches]
		if slot.offset.Load() != offset {
			continue
		}
		pos, endPos, ok = slot.pos.Load(), t.pos.Load(), true
		if back > 1 {
			endPos = t.recent[(n-back+1)%recentBatches].pos.Load()
		}
		break
	}
	valid := ok && t.base.Load() == base && seq&1 == 0 && t.seq.Load() == seq
	return pos, endPos, valid
}
