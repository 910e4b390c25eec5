package clients

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"grete/compat-tests/kafka"
)

// kcat runs Debian's kcat, installing it where the user may do so; a test skips where it cannot be had.
func kcat(t *testing.T, addr, stdin string, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath("kcat"); err != nil {
		_ = kafka.Install("", "apt-get", "update", "-qq")
		_ = kafka.Install("", "apt-get", "install", "-y", "-qq", "kcat")
	}
	if _, err := exec.LookPath("kcat"); err != nil {
		t.Skip("kcat is not installed and cannot be: it is Debian's package kcat")
	}
	cmd := exec.Command("kcat", append([]string{"-b", addr, "-q"}, args...)...)
	cmd.Stdin = strings.NewReader(stdin)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		t.Fatalf("kcat %v: %v: %s", args, err, said.Bytes())
	}
	return out.String()
}

type kcatRecord struct {
	Topic     string   `json:"topic"`
	Partition int32    `json:"partition"`
	Offset    int64    `json:"offset"`
	Key       *string  `json:"key"`
	Payload   *string  `json:"payload"`
	Headers   []string `json:"headers"`
	Ts        int64    `json:"ts"`
}

func kcatRecords(t *testing.T, out string) []kcatRecord {
	t.Helper()
	var records []kcatRecord
	for line := range strings.Lines(out) {
		var r kcatRecord
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		records = append(records, r)
	}
	return records
}

func TestKcat(t *testing.T) {
	b := startBroker(t, t.TempDir())
	t.Cleanup(func() { _ = b.Stop() })
	for _, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		topic := "kcat-" + codec
		var in strings.Builder
		for i := range 20 {
			fmt.Fprintf(&in, "key%d:value %d of %s\n", i, i, codec)
		}
		// The topic does not exist: auto-creation must make the first produce work at once.
		kcat(t, b.Addr, in.String(), "-P", "-t", topic, "-K", ":", "-H", "from=kcat", "-z", codec)
		got := kcatRecords(t, kcat(t, b.Addr, "", "-C", "-t", topic, "-o", "beginning", "-e", "-J"))
		if len(got) != 20 || *got[19].Payload != "value 19 of "+codec || *got[19].Key != "key19" || strings.Join(got[19].Headers, "=") != "from=kcat" {
			t.Fatalf("%s: %d records, the last %+v", topic, len(got), got[len(got)-1])
		}
	}
	kcat(t, b.Addr, "gone:\n", "-P", "-t", "kcat-none", "-K", ":", "-Z")
	last := kcatRecords(t, kcat(t, b.Addr, "", "-C", "-t", "kcat-none", "-o", "-1", "-e", "-J"))
	if len(last) != 1 || last[0].Payload != nil || last[0].Offset != 20 {
		t.Fatalf("tombstone: %+v", last)
	}
	seek := kcatRecords(t, kcat(t, b.Addr, "", "-C", "-t", "kcat-none", "-o", "7", "-c", "2", "-J"))
	if len(seek) != 2 || seek[0].Offset != 7 {
		t.Fatalf("seek to 7: %+v", seek)
	}
	byTime := kcat(t, b.Addr, "", "-Q", "-t", fmt.Sprintf("kcat-none:0:%d", time.Now().Add(-time.Hour).UnixMilli()))
	if !strings.Contains(byTime, "offset 0") {
		t.Fatalf("offset an hour ago: %s", byTime)
	}
	grouped := kcatRecords(t, kcat(t, b.Addr, "", "-G", "kcat-group", "-X", "auto.offset.reset=earliest", "-e", "-J", "kcat-none"))
	if len(grouped) != 21 {
		t.Fatalf("group read %d records, want 21", len(grouped))
	}
	kcat(t, b.Addr, "one more\n", "-P", "-t", "kcat-none")
	again := kcatRecords(t, kcat(t, b.Addr, "", "-G", "kcat-group", "-X", "auto.offset.reset=earliest", "-e", "-J", "kcat-none"))
	if len(again) != 1 || *again[0].Payload != "one more" {
		t.Fatalf("the group resumed with %+v", again)
	}
}
