package logstore

import (
	"path"
	"testing"

	"grete/internal/vfs"
)

// What Kafka formats is known by its vote file, its bootstrap file or the date in its meta.properties. What this
// program writes is not, in its form of today and in those of before; nor are partitions alone, and nothing.
func TestOfKafka(t *testing.T) {
	const (
		vote      = "__cluster_metadata-0/quorum-state"
		kafkaVote = `{"leaderId":1,"leaderEpoch":1,"votedId":1,"votedDirectoryId":"GCtX80NfRdyna2YKZFyhjQ","data_version":1}`
		ownVote   = `{"leaderId":-1,"leaderEpoch":1,"votedId":1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","currentVoters":[{"voterId":1}],"data_version":1,"crc32c":5}`
		kafkaMeta = "#\n#Sun Nov 29 15:50:01 UTC 2026\nnode.id=1\ndirectory.id=GCtX80NfRdyna2YKZFyhjQ\nversion=1\ncluster.id=xuvXomW0TTyhvkl85SqkeA\n"
		zoneMeta  = "#\r\n#Sun Nov 29 15:50:01 GMT+02:00 2026\r\nbroker.id=1\r\nversion=0\r\n"
		oldMeta   = "#\ncluster.id=xuvXomW0TTyhvkl85SqkeA\ndirectory.id=GCtX80NfRdyna2YKZFyhjQ\nnode.id=1\nversion=1\n"
		ownMeta   = "#Grete\ncluster.id=xuvXomW0TTyhvkl85SqkeA\ndirectory.id=GCtX80NfRdyna2YKZFyhjQ\nnode.id=1\nversion=1\n"
	)
	for _, tt := range []struct {
		what  string
		files map[string]string
		want  string
	}{
		{"nothing", nil, ""},
		{"Kafka's", map[string]string{vote: kafkaVote, "bootstrap.checkpoint": "", "meta.properties": kafkaMeta}, vote},
		{"Kafka's of former times", map[string]string{vote: `{"clusterId":"","leaderId":1,"leaderEpoch":2,"votedId":-1,"appliedOffset":0,"currentVoters":[{"voterId":1}],"data_version":0}`}, vote},
		{"formatted, never started", map[string]string{"bootstrap.checkpoint": "", "meta.properties": kafkaMeta}, "bootstrap.checkpoint"},
		{"another directory of Kafka's", map[string]string{"meta.properties": kafkaMeta, "t-0/00000000000000000000.log": ""}, "meta.properties"},
		{"Kafka's with ZooKeeper", map[string]string{"meta.properties": zoneMeta}, "meta.properties"},
		{"ours", map[string]string{vote: ownVote, "meta.properties": ownMeta}, ""},
		{"ours of before", map[string]string{vote: ownVote, "meta.properties": oldMeta}, ""},
		{"another directory of ours", map[string]string{"meta.properties": ownMeta}, ""},
		{"another directory of ours of before", map[string]string{"meta.properties": oldMeta}, ""},
		{"ours, with a comment", map[string]string{"meta.properties": oldMeta + "# moved on Monday\n"}, ""},
		{"ours, damaged", map[string]string{vote: "{\x00", "meta.properties": oldMeta}, ""},
		{"ours, with Kafka's meta.properties", map[string]string{vote: ownVote, "meta.properties": kafkaMeta}, ""},
		{"partitions alone", map[string]string{"t-0/00000000000000000000.log": "", "t-0/partition.metadata": ""}, ""},
	} {
		fsys := directoryWith(t, tt.files)
		if got := OfKafka(fsys, "/data"); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.what, got, tt.want)
		}
	}
}

// A directory of others is known by a meta.properties without our mark, else by what no log directory has. What is ours
// in any form, partitions that were copied, what a crash in the first start leaves, and what volumes have are no
// strangers.
func TestOfOthers(t *testing.T) {
	const (
		ids       = "cluster.id=xuvXomW0TTyhvkl85SqkeA\ndirectory.id=GCtX80NfRdyna2YKZFyhjQ\nnode.id=1\nversion=1\n"
		vote      = "__cluster_metadata-0/quorum-state"
		voteOfOwn = `{"leaderId":-1,"data_version":1,"crc32c":5}`
		log       = "00000000000000000000.log"
	)
	for _, tt := range []struct {
		what  string
		files map[string]string
		want  string
	}{
		{"nothing", nil, ""},
		{"a fresh volume", map[string]string{"lost+found/x": "", ".snapshot/x": "", ".DS_Store": "", ".lock": ""}, ""},
		{"ours", map[string]string{"meta.properties": "#Grete\n" + ids, "t-0/" + log: ""}, ""},
		{"ours of before", map[string]string{"meta.properties": "#\n" + ids}, ""},
		{"ours, with files of others", map[string]string{"meta.properties": "#Grete\n" + ids, "notes.txt": ""}, ""},
		{"ours, with another's meta.properties", map[string]string{"meta.properties": ids, vote: voteOfOwn}, ""},
		{"ours, meta.properties is gone", map[string]string{vote: voteOfOwn, "notes.txt": ""}, ""},
		{"ours, meta.properties is empty", map[string]string{"meta.properties": ""}, ""},
		{"ours, a crash in the first start", map[string]string{".lock": "", vote + ".tmp": "", "meta.properties.tmp": "x"}, ""},
		{"ours, meta.properties was removed", map[string]string{
			"recovery-point-offset-checkpoint": "", "log-start-offset-checkpoint.tmp": "", "replication-offset-checkpoint": "", "cleaner-offset-checkpoint": "", ".kafka_cleanshutdown": "",
			"t-0.0123-delete/" + log: "", "t-1.0123-future/" + log: "", "t-2.0123-stray/" + log: "", "t-3/partition.metadata": "", "t-4/leader-epoch-checkpoint": "",
		}, ""},
		{"written by hand", map[string]string{"meta.properties": ids}, "meta.properties"},
		{"written by hand, with a comment", map[string]string{"meta.properties": "# mine\n" + ids}, "meta.properties"},
		{"no properties at all", map[string]string{"meta.properties": "x"}, "meta.properties"},
		{"another program's", map[string]string{"PG_VERSION": "18", "base/1": ""}, "PG_VERSION"},
		{"a directory of others", map[string]string{"t-0/" + log: "", "www/index.html": ""}, "www"},
		{"a name like a partition's", map[string]string{"photos-2023/a.jpg": ""}, "photos-2023"},
		{"a file with a name like a partition's", map[string]string{"report-1": ""}, "report-1"},
		{"a name like that of a deleted one", map[string]string{"x-delete/" + log: ""}, "x-delete"},
	} {
		fsys := directoryWith(t, tt.files)
		if err := fsys.MkdirAll("/data/t-9", 0o755); err != nil { // empty
			t.Fatal(err)
		}
		if got := OfOthers(fsys, "/data"); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.what, got, tt.want)
		}
	}
	if got := OfOthers(vfs.NewMem(), "/new"); got != "" {
		t.Errorf("a new directory: %q", got)
	}
}

// directoryWith is a directory /data with these files.
func directoryWith(t *testing.T, files map[string]string) *vfs.Mem {
	t.Helper()
	fsys := vfs.NewMem()
	for name, text := range files {
		name = path.Join("/data", name)
		if err := fsys.MkdirAll(path.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := writeFile(fsys, name, []byte(text), false); err != nil {
			t.Fatal(err)
		}
	}
	return fsys
}
