package vfs

import (
	"maps"
	"math/rand/v2"
	"slices"
)

// CrashClone returns a file system as a power loss at this moment could leave this one, which is unchanged. Synced
// data and names are kept. Each unsynced name change survives with keepPercent (a rename whole or not at all), and
// so does each unsynced page, whatever its neighbours do; a page may also be torn, and a file may have got its new
// size without its new data, which then reads as zeros. Locks are free. 100 is what kill -9 leaves: everything.
func (m *Mem) CrashClone(rng *rand.Rand, keepPercent int) *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := crash{rng: rng, keepPercent: keepPercent, clones: map[*memNode]*memNode{}}
	c.names = c.survivingNames(m)
	clone := NewMem()
	clone.capacityBytes = m.capacityBytes
	clone.root = c.clone(m.root)
	for _, n := range c.clones {
		if !n.dir {
			clone.usedBytes += int64(len(n.data))
		}
	}
	return clone
}

type crash struct {
	rng         *rand.Rand
	keepPercent int
	names       map[*memNode]map[string]*memNode // directory → entries after the crash, where they differ from durable
	clones      map[*memNode]*memNode
}

func (c *crash) keep() bool { return c.rng.IntN(100) < c.keepPercent }

func (c *crash) survivingNames(m *Mem) map[*memNode]map[string]*memNode {
	names := map[*memNode]map[string]*memNode{}
	for _, change := range m.pending {
		if !c.keep() {
			continue
		}
		for _, e := range change.edits {
			if names[e.dir] == nil {
				names[e.dir] = maps.Clone(e.dir.durable)
			}
			if e.node == nil {
				delete(names[e.dir], e.name)
			} else {
				names[e.dir][e.name] = e.node
			}
		}
	}
	return names
}

// clone copies a node as the crash leaves it; a file that has two names after the crash stays one file.
func (c *crash) clone(n *memNode) *memNode {
	if done := c.clones[n]; done != nil {
		if !n.dir {
			done.links++
		}
		return done
	}
	if !n.dir {
		data := c.survivingData(n)
		file := &memNode{perm: n.perm, data: data, syncedBytes: int64(len(data)), links: 1}
		c.clones[n] = file
		return file
	}
	dir := newMemDir()
	dir.perm = n.perm
	c.clones[n] = dir
	entries := n.durable
	if changed := c.names[n]; changed != nil {
		entries = changed
	}
	for _, name := range sortedNames(entries) {
		dir.entries[name] = c.clone(entries[name])
	}
	dir.durable = maps.Clone(dir.entries)
	return dir
}

func (c *crash) survivingData(n *memNode) []byte {
	data := make([]byte, c.survivingSize(n))
	copy(data, n.data)
	for _, page := range slices.Sorted(maps.Keys(n.dirty)) {
		start := page * memPageBytes
		if start >= int64(len(data)) || c.keep() {
			continue
		}
		c.lose(data[start:min(start+memPageBytes, int64(len(data)))], n.dirty[page])
	}
	return data
}

func (c *crash) survivingSize(n *memNode) int64 {
	size := int64(len(n.data))
	if size == n.syncedBytes || c.keep() {
		return size
	}
	if c.rng.IntN(2) == 0 {
		return n.syncedBytes
	}
	low, high := min(size, n.syncedBytes), max(size, n.syncedBytes)
	return low + c.rng.Int64N(high-low+1)
}

// lose turns page back into its synced bytes (zeros where there were none), after a random prefix when it is torn.
func (c *crash) lose(page, synced []byte) {
	from := 0
	if c.keepPercent > 0 && c.rng.IntN(4) == 0 {
		from = c.rng.IntN(len(page))
	}
	for i := from; i < len(page); i++ {
		if i < len(synced) {
			page[i] = synced[i]
		} else {
			page[i] = 0
		}
	}
}
