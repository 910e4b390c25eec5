package tools

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const reassign = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"

// kafka-reassign-partitions moves a replica from one log directory to another, and kafka-log-dirs shows where it is.
func TestLogDirsMove(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	dirs := []string{filepath.Join(base, "one"), filepath.Join(base, "two")}
	k := newBenchWith(t, map[string]string{"log.dirs": strings.Join(dirs, ",")})
	b := []string{"--bootstrap-server", "{b}"}
	k.run("", topics, append(b, "--create", "--topic", "m", "--partitions", "1")...)
	k.run("k:v\n", consoleProduce, append(b, "--topic", "m")...)
	where := func() (dir string, moving bool) {
		t.Helper()
		out := k.run("", logDirs, append(b, "--describe", "--topic-list", "m")...)
		var described struct {
			Brokers []struct {
				LogDirs []struct {
					LogDir     string
					Partitions []struct {
						Partition string
						IsFuture  bool
					}
				}
			}
		}
		if err := json.Unmarshal([]byte(out[strings.Index(out, "{"):]), &described); err != nil {
			t.Fatalf("%v in\n%s", err, out)
		}
		for _, d := range described.Brokers[0].LogDirs {
			for _, p := range d.Partitions {
				if p.IsFuture {
					moving = true
				} else {
					dir = d.LogDir
				}
			}
		}
		return dir, moving
	}
	from, _ := where()
	to := dirs[0]
	if from == dirs[0] {
		to = dirs[1]
	}
	plan := filepath.Join(base, "plan.json")
	text := fmt.Sprintf(`{"version":1,"partitions":[{"topic":"m","partition":0,"replicas":[1],"log_dirs":[%q]}]}`, to)
	if err := os.WriteFile(plan, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	k.want(k.run("", reassign, append(b, "--reassignment-json-file", plan, "--execute", "--replica-alter-log-dirs-throttle", "1000000")...),
		"Successfully started moving log directory to "+to+" for replica m-0")
	for deadline := time.Now().Add(30 * time.Second); ; {
		if dir, moving := where(); dir == to && !moving {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the replica does not arrive")
		}
	}
	k.want(k.run("", reassign, append(b, "--reassignment-json-file", plan, "--verify")...),
		"Reassignment of replica m-0-1 completed successfully")
	k.want(k.run("", consoleConsume, append(b, "--topic", "m", "--from-beginning", "--max-messages", "1")...), "k:v\n")
}
