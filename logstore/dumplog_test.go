package logstore

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"grete/internal/clock"
	"grete/internal/vfs"
	"grete/protocol/batch"
)

// TestKafkaDumpLogFindsNoFault lets Kafka's own tool read what we wrote. KAFKA_LIBS names the directory of its jars.
func TestKafkaDumpLogFindsNoFault(t *testing.T) {
	libs := os.Getenv("KAFKA_LIBS")
	if libs == "" {
		t.Skip("KAFKA_LIBS does not name the directory of Kafka's jars")
	}
	dir := writeForDump(t)
	files, err := filepath.Glob(filepath.Join(dir, testID.String(), "0*"))
	must(t, err)
	java := exec.Command("java", "-Xmx128m", "-cp", filepath.Join(libs, "*"), "org.apache.kafka.tools.DumpLogSegments",
		"--deep-iteration", "--files", strings.Join(files, ","))
	out, err := java.CombinedOutput()
	checkDump(t, out, err)
	if n := strings.Count(string(out), "| offset"); n != dumpedRecordCount {
		t.Errorf("kafka-dump-log saw %d records, want %d", n, dumpedRecordCount)
	}
	for _, kind := range []string{".index", ".timeindex", ".txnindex", ".snapshot"} {
		if !strings.Contains(string(out), kind) {
			t.Errorf("no %s was dumped", kind)
		}
	}
	indexes, err := filepath.Glob(filepath.Join(dir, testID.String(), "0*index"))
	must(t, err)
	java = exec.Command("java", "-Xmx128m", "-cp", filepath.Join(libs, "*"), "org.apache.kafka.tools.DumpLogSegments",
		"--index-sanity-check", "--files", strings.Join(indexes, ","))
	out, err = java.CombinedOutput()
	checkDump(t, out, err)
	if n := strings.Count(string(out), "passed sanity check"); n < 2 {
		t.Errorf("%d indexes passed the sanity check:\n%s", n, out)
	}
}

func checkDump(t *testing.T, out []byte, err error) {
	t.Helper()
	must(t, err)
	// The tool says this of every segment that does not begin at 0, Kafka's own as well (see golden-0.dump.txt).
	out = regexp.MustCompile(`Non-consecutive offsets in \S+\n(\s+-1 is followed by \d+\n)`).ReplaceAll(out, nil)
	for _, word := range []string{"isvalid: false", "Mismatches", "Exception", "out of order", "non-consecutive", "corrupt", "Error"} {
		if bytes.Contains(bytes.ToLower(out), bytes.ToLower([]byte(word))) {
			t.Errorf("kafka-dump-log says %q:\n%s", word, out)
		}
	}
}

// dumpedRecordCount: 120 batches of 3 records, and a transaction of 3 and its marker after each 20th.
const dumpedRecordCount = 120*3 + 6*4

// writeForDump writes several segments with every codec, an idempotent producer and transactions.
func writeForDump(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	c := testConfig()
	s := openTest(t, Options{FS: vfs.OS, Clock: clock.System, Dirs: []string{dir}, Defaults: c})
	l := createTest(t, s, c)
	seq := int32(0)
	for i := range 120 {
		records := make([]batch.Record, 3)
		for k := range records {
			records[k] = batch.Record{Offset: int64(k), TimestampMs: int64(1000 + i*10 + k), Key: []byte("key"),
				Value: bytes.Repeat([]byte{byte(i)}, 80), Headers: []batch.Header{{Key: "h", Value: []byte("v")}}}
		}
		b, err := batch.Build(batch.BuildOptions{Codec: batch.Codec(i % 5), ProducerID: 4, BaseSequence: seq}, records)
		must(t, err)
		seq += 3
		appendTest(t, l, b)
		if i%20 == 19 {
			appendTest(t, l, producing{pid: 5, seq: int32(i/20) * 3, count: 3, txn: true, ms: int64(1000 + i*10)}.at(t, 0))
			appendTest(t, l, marker(t, 0, 5, 0, i%40 == 19, 0))
		}
		l.SetHighWatermark(l.EndOffset())
	}
	must(t, s.Close())
	return dir
}
