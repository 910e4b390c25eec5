package logstore

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"grete/internal/uuid"
	"grete/internal/vfs"
	"grete/protocol/batch"
)

const goldenDir = "../testdata/golden-logs"

var goldenID = ID{"golden", 0}

// goldenFS is a copy in memory of the directory that Kafka wrote.
func goldenFS(t *testing.T) *vfs.Mem {
	t.Helper()
	mem := vfs.NewMem()
	must(t, filepath.WalkDir(goldenDir, func(name string, d os.DirEntry, err error) error {
		relative, _ := filepath.Rel(goldenDir, name)
		to := path.Join(testDir, relative)
		if err != nil || d.IsDir() {
			return errors.Join(err, mem.MkdirAll(to, 0o755))
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		return writeFile(mem, to, data, true)
	}))
	return mem
}

func openGolden(t *testing.T, mem vfs.FS) (*Store, *Log) {
	t.Helper()
	o := testOptions(mem)
	o.Defaults = DefaultConfig()
	o.Defaults.IndexIntervalBytes, o.Defaults.RetentionMs = 300, -1
	o.Defaults.ProducerIDExpirationMs = 1 << 50
	s := openTest(t, o)
	l := s.Log(goldenID)
	if l == nil {
		t.Fatal("Kafka's partition was not loaded")
	}
	return s, l
}

func TestGoldenServesWhatKafkaWrote(t *testing.T) {
	s, l := openGolden(t, goldenFS(t))
	checkGolden(t, l)
	if got := uuid.UUID(l.TopicID()).String(); got != "et7rajxaSliV38GPD284_w" {
		t.Fatalf("topic id %s", got)
	}
	info, err := l.Append(plain(t, 2, 10, 1), 1)
	must(t, err)
	if info.BaseOffset != 348 || l.EndOffset() != 350 {
		t.Fatalf("appended at %d, end %d", info.BaseOffset, l.EndOffset())
	}
	must(t, s.Close())
}

// TestGoldenRecovery takes away everything that can be rebuilt; what we write instead is what Kafka wrote.
func TestGoldenRecovery(t *testing.T) {
	mem := goldenFS(t)
	for _, name := range []string{cleanShutdownFile, recoveryPointFile, highWatermarkFile} {
		must(t, mem.Remove(path.Join(testDir, name)))
	}
	dir := path.Join(testDir, goldenID.String())
	kafkas := map[string][]byte{}
	for _, base := range []int64{0, 60, 77} {
		for _, suffix := range []string{indexSuffix, timeIndexSuffix, txnIndexSuffix, snapshotSuffix} {
			name := path.Join(dir, fileName(base, suffix))
			if data, err := readFile(mem, name); err == nil {
				kafkas[name] = data
				must(t, mem.Remove(name))
			}
		}
	}
	must(t, mem.Remove(path.Join(dir, leaderEpochFile)))
	s, l := openGolden(t, mem)
	l.SetHighWatermark(l.EndOffset())
	checkGolden(t, l)
	must(t, s.Close())
	for name, want := range kafkas {
		if strings.HasSuffix(name, snapshotSuffix) {
			continue // taken at roll alone
		}
		if got, err := readFile(mem, name); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes (%v), Kafka wrote %d", name, len(got), err, len(want))
		}
	}
	if epochs, err := readFile(mem, path.Join(dir, leaderEpochFile)); err != nil || string(epochs) != "0\n1\n0 0\n" {
		t.Errorf("epochs %q, %v", epochs, err)
	}
}

// checkGolden compares every record with kafka-dump-log's print.
func checkGolden(t *testing.T, l *Log) {
	t.Helper()
	if l.StartOffset() != 0 || l.EndOffset() != 348 || l.HighWatermark() != 348 || l.LastStableOffset() != 348 || l.LatestEpoch() != 0 {
		t.Fatalf("start %d, end %d, hw %d, lso %d, epoch %d", l.StartOffset(), l.EndOffset(), l.HighWatermark(), l.LastStableOffset(), l.LatestEpoch())
	}
	want := dumpedRecords(t)
	var got []string
	for _, b := range readBatches(t, l, 0, l.EndOffset()) {
		for r, err := range b.Records() {
			must(t, err)
			got = append(got, dumpRecord(b, r))
		}
	}
	if len(got) != len(want) {
		t.Fatalf("%d records, Kafka has %d", len(got), len(want))
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("record %d:\n got %s\nwant %s", i, got[i], want[i])
		}
	}
	checkGoldenTimes(t, l)
	span, err := l.Read(77, ReadOptions{MaxBytes: 1 << 20, Bound: 348, Aborted: true})
	must(t, err)
	defer span.Release()
	if len(span.AbortedTxns) != 8 {
		t.Fatalf("%d aborted transactions, 8 were", len(span.AbortedTxns))
	}
}

func checkGoldenTimes(t *testing.T, l *Log) {
	t.Helper()
	for _, c := range []struct{ target, offset int64 }{{0, 0}, {1700007200002, 1}, {1700014400007, 6}, {1 << 60, -1}} {
		found, err := l.OffsetForTimestamp(c.target)
		must(t, err)
		if found.Offset != c.offset {
			t.Fatalf("offset for timestamp %d is %d, want %d", c.target, found.Offset, c.offset)
		}
	}
}

func dumpedRecords(t *testing.T) []string {
	t.Helper()
	f, err := os.Open(goldenDir + "/golden-0.dump.txt")
	must(t, err)
	defer f.Close()
	var lines []string
	for scanner := bufio.NewScanner(f); scanner.Scan(); {
		if line := scanner.Text(); strings.HasPrefix(line, "| offset") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

// dumpRecord prints a record as kafka-dump-log does.
func dumpRecord(b batch.Batch, r batch.Record) string {
	size := func(b []byte) int {
		if b == nil {
			return -1
		}
		return len(b)
	}
	keys := make([]string, len(r.Headers))
	for i, h := range r.Headers {
		keys[i] = h.Key
	}
	sequence := int32(-1)
	if b.BaseSequence() >= 0 {
		sequence = b.BaseSequence() + int32(r.Offset-b.BaseOffset())
	}
	line := fmt.Sprintf("| offset: %d CreateTime: %d keySize: %d valueSize: %d sequence: %d headerKeys: [%s]",
		r.Offset, r.TimestampMs, size(r.Key), size(r.Value), sequence, strings.Join(keys, ","))
	if b.Control() {
		outcome := map[byte]string{controlAbort: "ABORT", controlCommit: "COMMIT"}[r.Key[3]]
		return line + fmt.Sprintf(" endTxnMarker: %s coordinatorEpoch: %d", outcome, r.Value[5])
	}
	line += " key: " + string(r.Key)
	if r.Value != nil {
		line += " payload: " + string(r.Value)
	}
	return line
}
