package node

import (
	"bytes"
	"io/fs"
	"os"
	"path"
	"strings"
	"testing"

	"grete/internal/vfs"
	"grete/logstore"
)

// kafkaDirectory is what a Kafka 4.4 left that was stopped cleanly (compat-tests/tools, KEEP_KAFKA_DIRECTORY), without
// the indexes of its metadata log, which are 10 MB each.
const kafkaDirectory = "../../../testdata/kafka-directory"

// copyKafkaDirectory lays it out on another disk.
func copyKafkaDirectory(t *testing.T, to vfs.FS, dir string) {
	t.Helper()
	from := os.DirFS(kafkaDirectory)
	err := fs.WalkDir(from, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := fs.ReadFile(from, name)
		if err != nil {
			return err
		}
		at := path.Join(dir, name)
		if err := to.MkdirAll(path.Dir(at), 0o755); err != nil {
			return err
		}
		f, err := to.OpenFile(at, os.O_CREATE|os.O_RDWR, 0o644)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = f.WriteAt(data, 0)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// contents are all files below dir, by path.
func contents(t *testing.T, fsys vfs.FS, dir string) map[string][]byte {
	t.Helper()
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]byte{}
	for _, e := range entries {
		at := path.Join(dir, e.Name())
		if e.IsDir() {
			for name, data := range contents(t, fsys, at) {
				out[name] = data
			}
			continue
		}
		if out[at], err = vfs.ReadFile(fsys, at, 1<<30); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// A directory that Kafka wrote is refused with its name and the way in, and stays as it is, byte for byte; also when it
// is one of several.
func TestKafkaDirectoryIsRefused(t *testing.T) {
	disk := vfs.NewMem()
	copyKafkaDirectory(t, disk, "/kafka")
	before := contents(t, disk, "/kafka")
	if len(before) < 10 || before["/kafka/__cluster_metadata-0/quorum-state"] == nil {
		t.Fatalf("%d files", len(before))
	}
	for _, dirs := range []string{"/kafka", "/empty,/kafka"} {
		written := 0
		watched := vfs.NewFaulty(disk)
		watched.Inject(func(op vfs.Op) error {
			if op.Kind.Writes() && op.Kind != vfs.OpOpen {
				written++
			}
			return nil
		})
		n, err := Start(t.Context(), options(t, watched, "log.dirs="+dirs))
		if err == nil {
			stopNode(t, n)
			t.Fatalf("%s: started", dirs)
		}
		for _, want := range []string{"/kafka: this is a log directory of Apache Kafka (cluster ", ", node.id 1), as its __cluster_metadata-0/quorum-state shows", "nothing in it was changed", "MirrorMaker"} {
			if !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s: %q, want %q in one line", dirs, err, want)
			}
		}
		if written > 0 {
			t.Errorf("%s: %d writes", dirs, written)
		}
	}
	after := contents(t, disk, "/kafka")
	for name, data := range after {
		if was, there := before[name]; !there || !bytes.Equal(was, data) {
			t.Errorf("%s was changed; it was there: %v", name, there)
		}
	}
	if len(after) != len(before) {
		t.Errorf("%d files, %d before", len(after), len(before))
	}
}

// A directory of others is refused with what is there and the way in, and stays as it is.
func TestDirectoryOfOthersIsRefused(t *testing.T) {
	const identity = "version=1\nnode.id=1\ncluster.id=4L6g3nShT-eMCtK--X86sw\n"
	for _, tt := range []struct {
		file, text string
		want       []string
	}{
		{"/data/PG_VERSION", "18", []string{"/data: neither Grete nor Kafka made what is in this directory, such as PG_VERSION;", "an empty or a new directory"}},
		{"/data/meta.properties", identity, []string{"/data: this directory has a meta.properties that Grete did not write (cluster 4L6g3nShT-eMCtK--X86sw, node.id 1);", "MirrorMaker", "an empty or a new directory"}},
	} {
		disk := vfs.NewMem()
		if err := disk.MkdirAll("/data", 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, disk, tt.file, []byte(tt.text))
		n, err := Start(t.Context(), options(t, disk, "log.dirs=/empty,/data"))
		if err == nil {
			stopNode(t, n)
			t.Fatalf("%s: started", tt.file)
		}
		for _, want := range append(tt.want, "nothing in it was changed") {
			if !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%q, want %q in one line", err, want)
			}
		}
		if after := contents(t, disk, "/data"); len(after) != 1 || string(after[tt.file]) != tt.text {
			t.Errorf("%q", after)
		}
		if entries, err := disk.ReadDir("/empty"); err == nil {
			t.Errorf("/empty: %v", entries)
		}
	}
}

// A new volume is not empty, and is ours.
func TestNewVolumeStarts(t *testing.T) {
	disk := vfs.NewMem()
	if err := disk.MkdirAll("/data/lost+found", 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, disk, "/data/.DS_Store", []byte("x"))
	start(t, options(t, disk))
}

// A directory of ours is opened, in the form of before, too, whose meta.properties has no mark.
func TestOwnDirectoryOfBeforeOpens(t *testing.T) {
	disk := vfs.NewMem()
	n := start(t, options(t, disk))
	id := n.ClusterID()
	stopNode(t, n)
	text, err := vfs.ReadFile(disk, "/data/meta.properties", 1<<10)
	if err != nil || !bytes.HasPrefix(text, []byte("#Grete\n")) {
		t.Fatalf("%q, %v", text, err)
	}
	f, err := disk.OpenFile("/data/meta.properties", os.O_RDWR|os.O_TRUNC, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(append([]byte("#\n"), bytes.TrimPrefix(text, []byte("#Grete\n"))...), 0); err != nil {
		t.Fatal(err)
	}
	f.Close()
	if again := start(t, options(t, disk)); again.ClusterID() != id || logstore.OfKafka(disk, "/data") != "" {
		t.Errorf("cluster %s, was %s", again.ClusterID(), id)
	}
}
