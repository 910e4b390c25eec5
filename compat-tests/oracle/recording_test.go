package oracle

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// special is a list of scenarios that run on a broker with settings of its own, and have a recording of their own.
type special struct {
	file      string
	scenarios func() []Scenario
	start     func(t *testing.T, name string) Target
	// exceptions are the differences that we accept.
	exceptions []exception
}

// matching are the scenarios that match ORACLE_ONLY.
func (s special) matching() (out []Scenario) {
	re := regexp.MustCompile(os.Getenv("ORACLE_ONLY"))
	for _, sc := range s.scenarios() {
		if re.MatchString(sc.Name) {
			out = append(out, sc)
		}
	}
	return out
}

// record records Kafka's answers: all anew, or with ORACLE_ONLY those of the scenarios that match it.
func (s special) record(t *testing.T) {
	if os.Getenv("ORACLE_RECORD") == "" {
		t.Skip("set ORACLE_RECORD=1 to record Kafka's answers anew")
	}
	recording := Transcripts{}
	if os.Getenv("ORACLE_ONLY") != "" {
		var err error
		if recording, err = LoadRecording(s.file); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
	begin := time.Now()
	got := RunAll(s.start(t, "kafka"), s.matching())
	t.Logf("%d scenarios in %v", len(got), time.Since(begin).Round(time.Second))
	reportStops(t, got)
	maps.Copy(recording, got)
	maps.DeleteFunc(recording, func(name string, _ []Step) bool {
		return !slices.ContainsFunc(s.scenarios(), func(sc Scenario) bool { return sc.Name == name })
	})
	if err := SaveRecording(s.file, recording); err != nil {
		t.Fatal(err)
	}
}

// grete compares our broker with the recording.
func (s special) grete(t *testing.T) {
	want, err := LoadRecording(s.file)
	if err != nil {
		t.Fatal(err)
	}
	scenarios := s.matching()
	got := RunAll(s.start(t, "grete"), scenarios)
	unexpected, wording, err := siftBy(s.exceptions, CompareAll(scenarios, want, got))
	if err != nil && os.Getenv("ORACLE_ONLY") == "" {
		t.Error(err)
	}
	report(t, scenarios, unexpected)
	t.Logf("%d scenarios; in %d places only our words differ:\n%s", len(scenarios), len(wording), strings.Join(Fold(wording), "\n"))
}

// kafka runs Kafka itself: the recording must be what it still answers.
func (s special) kafka(t *testing.T) {
	if os.Getenv("ORACLE_LIVE") == "" {
		t.Skip("set ORACLE_LIVE=1 to run Apache Kafka and check the recording (make oracle)")
	}
	want, err := LoadRecording(s.file)
	if err != nil {
		t.Fatal(err)
	}
	scenarios := s.matching()
	report(t, scenarios, CompareAll(scenarios, want, RunAll(s.start(t, "kafka"), scenarios)))
}

// whole says what a recording lacks or has too much.
func (s special) whole(t *testing.T) (seen map[[2]int16]bool) {
	want, err := LoadRecording(s.file)
	if err != nil {
		t.Fatal(err)
	}
	seen = map[[2]int16]bool{}
	for _, sc := range s.scenarios() {
		if seen[[2]int16{sc.Key, sc.Version}] = true; len(want[sc.Name]) == 0 {
			t.Errorf("no recording of %q, or two scenarios", sc.Name)
		}
		delete(want, sc.Name)
	}
	for name := range want {
		t.Errorf("recording of %q, which is no scenario", name)
	}
	return seen
}

// openToAll are keys without an authorization that ACLs decide.
var openToAll = map[int16]string{
	17: "SASL begins before there is a principal", 36: "as 17", 38: "tokens have a broker of their own", 39: "as 38", 40: "as 38", 41: "as 38",
}

// TestSpecialListsAreWhole: recordings have the scenarios that there are, and every version of every key has one about rights.
func TestSpecialListsAreWhole(t *testing.T) {
	saslSpecial.whole(t)
	seen := aclSpecial.whole(t)
	for key, r := range versions {
		for v := r[0]; v <= r[1]; v++ {
			if !seen[[2]int16{key, v}] && openToAll[key] == "" {
				t.Errorf("key %d v%d: no scenario about rights", key, v)
			}
		}
	}
}
