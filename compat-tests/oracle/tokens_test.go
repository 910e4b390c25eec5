package oracle

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"grete/compat-tests/kafka"
)

const tokenRecordingFile = "testdata/kafka-4.4.0-tokens.json.gz"

// startForTokens starts a broker with a listener for each kind of client.
func startForTokens(t *testing.T, name, secret string, launch func(context.Context, kafka.Options) (*kafka.Broker, error)) Target {
	t.Helper()
	ports, err := kafka.FreePorts(3)
	if err != nil {
		t.Fatal(err)
	}
	more := TokenProperties(secret)
	at := fmt.Sprint("127.0.0.1:", ports[1])
	more["listeners"] = fmt.Sprintf("PLAINTEXT://127.0.0.1:%d,SASL_PLAINTEXT://%s", ports[0], at)
	if name == "kafka" {
		more["listeners"] += fmt.Sprintf(",CONTROLLER://127.0.0.1:%d", ports[2])
		more["controller.quorum.bootstrap.servers"] = fmt.Sprintf("127.0.0.1:%d", ports[2])
	}
	target := startOn(t, name, kafka.Options{Port: ports[0]}, launch, more)
	target.SASL = at
	return target
}

// tokenTranscripts plays the scenarios of both brokers that match ORACLE_ONLY.
func tokenTranscripts(t *testing.T, name string, launch func(context.Context, kafka.Options) (*kafka.Broker, error)) (got Transcripts, played []Scenario) {
	t.Helper()
	re := regexp.MustCompile(os.Getenv("ORACLE_ONLY"))
	got = Transcripts{}
	for secret, scenarios := range map[string][]Scenario{"a secret": TokenScenarios(), "": NoTokenScenarios()} {
		var chosen []Scenario
		for _, sc := range scenarios {
			if re.MatchString(sc.Name) {
				chosen = append(chosen, sc)
			}
		}
		if len(chosen) > 0 {
			maps.Copy(got, RunAll(startForTokens(t, name, secret, launch), chosen))
			played = append(played, chosen...)
		}
	}
	return got, played
}

// TestRecordTokens records what Kafka answers about delegation tokens.
func TestRecordTokens(t *testing.T) {
	if os.Getenv("ORACLE_RECORD") == "" {
		t.Skip("set ORACLE_RECORD=1 to record Kafka's answers anew")
	}
	recording := Transcripts{}
	if os.Getenv("ORACLE_ONLY") != "" {
		var err error
		if recording, err = LoadRecording(tokenRecordingFile); err != nil {
			t.Fatal(err)
		}
	}
	got, _ := tokenTranscripts(t, "kafka", kafka.StartApache)
	reportStops(t, got)
	maps.Copy(recording, got)
	if err := SaveRecording(tokenRecordingFile, recording); err != nil {
		t.Fatal(err)
	}
}

// TestGreteTokens compares our broker with the recording.
func TestGreteTokens(t *testing.T) {
	want, err := LoadRecording(tokenRecordingFile)
	if err != nil {
		t.Fatal(err)
	}
	got, played := tokenTranscripts(t, "grete", kafka.StartGrete)
	found := slices.DeleteFunc(CompareAll(played, want, got), func(d Difference) bool { return strings.Contains(d.Path, expiredToken) })
	report(t, played, found)
}

// TestKafkaTokens runs Kafka itself: the recording must be what it still answers.
func TestKafkaTokens(t *testing.T) {
	if os.Getenv("ORACLE_LIVE") == "" {
		t.Skip("set ORACLE_LIVE=1 to run Apache Kafka and check the recording (make oracle)")
	}
	want, err := LoadRecording(tokenRecordingFile)
	if err != nil {
		t.Fatal(err)
	}
	got, played := tokenTranscripts(t, "kafka", kafka.StartApache)
	report(t, played, CompareAll(played, want, got))
}

// TestShowTokens prints what Kafka is recorded to answer in the scenarios that match ORACLE_SHOW.
func TestShowTokens(t *testing.T) {
	pattern := os.Getenv("ORACLE_SHOW")
	if pattern == "" {
		t.Skip("set ORACLE_SHOW to a pattern of scenario names")
	}
	recording, err := LoadRecording(tokenRecordingFile)
	if err != nil {
		t.Fatal(err)
	}
	re := regexp.MustCompile(pattern)
	for name, steps := range recording {
		if !re.MatchString(name) {
			continue
		}
		t.Log(name)
		for _, st := range steps {
			answer, _ := json.Marshal(st.Answer)
			t.Logf("  %s %s: %s", st.Conn, st.Request, answer)
		}
	}
}
