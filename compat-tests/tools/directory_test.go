package tools

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"grete/compat-tests/kafka"
)

// A directory that a real Kafka wrote is recognised before anything in it is touched, after a clean stop and after a
// kill, and the refusal says what it is and what the way in is.
func TestKafkaDirectoryIsRefused(t *testing.T) {
	t.Parallel()
	opts := kafka.Options{Dir: t.TempDir()}
	for _, end := range []func(*kafka.Broker) error{(*kafka.Broker).Stop, (*kafka.Broker).Kill} {
		b, err := kafka.StartApache(context.Background(), opts)
		kafka.SkipOrFail(t, err)
		cl, err := kgo.NewClient(kgo.SeedBrokers(b.Addr), kgo.AllowAutoTopicCreation())
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		err = cl.ProduceSync(ctx, &kgo.Record{Topic: "kept", Value: []byte("v")}).FirstErr()
		cancel()
		cl.Close()
		if err != nil {
			t.Fatal(err)
		}
		if err := end(b); err != nil {
			t.Fatal(err)
		}
		before := files(t, b.DataDir)
		if out := os.Getenv("KEEP_KAFKA_DIRECTORY"); out != "" {
			if err := os.CopyFS(out, os.DirFS(b.DataDir)); err != nil {
				t.Fatal(err)
			}
			os.Unsetenv("KEEP_KAFKA_DIRECTORY")
		}
		if g, err := kafka.StartGrete(context.Background(), opts); err == nil {
			_ = g.Stop()
			t.Fatal("Grete has started on Kafka's directory")
		} else if !strings.Contains(err.Error(), "ended at start") {
			t.Fatal(err)
		}
		said, err := os.ReadFile(b.LogPath)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSpace(string(said)), "\n")
		for _, want := range []string{"this is a log directory of Apache Kafka (cluster ", "node.id 1", "nothing in it was changed", "MirrorMaker"} {
			if last := lines[len(lines)-1]; !strings.Contains(last, want) {
				t.Errorf("%q is not said in %q", want, last)
			}
		}
		for name, data := range files(t, b.DataDir) {
			if was, there := before[name]; !there || !bytes.Equal(was, data) {
				t.Errorf("%s was changed; it was there: %v", name, there)
			}
			delete(before, name)
		}
		if len(before) > 0 {
			t.Errorf("%d files are gone", len(before))
		}
	}
}

// files are all files below dir, by path.
func files(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		out[path], err = os.ReadFile(path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
