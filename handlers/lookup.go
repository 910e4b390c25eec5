package handlers

// lookup finds the position of keys seen before: by looking at all while they are few, which most requests are, then
// by a map, so that a request of many partitions costs no more than its size.
type lookup[K comparable] struct {
	keys []K
	at   map[K]int
}

const fewKeys = 16

// add returns the position of k, and whether it was there before.
func (l *lookup[K]) add(k K) (at int, seen bool) {
	if at, seen = l.find(k); seen {
		return at, true
	}
	l.keys = append(l.keys, k)
	if l.at != nil {
		l.at[k] = len(l.keys) - 1
	}
	return len(l.keys) - 1, false
}

func (l *lookup[K]) find(k K) (at int, seen bool) {
	if len(l.keys) > fewKeys {
		if l.at == nil {
			l.index()
		}
		at, seen = l.at[k]
		return at, seen
	}
	for i := range l.keys {
		if l.keys[i] == k {
			return i, true
		}
	}
	return -1, false
}

func (l *lookup[K]) index() {
	l.at = make(map[K]int, 2*len(l.keys))
	for i, k := range l.keys {
		l.at[k] = i
	}
}

// emptied is l without keys, for reuse.
func (l *lookup[K]) emptied() lookup[K] {
	clear(l.keys)
	return lookup[K]{keys: l.keys[:0]}
}
