package sim

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// mutant is the program with one rule taken out of one file. finds are the invariants whose checks may notice:
// their numbers; "history", what clients saw; "ended", a process that ends by itself; "unhealed", a cluster that does
// not recover.
type mutant struct {
	name     string
	file     string // from the root of the module
	old, new string
	finds    string
	replicas bool // only the world of replicas, which moves leaders at will, finds it in bearable time
}

// and separates the places of a mutant that has several, in old and in new.
const and = "\x00"

// mutants must all be found: each shows that a check can fail. What is lost of a compacted log is found by 10, and of a
// group's, by 9 too: its generations begin anew.
var mutants = []mutant{
	{"a high watermark that does not wait for followers", "cluster/replica/followers.go",
		"if f.end < end && (s.mayBeInSync(f.id) || p.joining(f, logEnd)) {", "if logEnd < 0 {", "1 4 6 9 10 history", false},
	{"acknowledged before it is committed", "cluster/replica/append.go",
		"	case acks == AckAll:\n		return p.AwaitCommitted(a.LeaderEpoch, a.LastOffset+1, done)\n", "", "6 7 9 10 history", false},
	{"a high watermark that moves with too few in sync", "cluster/replica/followers.go",
		"!s.leads(p.nodeID) || len(s.isr) < s.minISR()", "!s.leads(p.nodeID)", "4", false},
	{"an ISR that was asked for does not count", "cluster/replica/followers.go",
		"slices.Contains(s.isr, id) || slices.Contains(s.proposed, id)", "slices.Contains(s.isr, id)", "1 4 5 6 9 10 history", true},
	{"followers do not truncate", "cluster/replica/follow.go",
		"to := min(leaders.EndOffset, log.EndOffset())\n", "to := log.EndOffset()\n", "1 3 5 6 9 10 history unhealed", false},
	{"a leader does not look whether a follower's log parts from its own", "cluster/replica/read.go",
		"if r.LastFetchedEpoch != NoEpoch {", "if false {", "1 3 5 6 9 10 history unhealed", false},
	{"leaders are elected from all replicas", "cluster/controller/partition_change.go",
		"return (slices.Contains(c.isr, id) || len(c.isr) == 0 && slices.Contains(c.elr, id)) && c.acceptable(id)", "return c.acceptable(id)", "1 2 4 5 6 7 9 10 history", false},
	{"a broken connection to the leader makes a leader", "cluster/replica/fetcher.go",
		"	if f.failures == 0 {\n", "	for _, followed := range f.parts {\n		s := *followed.state.Load()\n		s.leader, s.leaderEpoch = f.o.NodeID, s.leaderEpoch+1\n		followed.state.Store(&s)\n	}\n	if f.failures == 0 {\n", "2", false},
	// A zombie that is not fenced is given the epoch of the producer that took its id over. From then on two producers
	// share id, epoch and sequences: a batch of one is known again as the other's (7), and acknowledged at the offset
	// where the other's values are (6).
	{"a zombie commits", "coordinator/txn/end.go",
		"		return false, kerr.ProducerFenced\n", "		return false, nil\n", "6 7 history", false},
	{"a vote is not fsynced", "cluster/raftlog/quorumstate.go",
		"return vfs.ReplaceFile(fsys, path.Join(dir, quorumStateFile), \".tmp\", func", "return vfs.WriteFile(fsys, path.Join(dir, quorumStateFile), false, func", "ended", false},
	{"a repeated batch is appended again", "logstore/producer.go",
		"m.lastSeq == b.LastSequence() && m.firstSeq() == b.BaseSequence()", "false", "7 history", false},
	{"read_committed shows open transactions", "logstore/log.go",
		"o.LastStable = max(min(l.firstUnstable.Load(), o.HighWatermark), o.Start)", "o.LastStable = o.HighWatermark", "history", false},
	{"read_committed is not told what was aborted", "cluster/replica/read.go",
		"Aborted: r.Isolation == ReadCommitted,", "", "history", false},
	{"a flush that lacks something takes the replica offline", "cluster/replica/flush.go",
		"	case errors.Is(err, logstore.ErrOffline), errors.Is(err, logstore.ErrClosed):\n", "	case err != nil && !errors.Is(err, logstore.ErrBusy):\n", "4 5 6 unhealed", true},
	{"a follower tells of records that are not durable", "cluster/replica/follow.go",
		"	if s.owesFlush() {\n", "	if false {\n", "4", true},
}

const clusterSeeds, replicasSeeds = "60", "3000"

// TestMutants runs this package's own TestCluster on each mutant, which it must not survive.
func TestMutants(t *testing.T) {
	for i, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			overlay := m.overlay(t)
			if os.Getenv("SIM_MUTANTS") == "" && i >= fewMutants {
				t.Skip("make mutants tries it")
			}
			found := m.run(t, overlay)
			if found == "" {
				t.Fatal("not found")
			}
			if kind := kindOf(found); !slices.Contains(strings.Fields(m.finds), kind) {
				t.Errorf("found by %s, expected one of %s: %s", kind, m.finds, found)
			}
			t.Log(found)
		})
	}
}

// overlay writes the mutated file and the go command's list of replaced files, and returns the list.
func (m *mutant) overlay(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(root, m.file)
	source, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	pieces := strings.Split(m.new, and)
	for i, old := range strings.Split(m.old, and) {
		if bytes.Count(source, []byte(old)) != 1 {
			t.Fatalf("%s has changed: the mutation must find its place there once", m.file)
		}
		source = bytes.Replace(source, []byte(old), []byte(pieces[i]), 1)
	}
	dir := t.TempDir()
	mutated, list := filepath.Join(dir, "mutated.go"), filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(mutated, source, 0o600); err != nil {
		t.Fatal(err)
	}
	raw, _ := json.Marshal(map[string]any{"Replace": map[string]string{path: mutated}})
	if err := os.WriteFile(list, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	return list
}

var failure = regexp.MustCompile(`seed \d+[,:] .*|panic: .*|# grete.*`)

// run returns the line that tells what was found first, "" when nothing was.
func (m *mutant) run(t *testing.T, overlay string) string {
	t.Helper()
	world, test, seeds := ".", "^TestCluster$", clusterSeeds
	if m.replicas {
		world, test, seeds = "./replicas", "^TestReplication$", replicasSeeds
	}
	cmd := exec.Command("go", "test", "-overlay", overlay, "-run", test, "-count=1", "-timeout", "30m", world)
	cmd.Env = append(os.Environ(), "SIM_SEEDS="+seeds)
	out, err := cmd.CombinedOutput()
	if err == nil {
		return ""
	}
	found := failure.FindString(string(out))
	if found == "" || strings.HasPrefix(found, "#") {
		t.Fatalf("%v\n%s", err, out)
	}
	return found
}

var finding = regexp.MustCompile(`(?:: |^)(?:healed: |in the end: )?(\d+|history): `)

// kindOf is what a failure is to mutant.finds.
func kindOf(found string) string {
	switch m := finding.FindStringSubmatch(found); {
	case m != nil:
		return m[1]
	case strings.Contains(found, "ended by itself"):
		return "ended"
	}
	return "unhealed"
}

// directed mutants show in an interleaving or at a moment so rare that no world meets it in bearable time: the one test
// that arranges it must fail.
var directed = []struct {
	mutant
	room, test string
	race       bool // the interleaving needs the race detector's build
}{
	{mutant{name: "the first unstable offset is loaded before the high watermark", file: "logstore/log.go",
		old: "	o := Offsets{Start: l.StartOffset(), HighWatermark: l.HighWatermark()}\n	sched.Yield()\n	o.LastStable = max(min(l.firstUnstable.Load(), o.HighWatermark), o.Start)\n",
		new: "	unstable := l.firstUnstable.Load()\n	sched.Yield()\n	o := Offsets{Start: l.StartOffset(), HighWatermark: l.HighWatermark()}\n	o.LastStable = max(min(unstable, o.HighWatermark), o.Start)\n"},
		"cluster/replica", "TestReadersSeeNoOpenTransaction", true},
	{mutant{name: "an acknowledgement of any leadership", file: "cluster/replica/acks.go",
		old: "s := p.state.Load(); !s.stillLeads(p.nodeID, a.epoch)" + and + "		if !s.stillLeads(p.nodeID, a.epoch)",
		new: "s := p.state.Load(); !s.leads(p.nodeID)" + and + "		if !s.leads(p.nodeID)"},
		"cluster/replica", "TestAcknowledgementsAreOfTheirLeadership", false},
	// The worlds met it while their disks were quick; where writes are slow, a batch is rarely under way behind one
	// that is lost.
	{mutant{name: "any sequence is taken", file: "logstore/producer_check.go",
		old: "	if follows(last, first) {", new: "	if _ = last; true {"},
		"logstore", "TestProducerSequences", false},
	{mutant{name: "a failed directory overtakes the metadata", file: "cluster/replica/manager.go",
		old: "	m.applyMu.Lock()\n	defer m.applyMu.Unlock()\n	for p := range m.Partitions() {\n		p.notIn(dir)\n", new: "	for p := range m.Partitions() {\n		p.notIn(dir)\n"},
		"cluster/replica", "TestDirOfflineIsOrderedWithApply", false},
	{mutant{name: "a flush outlives its leadership", file: "cluster/replica/flush.go",
		old: "{ *f = flushState{era: f.era + 1} }" + and + "min(p.flush.due, f.log.EndOffset())" + and +
			"	case errors.Is(err, logstore.ErrOffline), errors.Is(err, logstore.ErrClosed):\n",
		new: "{}" + and + "p.flush.due" + and + "	case err != nil && !errors.Is(err, logstore.ErrBusy):\n"},
		"cluster/replica", "TestFlushesEndWithTheirLeadership", false},
	{mutant{name: "an overloaded shard refuses its own continuations", file: "coordinator/txn/shard.go",
		old: "Key: id, Continues: true,", new: "Key: id,"},
		"coordinator/txn", "TestOverloadedShardEndsItsTransactions", false},
}

// TestMutantsOfOneTest runs the one test on its mutant.
func TestMutantsOfOneTest(t *testing.T) {
	for _, m := range directed {
		t.Run(m.name, func(t *testing.T) {
			overlay := m.overlay(t)
			if os.Getenv("SIM_MUTANTS") == "" {
				t.Skip("make mutants tries it")
			}
			args := []string{"test", "-overlay", overlay, "-run", "^" + m.test + "$", "-count=1"}
			if m.race {
				args = append(args, "-race")
			}
			out, err := exec.Command("go", append(args, "grete/"+m.room)...).CombinedOutput()
			if err == nil || !strings.Contains(string(out), "--- FAIL: "+m.test) {
				t.Fatalf("not found: %v\n%s", err, out)
			}
		})
	}
}
