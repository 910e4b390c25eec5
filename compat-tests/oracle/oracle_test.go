package oracle

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"math/rand/v2"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"grete/compat-tests/kafka"
)

const recordingFile = "testdata/kafka-4.4.0.json.gz"

// properties of every broker that the scenarios run against: Kafka's defaults but for what one node or a quick run needs.
var properties = map[string]string{
	"offsets.topic.num.partitions":                     "4",
	"transaction.state.log.num.partitions":             "4",
	"offsets.topic.replication.factor":                 "1",
	"transaction.state.log.replication.factor":         "1",
	"transaction.state.log.min.isr":                    "1",
	"share.coordinator.state.topic.replication.factor": "1",
	"share.coordinator.state.topic.min.isr":            "1",
	"group.initial.rebalance.delay.ms":                 "0",
	"log.retention.ms":                                 "-1", // the records of scenarios are old
}

func start(t *testing.T, name string, launch func(context.Context, kafka.Options) (*kafka.Broker, error)) Target {
	t.Helper()
	return startWith(t, name, launch, nil)
}

// startWith starts a broker with properties beside those of every other.
func startWith(t *testing.T, name string, launch func(context.Context, kafka.Options) (*kafka.Broker, error), more map[string]string, listeners ...string) Target {
	t.Helper()
	return startOn(t, name, kafka.Options{Listeners: listeners}, launch, more)
}

// startOn is startWith with a port or listeners that opts names.
func startOn(t *testing.T, name string, opts kafka.Options, launch func(context.Context, kafka.Options) (*kafka.Broker, error), more map[string]string) Target {
	t.Helper()
	dir := t.TempDir()
	all := maps.Clone(properties)
	maps.Copy(all, more)
	opts.Dir, opts.Properties = dir, all
	b, err := launch(context.Background(), opts)
	kafka.SkipOrFail(t, err)
	t.Cleanup(func() {
		if err := b.Stop(); err != nil {
			t.Error(err)
		}
	})
	target := Target{Name: name, Addr: b.Addr, Dir: dir}
	if err := Warm(target); err != nil {
		t.Fatal(err)
	}
	return target
}

// TestShow prints transcripts: ORACLE_SHOW is a pattern of scenario names, ORACLE_ADDR a running broker (without it,
// Kafka is started).
func TestShow(t *testing.T) {
	pattern := os.Getenv("ORACLE_SHOW")
	if pattern == "" {
		t.Skip("set ORACLE_SHOW to a pattern of scenario names")
	}
	target := Target{Name: "running", Addr: os.Getenv("ORACLE_ADDR")}
	if target.Addr == "" {
		target = start(t, "kafka", kafka.StartApache)
	} else if err := Warm(target); err != nil {
		t.Fatal(err)
	}
	for _, sc := range matching(t, pattern) {
		begin := time.Now()
		steps := Run(target, sc)
		t.Logf("%s, %v", sc.Name, time.Since(begin).Round(time.Millisecond))
		for _, st := range steps {
			answer, _ := json.Marshal(st.Answer)
			t.Logf("  %s %s: %s", st.Conn, st.Request, answer)
		}
	}
}

func matching(t *testing.T, pattern string) (out []Scenario) {
	re, err := regexp.Compile(pattern)
	if err != nil {
		t.Fatal(err)
	}
	for _, sc := range All() {
		if re.MatchString(sc.Name) {
			out = append(out, sc)
		}
	}
	return out
}

// TestRecord records Kafka's answers: all anew, or with ORACLE_ONLY those of the scenarios that match it.
func TestRecord(t *testing.T) {
	if os.Getenv("ORACLE_RECORD") == "" {
		t.Skip("set ORACLE_RECORD=1 to record Kafka's answers anew")
	}
	recording := Transcripts{}
	if os.Getenv("ORACLE_ONLY") != "" {
		var err error
		if recording, err = LoadRecording(recordingFile); err != nil {
			t.Fatal(err)
		}
	}
	begin := time.Now()
	got := RunAll(start(t, "kafka", kafka.StartApache), matching(t, os.Getenv("ORACLE_ONLY")))
	t.Logf("%d scenarios in %v", len(got), time.Since(begin).Round(time.Second))
	reportStops(t, got)
	maps.Copy(recording, got)
	names := map[string]bool{}
	for _, sc := range All() {
		names[sc.Name] = true
	}
	maps.DeleteFunc(recording, func(name string, _ []Step) bool { return !names[name] })
	if err := SaveRecording(recordingFile, recording); err != nil {
		t.Fatal(err)
	}
}

// TestGrete compares our broker with the recording.
func TestGrete(t *testing.T) {
	want, err := LoadRecording(recordingFile)
	if err != nil {
		t.Fatal(err)
	}
	scenarios := matching(t, os.Getenv("ORACLE_ONLY"))
	got := RunAll(start(t, "grete", kafka.StartGrete), scenarios)
	unexpected, wording, err := Sift(CompareAll(scenarios, want, got))
	if err != nil && len(scenarios) == len(want) {
		t.Error(err)
	}
	report(t, scenarios, unexpected)
	t.Logf("%d scenarios; in %d places only our words differ:\n%s", len(scenarios), len(wording), strings.Join(Fold(wording), "\n"))
}

// TestRounds plays the scenarios ORACLE_ROUNDS times on one broker, in an order that changes: none may depend on what
// others did, or on how fast they were.
func TestRounds(t *testing.T) {
	rounds, err := strconv.Atoi(cmp.Or(os.Getenv("ORACLE_ROUNDS"), "0"))
	if err != nil {
		t.Fatal(err)
	}
	if rounds == 0 {
		t.Skip("set ORACLE_ROUNDS to play the scenarios that often in an order that changes")
	}
	want, err := LoadRecording(recordingFile)
	if err != nil {
		t.Fatal(err)
	}
	scenarios := matching(t, os.Getenv("ORACLE_ONLY"))
	target := start(t, "grete", kafka.StartGrete)
	for range rounds {
		unexpected, _, _ := Sift(CompareAll(scenarios, want, RunAll(target, scenarios)))
		report(t, scenarios, unexpected)
		rand.Shuffle(len(scenarios), func(i, j int) { scenarios[i], scenarios[j] = scenarios[j], scenarios[i] })
	}
}

// TestKafka runs Kafka itself: the recording must be what it still answers.
func TestKafka(t *testing.T) {
	if os.Getenv("ORACLE_LIVE") == "" {
		t.Skip("set ORACLE_LIVE=1 to run Apache Kafka and check the recording (make oracle)")
	}
	want, err := LoadRecording(recordingFile)
	if err != nil {
		t.Fatal(err)
	}
	scenarios := matching(t, os.Getenv("ORACLE_ONLY"))
	report(t, scenarios, CompareAll(scenarios, want, RunAll(start(t, "kafka", kafka.StartApache), scenarios)))
}

// report fails with every difference; ORACLE_DIFFS names a file for the whole list.
func report(t *testing.T, scenarios []Scenario, found []Difference) {
	t.Helper()
	text := strings.Join(Fold(found), "\n")
	differing := map[string]bool{}
	for _, d := range found {
		differing[d.Scenario] = true
	}
	if path := os.Getenv("ORACLE_DIFFS"); path != "" {
		if err := os.WriteFile(path, []byte(text+"\n"), 0o644); err != nil {
			t.Error(err)
		}
	}
	if len(found) > 0 {
		t.Errorf("%d of %d scenarios differ, in %d places:\n%s", len(differing), len(scenarios), len(found), text)
	}
}

// TestListIsWhole: every version of every key has scenarios, and the recording has exactly these.
func TestListIsWhole(t *testing.T) {
	const least = 300
	scenarios := All()
	if len(scenarios) < least {
		t.Errorf("%d scenarios, want at least %d", len(scenarios), least)
	}
	want, err := LoadRecording(recordingFile)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[[2]int16]int{}
	names := map[string]bool{}
	for _, sc := range scenarios {
		seen[[2]int16{sc.Key, sc.Version}]++
		if names[sc.Name] {
			t.Errorf("two scenarios %q", sc.Name)
		}
		names[sc.Name] = true
		if len(want[sc.Name]) == 0 {
			t.Errorf("no recording of %q", sc.Name)
		}
	}
	for name := range want {
		if !names[name] {
			t.Errorf("recording of %q, which is no scenario", name)
		}
	}
	for key, r := range versions {
		for v := r[0]; v <= r[1]; v++ {
			if seen[[2]int16{key, v}] < 2 {
				t.Errorf("key %d v%d: fewer than two scenarios", key, v)
			}
		}
	}
}

// reportStops logs what a recording should have none or few of: scripts that could not go on, and silence.
func reportStops(t *testing.T, got Transcripts) {
	for name, steps := range got {
		for i, st := range steps {
			if st.Request == "script" || st.Answer == "silent" {
				t.Logf("%s: %d %s: %v", name, i+1, st.Request, st.Answer)
			}
		}
	}
}
