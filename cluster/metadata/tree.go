package metadata

import (
	"bytes"
	"cmp"
	"iter"
	"strings"

	"github.com/benbjohnson/immutable"
)

// tree is a sorted map of which every version stays as it is: a change copies only the path to it. The zero
// tree is empty. O orders its keys.
type tree[K, V any, O immutable.Comparer[K]] struct{ m *immutable.SortedMap[K, V] }

func (t tree[K, V, O]) find(key K) (V, bool) {
	if t.m == nil {
		var none V
		return none, false
	}
	return t.m.Get(key)
}

func (t tree[K, V, O]) get(key K) V {
	v, _ := t.find(key)
	return v
}

func (t tree[K, V, O]) len() int {
	if t.m == nil {
		return 0
	}
	return t.m.Len()
}

func (t *tree[K, V, O]) set(key K, value V) {
	if t.m == nil {
		var order O
		t.m = immutable.NewSortedMap[K, V](order)
	}
	t.m = t.m.Set(key, value)
}

func (t *tree[K, V, O]) delete(key K) {
	if t.m != nil {
		t.m = t.m.Delete(key)
	}
}

func (t tree[K, V, O]) all() iter.Seq2[K, V] { return t.iterate(nil) }

func (t tree[K, V, O]) iterate(from *K) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		if t.m == nil {
			return
		}
		it := t.m.Iterator()
		if from != nil {
			it.Seek(*from)
		}
		for !it.Done() {
			if k, v, _ := it.Next(); !yield(k, v) {
				return
			}
		}
	}
}

// floor returns the last key that is not after key; false when there is none.
func (t tree[K, V, O]) floor(key K) (last K, ok bool) {
	if t.m == nil {
		return last, false
	}
	if _, found := t.m.Get(key); found {
		return key, true
	}
	it := t.m.Iterator()
	it.Seek(key)
	if it.Done() {
		it.Last()
	} else {
		it.Prev()
	}
	if it.Done() {
		return last, false
	}
	last, _, ok = it.Prev()
	return last, ok
}

func (t tree[K, V, O]) keys() iter.Seq[K] {
	return func(yield func(K) bool) {
		for k := range t.all() {
			if !yield(k) {
				return
			}
		}
	}
}

func (t tree[K, V, O]) values() iter.Seq[V]            { return valuesOf(t.all()) }
func (t tree[K, V, O]) valuesFrom(start K) iter.Seq[V] { return valuesOf(t.iterate(&start)) }

func valuesOf[K, V any](pairs iter.Seq2[K, V]) iter.Seq[V] {
	return func(yield func(V) bool) {
		for _, v := range pairs {
			if !yield(v) {
				return
			}
		}
	}
}

// The orders of the trees' keys.
type (
	byName     struct{}
	byID       struct{}
	byUUID     struct{}
	byResource struct{}
	byScramKey struct{}
)

func (byName) Compare(a, b string) int { return strings.Compare(a, b) }
func (byID) Compare(a, b int32) int    { return cmp.Compare(a, b) }
func (byUUID) Compare(a, b UUID) int   { return bytes.Compare(a[:], b[:]) }

func (byResource) Compare(a, b ConfigResource) int {
	return cmp.Or(cmp.Compare(a.Type, b.Type), strings.Compare(a.Name, b.Name))
}

func (byScramKey) Compare(a, b ScramKey) int {
	return cmp.Or(strings.Compare(a.User, b.User), cmp.Compare(a.Mechanism, b.Mechanism))
}
