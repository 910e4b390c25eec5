package history

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Class of an anomaly.
type Class string

// What Check finds.
const (
	Lost             Class = "lost write"            // acknowledged (and committed), and a final reader did not see it
	Duplicate        Class = "duplicate"             // one value of an idempotent producer at two offsets
	Inconsistent     Class = "inconsistent offset"   // two values at one offset
	Hole             Class = "hole"                  // an offset without a record where there were no transactions
	Phantom          Class = "phantom"               // a value that nobody sent, or that was sent elsewhere
	FailedRead       Class = "read of a failed send" // a send that was refused is there
	AbortedRead      Class = "aborted read"          // read_committed showed a value whose transaction cannot have committed
	Precommitted     Class = "precommitted read"     // read_committed showed a value before its commit was asked for
	Torn             Class = "torn transaction"      // a part of a transaction is there, another part is not
	LostCopy         Class = "lost copy"             // offsets were committed, the copies that belong to them are not there
	DuplicateCopy    Class = "duplicate copy"        // a value was passed on twice
	ReorderedCopies  Class = "reordered copies"      // values were passed on in another order
	PollSkip         Class = "poll skip"             // a consumer went past a visible value, from one poll to the next
	InternalPollSkip Class = "internal poll skip"    // the same within one poll
	PollBack         Class = "nonmonotonic poll"     // a consumer went back without a seek
	InternalPollBack Class = "internal nonmonotonic poll"
	SendBack         Class = "nonmonotonic send" // a producer's later send got a lower offset
	InternalSendBack Class = "internal nonmonotonic send"
	Reordered        Class = "reordered write" // a send that began after another had ended, or had been read, got a lower offset
	LostCommit       Class = "lost offset commit"
	Stuck            Class = "stuck reader" // a final reader did not reach the end: the last stable offset does not advance
)

const examplesPerClass = 5

// Report is what Check found.
type Report struct {
	Found    map[Class]int
	Examples map[Class][]string
	Stats    Stats
}

// Stats say how much a history says: a clean history of nothing proves nothing.
type Stats struct {
	Sends, Acked, Unknown, Read, Committed, Aborted, Copies, Crashes, Faults int
	FinalReaders                                                             int
	Replaced                                                                 int // acknowledged values that compaction took away, a later one of the key being there
}

func newReport() *Report { return &Report{Found: map[Class]int{}, Examples: map[Class][]string{}} }

func (r *Report) add(c Class, format string, args ...any) {
	r.Found[c]++
	if len(r.Examples[c]) < examplesPerClass {
		r.Examples[c] = append(r.Examples[c], fmt.Sprintf(format, args...))
	}
}

// OK means no anomaly.
func (r *Report) OK() bool { return len(r.Found) == 0 }

func (r *Report) String() string {
	var b strings.Builder
	s := r.Stats
	fmt.Fprintf(&b, "%d sends (%d acked, %d unknown), %d records read, transactions %d committed %d aborted, %d copies, %d client crashes, %d faults, %d final readers, %d values compacted away\n",
		s.Sends, s.Acked, s.Unknown, s.Read, s.Committed, s.Aborted, s.Copies, s.Crashes, s.Faults, s.FinalReaders, s.Replaced)
	for _, c := range slices.Sorted(maps.Keys(r.Found)) {
		fmt.Fprintf(&b, "%s: %d\n", c, r.Found[c])
		for _, e := range r.Examples[c] {
			fmt.Fprintf(&b, "    %s\n", e)
		}
	}
	if r.OK() {
		b.WriteString("no anomaly\n")
	}
	return b.String()
}
