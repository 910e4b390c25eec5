package logstore

import (
	"errors"
	"reflect"
	"testing"

	"grete/internal/vfs"
)

func newTestTxnIndex(t testing.TB) (*txnIndex, vfs.FS) {
	t.Helper()
	fs := vfs.NewMem()
	return newTxnIndex(newFileCache(fs, 10, nil), 100, func() string { return "/x.txnindex" }), fs
}

func fillTxnIndex(t testing.TB, x *txnIndex, n int64) []AbortedTxn {
	t.Helper()
	var all []AbortedTxn
	for i := range n {
		txn := AbortedTxn{ProducerID: i, FirstOffset: 101 + 10*i, LastOffset: 105 + 10*i, LastStableOffset: 106 + 10*i}
		must(t, x.append(txn))
		all = append(all, txn)
	}
	return all
}

func TestTxnIndex(t *testing.T) {
	x, fs := newTestTxnIndex(t)
	if got, done, err := x.collect(nil, 0, 1000); len(got) != 0 || done || err != nil {
		t.Fatalf("empty: %v, %v, %v", got, done, err)
	}
	if ok, err := exists(fs, "/x.txnindex"); ok || err != nil {
		t.Fatal("an index without entries has a file")
	}
	all := fillTxnIndex(t, x, 200)
	must(t, x.sync())
	for _, c := range []struct {
		from, bound int64
		want        []AbortedTxn
		done        bool
	}{
		{0, 101, nil, true},
		{0, 102, all[:1], true},
		{105, 106, all[:1], true},
		{106, 112, all[1:2], true},
		{1000, 1030, all[90:93], true},
		{0, 1 << 40, all, false},
		{2096, 1 << 40, nil, false},
	} {
		got, done, err := x.collect(nil, c.from, c.bound)
		if err != nil || done != c.done || len(got) != len(c.want) || (len(got) > 0 && !reflect.DeepEqual(got, c.want)) {
			t.Errorf("[%d, %d): %d transactions, done %v, %v; want %d, %v", c.from, c.bound, len(got), done, err, len(c.want), c.done)
		}
	}
	if err := x.append(AbortedTxn{LastOffset: 2095}); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a marker that goes back: %v", err)
	}
}

func TestTxnIndexFormat(t *testing.T) {
	x, fs := newTestTxnIndex(t)
	must(t, x.append(AbortedTxn{ProducerID: 1, FirstOffset: 2, LastOffset: 103, LastStableOffset: 104}))
	data, err := readFile(fs, "/x.txnindex")
	must(t, err)
	want := "\x00\x00" + "\x00\x00\x00\x00\x00\x00\x00\x01" + "\x00\x00\x00\x00\x00\x00\x00\x02" +
		"\x00\x00\x00\x00\x00\x00\x00\x67" + "\x00\x00\x00\x00\x00\x00\x00\x68"
	if string(data) != want {
		t.Fatalf("%x", data)
	}
}

func TestTxnIndexTruncateAndReopen(t *testing.T) {
	x, fs := newTestTxnIndex(t)
	all := fillTxnIndex(t, x, 10)
	must(t, x.truncateTo(135)) // the fourth's marker
	reopened := newTxnIndex(x.cache, x.base, x.path)
	must(t, reopened.sanityCheck(200))
	for _, x := range []*txnIndex{x, reopened} {
		if got, _, err := x.collect(nil, 0, 1<<40); err != nil || !reflect.DeepEqual(got, all[:3]) {
			t.Fatalf("%v, %v", got, err)
		}
		if x.last != 125 {
			t.Fatalf("last %d", x.last)
		}
	}
	must(t, x.append(all[3]))
	must(t, x.reset())
	if got, _, err := x.collect(nil, 0, 1<<40); err != nil || len(got) != 0 {
		t.Fatalf("%v, %v", got, err)
	}
	x.forget()
	must(t, fs.Remove("/x.txnindex"))
	must(t, x.reset())
	must(t, x.truncateTo(0))
}

func TestTxnIndexSanity(t *testing.T) {
	good := func() []byte {
		data := appendTxnEntry(nil, AbortedTxn{1, 50, 105, 60})
		return appendTxnEntry(data, AbortedTxn{2, 60, 110, 111})
	}
	for name, c := range map[string]struct {
		damage func([]byte) []byte
		want   error
	}{
		"good":             {func(d []byte) []byte { return d }, nil},
		"cut entry":        {func(d []byte) []byte { return d[:40] }, nil},
		"version 1":        {func(d []byte) []byte { d[34] = 1; return d }, ErrCorrupt},
		"below the base":   {func(d []byte) []byte { d[18+7] = 99; return d }, ErrCorrupt},
		"markers go back":  {func(d []byte) []byte { d[34+18+7] = 105; return d }, ErrCorrupt},
		"negative version": {func(d []byte) []byte { d[0] = 0xff; return d }, ErrCorrupt},
		"above the end":    {func(d []byte) []byte { d[34+18+7] = 120; return d }, ErrCorrupt},
		"no first record":  {func(d []byte) []byte { d[10+7] = 105; return d }, ErrCorrupt},
		"begun too early":  {func(d []byte) []byte { d[34+10+7] = 59; return d }, ErrCorrupt},
		"stable too late":  {func(d []byte) []byte { d[34+26+7] = 112; return d }, ErrCorrupt},
		"stable goes back": {func(d []byte) []byte { d[34+26+7] = 59; return d }, ErrCorrupt},
	} {
		x, fs := newTestTxnIndex(t)
		must(t, writeFile(fs, "/x.txnindex", c.damage(good()), false))
		if err := x.sanityCheck(120); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzTxnIndex(f *testing.F) {
	f.Add(appendTxnEntry(appendTxnEntry(nil, AbortedTxn{1, 50, 105, 106}), AbortedTxn{2, 60, 110, 111}), int64(0), int64(200))
	f.Fuzz(func(t *testing.T, data []byte, from, bound int64) {
		x, fs := newTestTxnIndex(t)
		must(t, writeFile(fs, "/x.txnindex", data, false))
		if x.sanityCheck(1<<40) != nil {
			return
		}
		got, _, err := x.collect(nil, from, bound)
		must(t, err)
		for _, txn := range got {
			if txn.LastOffset < from || txn.FirstOffset >= bound {
				t.Fatalf("%+v is outside [%d, %d)", txn, from, bound)
			}
		}
		must(t, x.truncateTo(from))
		if all, _, err := x.collect(nil, from, 1<<62); err != nil || len(all) != 0 {
			t.Fatalf("left after truncation to %d: %v, %v", from, all, err)
		}
	})
}
