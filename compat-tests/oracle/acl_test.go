package oracle

import (
	"encoding/json"
	"os"
	"regexp"
	"testing"
)

func startWithACLs(t *testing.T, name string) Target {
	t.Helper()
	target := startWith(t, name, launcher(name), ACLProperties)
	if err := CloseDoors(target); err != nil {
		t.Fatal(err)
	}
	target.Guest = guestHost
	return target
}

var aclSpecial = special{"testdata/kafka-4.4.0-acl.json.gz", ACLScenarios, startWithACLs, aclExceptions}

// TestRecordACLs records what Kafka answers to those who lack a right.
func TestRecordACLs(t *testing.T) { aclSpecial.record(t) }
func TestGreteACLs(t *testing.T)  { aclSpecial.grete(t) }
func TestKafkaACLs(t *testing.T)  { aclSpecial.kafka(t) }

// TestShowACLs prints what our broker answers in the scenarios that match ORACLE_SHOW.
func TestShowACLs(t *testing.T) {
	pattern := os.Getenv("ORACLE_SHOW")
	if pattern == "" {
		t.Skip("set ORACLE_SHOW to a pattern of scenario names")
	}
	target, re := startWithACLs(t, "grete"), regexp.MustCompile(pattern)
	for _, sc := range ACLScenarios() {
		if !re.MatchString(sc.Name) {
			continue
		}
		t.Log(sc.Name)
		for _, st := range Run(target, sc) {
			answer, _ := json.Marshal(st.Answer)
			t.Logf("  %s: %s", st.Request, answer)
		}
	}
}
