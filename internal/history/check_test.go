package history

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// story builds a history: each call is one operation, one nanosecond after the other.
type story struct {
	ops []Op
	ns  int64
}

func (s *story) add(op Op) *story {
	op.BeganNs, op.EndedNs = s.ns, s.ns+1
	s.ns += 2
	s.ops = append(s.ops, op)
	return s
}

// long makes the last operation end only after n more.
func (s *story) long(n int64) *story {
	s.ops[len(s.ops)-1].EndedNs += 2 * n
	return s
}

func part(id int32) Partition { return Partition{"t", id} }

// keyed is a record of a compacted topic.
func keyed(offset int64, key, value string) Record { return Record{part(0), offset, value, key} }

func rec(id int32, offset int64, value string) Record {
	return Record{Partition: part(id), Offset: offset, Value: value}
}

func (s *story) producer(name string, g Guarantee) *story {
	return s.add(Op{Kind: Client, Client: name, Guarantee: g})
}

func (s *story) reader(name string, readCommitted bool) *story {
	return s.add(Op{Kind: Client, Client: name, Committed: readCommitted})
}

func (s *story) send(client, txn string, o Outcome, r Record) *story {
	return s.add(Op{Kind: Send, Client: client, Txn: txn, Outcome: o, At: &r})
}

func (s *story) copied(client, txn, of string, r Record) *story {
	return s.add(Op{Kind: Send, Client: client, Txn: txn, Outcome: OK, At: &r, CopyOf: of})
}

func (s *story) end(client, txn string, commit bool, o Outcome, offsets ...Position) *story {
	return s.add(Op{Kind: End, Client: client, Txn: txn, Commit: commit, Outcome: o, Group: "g", Offsets: offsets})
}

func (s *story) poll(client string, rs ...Record) *story {
	return s.add(Op{Kind: Poll, Client: client, Records: rs})
}

func (s *story) commit(group string, o Outcome, id int32, offset int64) *story {
	return s.add(Op{Kind: Commit, Client: "member", Group: group, Outcome: o, Offsets: []Position{{part(id), offset}}})
}

func (s *story) assign(client, group string, id int32, offset int64) *story {
	return s.add(Op{Kind: Assign, Client: client, Group: group, Offsets: []Position{{part(id), offset}}})
}

// final is a reader of partition 0 (and more) to their ends, which are those of the last record of each.
func (s *story) final(name string, readCommitted bool, ends map[int32]int64, rs ...Record) *story {
	s.reader(name, readCommitted)
	s.ops[len(s.ops)-1].Note = "final"
	began := s.ns
	s.poll(name, rs...)
	op := Op{Kind: Final, Client: name, Outcome: OK}
	for id, end := range ends {
		op.Offsets = append(op.Offsets, Position{part(id), end})
	}
	s.add(op)
	s.ops[len(s.ops)-1].BeganNs = began
	return s
}

func start() *story {
	return new(story).producer("i", Idempotent).producer("p", Plain).producer("x", Transactional).reader("u", false).reader("c", true)
}

// ends0 says that partition 0 ends at n.
func ends0(n int64) map[int32]int64 { return map[int32]int64{0: n} }

// anomalies has, for each class, the shortest history that shows it, and nothing else.
var anomalies = []struct {
	name string
	want Class
	s    *story
}{
	{"acked, then gone from the end", Lost, start().send("i", "", OK, rec(0, 0, "a")).final("f", false, ends0(0))},
	{"committed and lost for read_committed", Lost, start().send("x", "t1", OK, rec(0, 0, "a")).end("x", "t1", true, OK).final("f", true, ends0(2))},
	{"committed and lost for read_uncommitted", Lost, start().send("x", "t1", OK, rec(0, 0, "a")).end("x", "t1", true, OK).final("f", false, ends0(2))},
	{"compacted, and no later value of the key", Lost, start().send("i", "", OK, keyed(0, "k", "a")).send("i", "", OK, keyed(1, "l", "b")).
		final("f", false, ends0(2), keyed(1, "l", "b"))},
	{"compacted in favour of an earlier value", Lost, start().send("i", "", OK, keyed(0, "k", "a")).send("i", "", OK, keyed(1, "k", "b")).
		final("f", false, ends0(2), keyed(0, "k", "a"))},
	{"compacted in favour of an aborted value", Lost, start().send("i", "", OK, keyed(0, "k", "a")).send("x", "t1", OK, keyed(1, "k", "b")).
		end("x", "t1", false, OK).final("f", true, ends0(3))},
	{"idempotent value twice", Duplicate, start().send("i", "", OK, rec(0, 0, "a")).final("f", false, ends0(2), rec(0, 0, "a"), rec(0, 1, "a"))},
	{"idempotent value twice, ack never came", Duplicate, start().send("i", "", Unknown, rec(0, 0, "a")).final("f", false, ends0(2), rec(0, 0, "a"), rec(0, 1, "a"))},
	{"acked at one offset, read at another", Duplicate, start().send("i", "", OK, rec(0, 0, "a")).send("i", "", OK, rec(0, 1, "b")).
		poll("u", rec(0, 2, "a"))},
	{"two readers differ", Inconsistent, start().send("p", "", Unknown, rec(0, 0, "a")).send("p", "", Unknown, rec(0, 0, "b")).
		poll("u", rec(0, 0, "a")).poll("c", rec(0, 0, "b"))},
	{"two acks at one offset", Inconsistent, start().send("p", "", OK, rec(0, 0, "a")).long(2).send("p", "", OK, rec(0, 0, "b"))},
	{"an offset without record", Hole, start().send("i", "", OK, rec(0, 0, "a")).send("i", "", OK, rec(0, 2, "b")).
		final("f", false, ends0(3), rec(0, 0, "a"), rec(0, 2, "b"))},
	{"nothing at the start", Hole, start().send("i", "", OK, rec(0, 1, "a")).final("f", false, ends0(2), rec(0, 1, "a"))},
	{"nothing at the end", Hole, start().send("i", "", OK, rec(0, 0, "a")).final("f", false, ends0(2), rec(0, 0, "a"))},
	{"never sent", Phantom, start().poll("u", rec(0, 0, "z"))},
	{"sent to another partition", Phantom, start().send("p", "", Unknown, rec(1, 0, "a")).poll("u", rec(0, 0, "a"))},
	{"refused and there", FailedRead, start().send("p", "", Fail, rec(0, 0, "a")).poll("u", rec(0, 0, "a"))},
	{"aborted and read", AbortedRead, start().send("x", "t1", OK, rec(0, 0, "a")).end("x", "t1", false, OK).poll("c", rec(0, 0, "a"))},
	{"abort of unknown fate and read", AbortedRead, start().send("x", "t1", OK, rec(0, 0, "a")).end("x", "t1", false, Unknown).poll("c", rec(0, 0, "a"))},
	{"crashed before a commit and read", AbortedRead, start().send("x", "t1", OK, rec(0, 0, "a")).add(Op{Kind: Crash, Client: "x"}).poll("c", rec(0, 0, "a"))},
	{"fenced commit and read", AbortedRead, start().send("x", "t1", OK, rec(0, 0, "a")).end("x", "t1", true, Fail).poll("c", rec(0, 0, "a"))},
	{"read before the commit", Precommitted, start().send("x", "t1", OK, rec(0, 0, "a")).poll("c", rec(0, 0, "a")).end("x", "t1", true, OK)},
	{"half of an unknown commit", Torn, start().send("x", "t1", OK, rec(0, 0, "a")).send("x", "t1", OK, rec(1, 0, "b")).end("x", "t1", true, Unknown).
		final("f", true, map[int32]int64{0: 2, 1: 2}, rec(0, 0, "a"))},
	{"output without offsets", Torn, start().send("i", "", OK, rec(0, 0, "a")).copied("x", "t1", "a", rec(1, 0, "a'")).
		end("x", "t1", true, OK, Position{part(0), 0}).final("f", true, map[int32]int64{0: 1, 1: 2}, rec(0, 0, "a"), rec(1, 0, "a'"))},
	{"offsets without output", LostCopy, start().send("i", "", OK, rec(0, 0, "a")).end("x", "t1", true, OK, Position{part(0), 1}).
		final("f", true, ends0(1), rec(0, 0, "a"))},
	{"copied twice", DuplicateCopy, start().send("i", "", OK, rec(0, 0, "a")).copied("x", "t1", "a", rec(1, 0, "a'")).end("x", "t1", true, OK, Position{part(0), 1}).
		copied("x", "t2", "a", rec(1, 2, "a''")).end("x", "t2", true, OK, Position{part(0), 1}).
		final("f", true, map[int32]int64{0: 1, 1: 4}, rec(0, 0, "a"), rec(1, 0, "a'"), rec(1, 2, "a''"))},
	{"copied in another order", ReorderedCopies, start().send("i", "", OK, rec(0, 0, "a")).send("i", "", OK, rec(0, 1, "b")).
		copied("x", "t1", "b", rec(1, 0, "b'")).copied("x", "t1", "a", rec(1, 1, "a'")).end("x", "t1", true, OK, Position{part(0), 2}).
		final("f", true, map[int32]int64{0: 2, 1: 3}, rec(0, 0, "a"), rec(0, 1, "b"), rec(1, 0, "b'"), rec(1, 1, "a'"))},
	{"skip between polls", PollSkip, start().send("i", "", OK, rec(0, 0, "a")).send("i", "", OK, rec(0, 1, "b")).send("i", "", OK, rec(0, 2, "d")).
		poll("u", rec(0, 0, "a")).poll("u", rec(0, 2, "d"))},
	{"skip after a seek", PollSkip, start().send("i", "", OK, rec(0, 0, "a")).send("i", "", OK, rec(0, 1, "b")).assign("u", "", 0, 0).poll("u", rec(0, 1, "b"))},
	{"skip within a poll", InternalPollSkip, start().send("i", "", OK, rec(0, 0, "a")).send("i", "", OK, rec(0, 1, "b")).send("i", "", OK, rec(0, 2, "d")).
		poll("u", rec(0, 0, "a"), rec(0, 2, "d"))},
	{"committed value skipped", PollSkip, start().send("x", "t1", OK, rec(0, 0, "a")).send("x", "t1", OK, rec(0, 1, "b")).end("x", "t1", true, OK).
		reader("c2", true).poll("c2", rec(0, 0, "a"), rec(0, 1, "b")).assign("c", "", 0, 0).poll("c", rec(0, 1, "b"))},
	{"back between polls", PollBack, start().send("i", "", OK, rec(0, 0, "a")).send("i", "", OK, rec(0, 1, "b")).poll("u", rec(0, 0, "a"), rec(0, 1, "b")).
		poll("u", rec(0, 1, "b"))},
	{"back within a poll", InternalPollBack, start().send("i", "", OK, rec(0, 0, "a")).poll("u", rec(0, 0, "a"), rec(0, 0, "a"))},
	{"sends back", SendBack, start().send("i", "", OK, rec(0, 1, "a")).long(2).send("i", "", OK, rec(0, 0, "b"))},
	{"sends back in a transaction", InternalSendBack, start().send("x", "t1", OK, rec(0, 1, "a")).long(2).send("x", "t1", OK, rec(0, 0, "b"))},
	{"sent after another's end, before it in the log", Reordered, start().send("p", "", OK, rec(0, 1, "a")).send("p", "", OK, rec(0, 0, "b"))},
	{"sent after a read beyond", Reordered, start().send("p", "", Unknown, rec(0, 0, "a")).poll("u", rec(0, 1, "a")).send("p", "", OK, rec(0, 0, "b"))},
	{"commit forgotten", LostCommit, start().commit("g", OK, 0, 5).assign("u", "g", 0, 0)},
	{"older commit came back", LostCommit, start().commit("g", OK, 0, 3).commit("g", OK, 0, 5).assign("u", "g", 0, 3)},
	{"offset nobody committed", LostCommit, start().commit("g", OK, 0, 3).assign("u", "g", 0, 4)},
	{"refused commit took effect", LostCommit, start().commit("g", Fail, 0, 3).assign("u", "g", 0, 3)},
	{"aborted transaction's offsets", LostCommit, start().commit("g", OK, 0, 1).end("x", "t1", false, OK, Position{part(0), 3}).assign("u", "g", 0, 3)},
	{"the end was never reached", Stuck, start().add(Op{Kind: Final, Client: "c", Outcome: Fail, Note: "at 3 of 5"})},
}

func TestEachAnomalyIsFound(t *testing.T) {
	found := map[Class]bool{}
	for _, c := range anomalies {
		t.Run(c.name, func(t *testing.T) {
			r := Check(c.s.ops)
			if r.Found[c.want] == 0 || len(r.Found) != 1 {
				t.Fatalf("want %q alone:\n%v", c.want, r)
			}
		})
		found[c.want] = true
	}
	for _, class := range []Class{Lost, Duplicate, Inconsistent, Hole, Phantom, FailedRead, AbortedRead, Precommitted, Torn, LostCopy, DuplicateCopy, ReorderedCopies,
		PollSkip, InternalPollSkip, PollBack, InternalPollBack, SendBack, InternalSendBack, Reordered, LostCommit, Stuck} {
		if !found[class] {
			t.Errorf("no history shows %q", class)
		}
	}
}

// clean are histories with what may happen in a sound cluster.
var clean = map[string]*story{
	"nothing": start(),
	"a plain producer's retry, twice in the log": start().send("p", "", OK, rec(0, 1, "a")).final("f", false, ends0(2), rec(0, 0, "a"), rec(0, 1, "a")),
	"unknown sends, one there and one not": start().send("i", "", Unknown, rec(0, 0, "a")).send("i", "", Unknown, rec(0, 0, "b")).
		final("f", false, ends0(1), rec(0, 0, "b")),
	"refused and absent":                  start().send("p", "", Fail, rec(0, 0, "a")).final("f", false, ends0(0)),
	"aborted, seen by read_uncommitted":   start().send("x", "t1", OK, rec(0, 0, "a")).end("x", "t1", false, OK).poll("u", rec(0, 0, "a")).final("f", true, ends0(2)),
	"open, seen by read_uncommitted":      start().send("x", "t1", OK, rec(0, 0, "a")).poll("u", rec(0, 0, "a")).end("x", "t1", true, OK),
	"unknown commit that came":            start().send("x", "t1", OK, rec(0, 0, "a")).end("x", "t1", true, Unknown).final("f", true, ends0(2), rec(0, 0, "a")),
	"unknown commit that did not come":    start().send("x", "t1", OK, rec(0, 0, "a")).end("x", "t1", true, Unknown).final("f", true, ends0(2)),
	"read while the commit runs":          start().send("x", "t1", OK, rec(0, 0, "a")).end("x", "t1", true, OK).long(2).poll("c", rec(0, 0, "a")),
	"past an aborted value and a marker":  start().send("x", "t1", OK, rec(0, 0, "a")).end("x", "t1", false, OK).send("i", "", OK, rec(0, 2, "b")).assign("c", "", 0, 0).poll("c", rec(0, 2, "b")),
	"concurrent sends in the other order": start().send("p", "", OK, rec(0, 1, "a")).long(2).send("p", "", OK, rec(0, 0, "b")),
	"sent after a final reader began":     start().final("f", false, ends0(0)).send("i", "", OK, rec(0, 0, "a")),
	"back after a seek":                   start().send("i", "", OK, rec(0, 0, "a")).poll("u", rec(0, 0, "a")).assign("u", "", 0, 0).poll("u", rec(0, 0, "a")),
	"compacted in favour of a later value": start().send("i", "", OK, keyed(0, "k", "a")).send("i", "", OK, keyed(1, "k", "b")).assign("u", "", 0, 0).
		poll("u", keyed(1, "k", "b")).final("f", false, ends0(2), keyed(1, "k", "b")),
	"half of a transaction compacted": start().send("x", "t1", OK, keyed(0, "k", "a")).send("x", "t1", OK, keyed(1, "l", "b")).end("x", "t1", true, Unknown).
		send("i", "", OK, keyed(3, "k", "c")).final("f", true, ends0(4), keyed(1, "l", "b"), keyed(3, "k", "c")),
	"first member":                         start().assign("u", "g", 0, 0),
	"unknown commit took effect":           start().commit("g", OK, 0, 3).commit("g", Unknown, 0, 5).assign("u", "g", 0, 5),
	"unknown commit did not":               start().commit("g", OK, 0, 3).commit("g", Unknown, 0, 5).assign("u", "g", 0, 3),
	"commit concurrent with an assignment": start().commit("g", OK, 0, 3).commit("g", OK, 0, 5).long(2).assign("u", "g", 0, 3),
	"copied once": start().send("i", "", OK, rec(0, 0, "a")).copied("x", "t1", "a", rec(1, 0, "a'")).end("x", "t1", false, OK).
		copied("x", "t2", "a", rec(1, 2, "a''")).end("x", "t2", true, OK, Position{part(0), 1}).assign("c", "g", 0, 1).
		final("f", true, map[int32]int64{0: 1, 1: 4}, rec(0, 0, "a"), rec(1, 2, "a''")),
}

func TestSoundHistoriesPass(t *testing.T) {
	for name, s := range clean {
		t.Run(name, func(t *testing.T) {
			if r := Check(s.ops); !r.OK() {
				t.Fatal(r)
			}
		})
	}
}

func TestHistoryFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "h.jsonl")
	r, err := Create(path)
	if err != nil {
		t.Fatal(err)
	}
	var want []Op
	for _, c := range anomalies {
		want = append(want, c.s.ops...)
	}
	for _, op := range want {
		r.Record(op)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := Load(path)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("%d operations, %v; want %d", len(got), err, len(want))
	}
}

func TestBadHistoryFileIsRefused(t *testing.T) {
	for line, want := range map[string]string{
		`{"kind":"sned"}`: "unknown kind", `{"kind":"send","outcome":"ok"}`: "nothing", `{"kind":"end","outcome":"ok"}`: "no transaction",
		`{"kind":"commit","outcome":"perhaps"}`: "unknown outcome", `{"kind":"poll"`: "operation 1",
	} {
		path := filepath.Join(t.TempDir(), "h.jsonl")
		if err := writeFile(path, line); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", line, err)
		}
	}
}

func TestReportKeepsFewExamples(t *testing.T) {
	s := start()
	for i := range 1000 {
		s.poll("u", rec(0, int64(i), fmt.Sprint("z", i)))
	}
	r := Check(s.ops)
	if r.Found[Phantom] != 1000 || len(r.Examples[Phantom]) != examplesPerClass {
		t.Fatal(r)
	}
}

func writeFile(path, text string) error { return os.WriteFile(path, []byte(text), 0o644) }
