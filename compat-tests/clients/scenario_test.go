package clients

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"
)

// can says what a client's own library is able to do; what it cannot is not asked of it.
type can struct {
	codecs     []string
	idempotent bool
	headers    bool
	groups     bool
	byTime     bool
	txns       bool
	nulls      bool // tells a null value from an empty one
}

var everything = can{codecs: []string{"none", "gzip", "snappy", "lz4", "zstd"}, idempotent: true, headers: true, groups: true, byTime: true, txns: true, nulls: true}

const (
	recordsPerTopic = 60
	partitions      = 3
	bigValueBytes   = 900 << 10
)

// baseTimeMs is the time of the first record: within the hour that a broker lets a clock differ.
var baseTimeMs = time.Now().Add(-10 * time.Minute).UnixMilli()

type scenario struct {
	t      *testing.T
	c      Client
	name   string
	can    can
	before map[string][]Record // what phase one wrote, for phase two
	half   bool                // phase one has passed
}

func (s *scenario) topic(kind string) string { return s.name + "-" + kind }

func (s *scenario) do(op Op) Reply {
	s.t.Helper()
	r, err := s.c.Do(op)
	if err != nil {
		s.t.Fatalf("%s: %s %s: %v", s.name, op.Op, op.Topic, err)
	}
	return r
}

// records makes n records over the partitions in turn, with keys, headers, an empty value and tombstones.
func (s *scenario) records(n int, tag string) []Record {
	var out []Record
	for i := range n {
		r := Record{Partition: int32(i % partitions), TimeMs: baseTimeMs + int64(i)*1000, Key: fmt.Appendf(nil, "key-%d", i%7)}
		switch {
		case i%10 == 9: // tombstone: Value stays null
		case i%10 == 8:
			r.Value = []byte{}
		default:
			r.Value = bytes.Repeat(fmt.Appendf(nil, "%s-%d ", tag, i), 20)
		}
		if s.can.headers && i%3 == 0 {
			r.Headers = [][2]string{{"trace", fmt.Sprint(i)}, {"trace", "again"}}
		}
		out = append(out, r)
	}
	return out
}

// phaseOne is everything before the broker is killed.
func (s *scenario) phaseOne() {
	s.before = map[string][]Record{}
	for _, codec := range s.can.codecs {
		s.roundTrip(codec, false)
	}
	if s.can.idempotent {
		s.roundTrip("idempotent", true)
	}
	if s.can.txns {
		s.transactions()
	}
	s.bigMessage()
	s.seekAndTime()
	if s.can.groups {
		s.rebalance()
		s.commitHalf()
	}
}

// phaseTwo is after kill -9 and a restart: what was acknowledged is there, and the group resumes where it committed.
func (s *scenario) phaseTwo() {
	for topic, want := range s.before {
		s.compare(topic, want)
	}
	if s.can.txns {
		s.readTransactions()
	}
	if s.can.txns && s.can.groups {
		s.resumeTransactions()
	}
	if s.can.groups {
		s.resume()
	}
}

// transactions are committed, aborted and committed, each with an offset of a group.
func (s *scenario) transactions() {
	topic := s.topic("txn")
	s.do(Op{Op: "create", Topic: topic, Partitions: partitions})
	for i, tag := range []string{"kept", "aborted", "more"} {
		s.do(Op{Op: "transact", TransactionalID: topic, Topic: topic, Group: s.topic("txn-group"), Offset: int64(i + 1), Commit: tag != "aborted",
			Records: s.records(recordsPerTxn, tag)})
	}
	s.readTransactions()
}

// resumeTransactions: the group is where the committed transactions left it.
func (s *scenario) resumeTransactions() {
	s.do(Op{Op: "join", Group: s.topic("txn-group"), Topic: s.topic("txn"), Member: "t"})
	const last = 10 // offset of the last record of each partition
	got := s.until("reading on", []string{"t"}, func(_ map[string][]int32, got []Record) bool {
		ends := map[int32]bool{}
		for _, r := range got {
			ends[r.Partition] = ends[r.Partition] || r.Offset == last
		}
		return len(ends) == partitions && ends[0] && ends[1] && ends[2]
	})
	for _, r := range got {
		if r.Partition == 0 && r.Offset < 3 {
			s.t.Fatalf("%s: offset 3 was committed with the last transaction, but %d is read again", s.name, r.Offset)
		}
	}
	s.do(Op{Op: "leave", Member: "t"})
}

const recordsPerTxn = 9 // three for each partition

// readTransactions: what was aborted is not there, and what was committed is at the offsets that are left for it: three
// records, a marker, the same of the aborted transaction, and again.
func (s *scenario) readTransactions() {
	topic := s.topic("txn")
	want := map[int64]string{0: "kept", 1: "kept", 2: "kept", 8: "more", 9: "more", 10: "more"}
	for p := range int32(partitions) {
		got := s.do(Op{Op: "consume", Topic: topic, Partition: p, Count: len(want), Committed: true}).Records
		if len(got) != len(want) {
			s.t.Fatalf("%s-%d: %d committed records, want %d", topic, p, len(got), len(want))
		}
		for _, r := range got {
			if tag := want[r.Offset]; tag == "" || len(r.Value) > 0 && !bytes.HasPrefix(r.Value, []byte(tag)) {
				s.t.Fatalf("%s-%d: %.20q at offset %d, want %q", topic, p, r.Value, r.Offset, tag)
			}
		}
	}
}

func (s *scenario) roundTrip(codec string, idempotent bool) {
	s.t.Helper()
	topic := s.topic(codec)
	s.do(Op{Op: "create", Topic: topic, Partitions: partitions})
	want := s.records(recordsPerTopic, codec)
	wire := codec
	if idempotent {
		wire = "none"
	}
	s.do(Op{Op: "produce", Topic: topic, Codec: wire, Idempotent: idempotent, Records: want})
	s.before[topic] = want
	s.compare(topic, want)
}

// compare reads each partition from its start and holds it to want.
func (s *scenario) compare(topic string, want []Record) {
	s.t.Helper()
	for p := range int32(partitions) {
		mine := ofPartition(want, p)
		got := s.do(Op{Op: "consume", Topic: topic, Partition: p, Offset: 0, Count: len(mine)}).Records
		if len(got) != len(mine) {
			s.t.Fatalf("%s-%d: %d records, want %d", topic, p, len(got), len(mine))
		}
		for i := range mine {
			w := mine[i]
			w.Offset = int64(i)
			if !s.can.nulls && len(w.Value) == 0 {
				w.Value = got[i].Value[:0]
			}
			if !same(got[i], w) {
				s.t.Fatalf("%s-%d record %d:\n got %+v\nwant %+v", topic, p, i, got[i], w)
			}
		}
	}
}

func ofPartition(records []Record, p int32) []Record {
	return slices.DeleteFunc(slices.Clone(records), func(r Record) bool { return r.Partition != p })
}

func same(a, b Record) bool {
	return a.Partition == b.Partition && a.Offset == b.Offset && a.TimeMs == b.TimeMs &&
		bytes.Equal(a.Key, b.Key) && (a.Key == nil) == (b.Key == nil) &&
		bytes.Equal(a.Value, b.Value) && (a.Value == nil) == (b.Value == nil) && slices.Equal(a.Headers, b.Headers)
}

func (s *scenario) bigMessage() {
	topic := s.topic("big")
	s.do(Op{Op: "create", Topic: topic, Partitions: 1})
	value := bytes.Repeat([]byte("0123456789abcde\n"), bigValueBytes/16)
	s.do(Op{Op: "produce", Topic: topic, Codec: "none", Records: []Record{{TimeMs: baseTimeMs, Key: []byte("big"), Value: value}}})
	got := s.do(Op{Op: "consume", Topic: topic, Count: 1}).Records
	if len(got) != 1 || !bytes.Equal(got[0].Value, value) {
		s.t.Fatalf("%s: the 900 KB message did not come back", topic)
	}
}

func (s *scenario) seekAndTime() {
	topic := s.topic("none")
	got := s.do(Op{Op: "consume", Topic: topic, Partition: 1, Offset: 7, Count: 3}).Records
	if len(got) != 3 || got[0].Offset != 7 {
		s.t.Fatalf("%s: seek to 7 gave %+v", topic, got)
	}
	if !s.can.byTime {
		return
	}
	// Partition 1 holds records 1, 4, 7, … of a second's distance: half a second after its fifth is its sixth.
	at := baseTimeMs + (1+3*4)*1000 + 500
	if r := s.do(Op{Op: "offsetForTime", Topic: topic, Partition: 1, TimeMs: at}); r.Offset != 5 {
		s.t.Fatalf("%s: offset for time %d is %d, want 5", topic, at, r.Offset)
	}
}

// until polls members in turn until done, or fails after a minute.
func (s *scenario) until(what string, members []string, done func(assigned map[string][]int32, got []Record) bool) []Record {
	s.t.Helper()
	assigned := map[string][]int32{}
	var got []Record
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		for _, m := range members {
			r := s.do(Op{Op: "poll", Member: m, WaitMs: 200})
			assigned[m] = r.Assigned
			got = append(got, r.Records...)
		}
		if done(assigned, got) {
			return got
		}
	}
	s.t.Fatalf("%s: %s did not happen: assigned %v, %d records", s.name, what, assigned, len(got))
	return nil
}

// rebalance: one member has all partitions, shares them with a second, and gets them back.
func (s *scenario) rebalance() {
	topic, group := s.topic("none"), s.topic("rebalance")
	s.do(Op{Op: "join", Group: group, Topic: topic, Member: "a"})
	s.until("first assignment", []string{"a"}, func(as map[string][]int32, _ []Record) bool { return len(as["a"]) == partitions })
	s.do(Op{Op: "join", Group: group, Topic: topic, Member: "b"})
	s.until("sharing", []string{"a", "b"}, func(as map[string][]int32, _ []Record) bool {
		all := append(slices.Clone(as["a"]), as["b"]...)
		slices.Sort(all)
		return len(as["a"]) > 0 && len(as["b"]) > 0 && slices.Equal(all, []int32{0, 1, 2})
	})
	s.do(Op{Op: "leave", Member: "b"})
	s.until("taking back", []string{"a"}, func(as map[string][]int32, _ []Record) bool { return len(as["a"]) == partitions })
	s.do(Op{Op: "leave", Member: "a"})
}

// commitHalf leaves a group with everything read and committed, then writes more that it has not seen.
func (s *scenario) commitHalf() {
	topic, group := s.topic("group"), s.topic("resume")
	s.do(Op{Op: "create", Topic: topic, Partitions: partitions})
	first := s.records(recordsPerTopic, "first")
	s.do(Op{Op: "produce", Topic: topic, Codec: "none", Records: first})
	s.do(Op{Op: "join", Group: group, Topic: topic, Member: "c"})
	s.until("reading all", []string{"c"}, func(_ map[string][]int32, got []Record) bool { return len(got) >= len(first) })
	s.do(Op{Op: "commit", Member: "c"})
	s.do(Op{Op: "leave", Member: "c"})
	s.do(Op{Op: "produce", Topic: topic, Codec: "none", Records: s.records(partitions, "second")})
}

// resume: after the restart the group gets what it had not committed, and nothing else.
func (s *scenario) resume() {
	s.do(Op{Op: "join", Group: s.topic("resume"), Topic: s.topic("group"), Member: "d"})
	got := s.until("resuming", []string{"d"}, func(_ map[string][]int32, got []Record) bool { return len(got) >= partitions })
	if len(got) != partitions {
		s.t.Fatalf("%s: resumed with %d records, want %d", s.name, len(got), partitions)
	}
	for _, r := range got {
		if r.Offset != recordsPerTopic/partitions {
			s.t.Fatalf("%s: resumed at offset %d of partition %d", s.name, r.Offset, r.Partition)
		}
	}
	s.do(Op{Op: "leave", Member: "d"})
}
