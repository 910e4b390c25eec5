package oracle

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"grete/compat-tests/kafka"
)

// masked are fields of which only the presence is compared, so that a falsified value cannot be found.
var masked = map[string]string{
	"22 ProducerID":                                         "every broker hands out its own",
	"55 Nodes[].Listeners[].Port":                           "the harness's",
	"55 Topics[].Partitions[].HighWatermark":                "an offset of the metadata log",
	"55 Topics[].Partitions[].CurrentVoters[].LogEndOffset": "an offset of the metadata log",
	"55 Topics[].Partitions[].LeaderEpoch":                  "how often the lone voter was elected",
	"18 FinalizedFeaturesEpoch":                             "an offset of the metadata log",
	"16 Groups":                                             "the list's last is another scenario's",
	"74 ConfigResources":                                    "the list's last is another scenario's",
	"35 Dirs[].TotalBytes":                                  "the machine's",
	"35 Dirs[].UsableBytes":                                 "the machine's",
}

// samples names a scenario of each key at its highest version; through the proxy each of its fields is falsified in turn.
var samples = map[int16]string{
	0: "produce/acks 1/v13", 1: "fetch session/life/v18", 2: "list offsets/special/v11", 3: "metadata/topics/v13", 8: "offset commit/simple/v10",
	9: "offset fetch/partitions/v10", 10: "find coordinator/v6", 11: "group/one member/v9", 12: "heartbeat/errors/v4", 13: "leave group/errors/v5",
	14: "sync group/errors/v5", 15: "describe groups/v6", 16: "list groups/v5", 17: "sasl handshake/plaintext/v1", 18: "api versions/table/v5",
	19: "create topics/good/v7", 20: "delete topics/good/v6", 21: "delete records/offsets/v2", 22: "init producer/new/v5",
	23: "offset for leader epoch/epochs/v4", 29: "acls/describe/v3", 30: "acls/create/v3", 31: "acls/delete/v3", 32: "describe configs/topic/v4",
	33: "alter configs/errors/v2", 38: "tokens in the clear/create/v3", 39: "tokens in the clear/renew/v2",
	40: "tokens in the clear/expire/v2", 41: "tokens in the clear/describe/v3", 34: "alter log dirs/v2", 35: "log dirs/topics/v5", 37: "create partitions/good/v3", 42: "delete groups/v3",
	24: "txn add/partitions/v5", 25: "txn add offsets/v4", 26: "txn end/errors/v5", 27: "txn markers/errors/v2",
	28: "txn offsets/commit and abort/v6", 61: "txn admin/describe producers", 65: "txn admin/describe", 66: "txn admin/list/v2",
	43: "elect leaders/errors/v2", 45: "alter reassignments/errors/v1", 46: "list reassignments/errors/v0", 50: "scram/describe/v0", 51: "scram/alter errors/v0",
	57: "update features/v2",
	80: "raft voters/add/v1", 81: "raft voters/remove/v0", 94: "unregister controller/v0", 55: "describe quorum/good/v2", 64: "unregister broker/unknown/v0", 44: "incremental alter configs/errors/v1", 60: "describe cluster/v2", 68: "consumer group/one member/v1", 69: "consumer group/describe/v1", 74: "list config resources/v1", 75: "describe topic partitions/topics/v0",
}

// TestFalsifiedFieldsAreFound shows that the comparison can fail: every field of a sample of responses of every key is
// falsified on its way, one at a time, and each time the transcript must differ.
func TestFalsifiedFieldsAreFound(t *testing.T) {
	launch, name := kafka.StartGrete, "grete"
	if os.Getenv("ORACLE_LIVE") != "" {
		launch, name = kafka.StartApache, "kafka"
	}
	target := start(t, name, launch)
	byName := map[string]Scenario{}
	for _, sc := range All() {
		byName[sc.Name] = sc
	}
	total := make(chan int, len(versions))
	t.Run("keys", func(t *testing.T) {
		for _, key := range slices.Sorted(maps.Keys(versions)) {
			t.Run(samples[key], func(t *testing.T) {
				t.Parallel()
				total <- falsifyFields(t, target, byName[samples[key]])
			})
		}
	})
	close(total)
	sum := 0
	for n := range total {
		sum += n
	}
	t.Logf("%d fields of %d keys falsified and found", sum, len(versions))
}

func falsifyFields(t *testing.T, target Target, sc Scenario) int {
	if sc.Run == nil {
		t.Fatal("no such scenario")
	}
	survey, _ := through(t, target, "", sc)
	honest, paths := through(t, target, "", sc)
	if found := Compare(sc.Name, survey, honest); len(found) > 0 {
		t.Fatalf("two honest runs differ: %s", strings.Join(Fold(found), "\n"))
	}
	found := 0
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		if masked[fmt.Sprint(sc.Key, " ", path)] != "" {
			continue
		}
		forged, _ := through(t, target, path, sc)
		if len(Compare(sc.Name, honest, forged)) == 0 {
			t.Errorf("%s: a falsified %s was not found", sc.Name, path)
			continue
		}
		found++
	}
	if found == 0 {
		t.Errorf("%s: no field to falsify", sc.Name)
	}
	return found
}

// unseen are scenarios about rights that record of a response only that there is one.
var unseen = map[string]string{
	"acl/describe quorum/v2":   "shows a topic that is not the scenario's",
	"acl/describe log dirs/v5": "shows every topic that there is",
	"acl/api versions/v5":      "is for everybody; the table has scenarios of its own",
}

// TestFalsifiedFieldsOfSpecialsAreFound is TestFalsifiedFieldsAreFound for what has a broker of its own: of each key the
// first scenario of the highest version.
func TestFalsifiedFieldsOfSpecialsAreFound(t *testing.T) {
	for name, s := range map[string]special{"acls": aclSpecial, "sasl": saslSpecial} {
		t.Run(name, func(t *testing.T) {
			target, sum := s.start(t, "grete"), 0
			for _, sc := range newest(s.scenarios()) {
				if unseen[sc.Name] == "" {
					sum += falsifyFields(t, target, sc)
				}
			}
			t.Logf("%d fields falsified and found", sum)
		})
	}
}

func newest(scenarios []Scenario) []Scenario {
	best := map[int16]Scenario{}
	for _, sc := range scenarios {
		if old, ok := best[sc.Key]; !ok || sc.Version > old.Version {
			best[sc.Key] = sc
		}
	}
	return slices.Collect(maps.Values(best))
}

// behind is a target whose connections, but those for set-up, come by addr.
func (t Target) behind(addr string) Target {
	proxied := t
	proxied.Name = "proxy"
	if t.At != "" {
		proxied.At = addr
	} else {
		proxied.Addr = addr
	}
	return proxied
}

// through runs a scenario through a proxy, honest when path is empty.
func through(t *testing.T, target Target, path string, sc Scenario) ([]Step, map[string]bool) {
	t.Helper()
	f, err := Falsify(cmp.Or(target.At, target.Addr), sc.Key, sc.Version, path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	steps := Run(target.behind(f.Addr()), sc)
	if path != "" && !f.Falsified() {
		t.Errorf("%s: no response had %s; the last step: %s", sc.Name, path, show(steps[len(steps)-1]))
	}
	return steps, f.Paths()
}
