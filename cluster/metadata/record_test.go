package metadata

import (
	"bytes"
	"encoding/hex"
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"
)

func ptr[T any](v T) *T { return &v }

var sampleID = UUID{1, 2, 3, 4, 5, 6, 0x47, 8, 0x89, 0xa, 0xb, 0xc, 0xd, 0xe, 0xf, 0x10}

// kafkaRecords are the values that testdata/kafka-records.txt holds as Kafka 4.4's MetadataRecordSerde wrote them.
var kafkaRecords = func() map[string]Record {
	d1, d2 := UUID{7: 1, 15: 2}, UUID{7: 3, 15: 4}
	partition := Partition{
		Replicas: []int32{1, 2}, ISR: []int32{2}, Leader: 2, LeaderEpoch: 5, PartitionEpoch: 9,
	}
	v1 := partition
	v1.Directories, v1.LeaderRecoveryState = []UUID{d1, d2}, 1
	endpoints := []Endpoint{{"PLAINTEXT", "localhost", 59092, 0}}
	features := []FeatureRange{{"metadata.version", 7, 30}}
	little := NewPartitionChange(sampleID, 0)
	little.ISR = []int32{1}
	return map[string]Record{
		"topic":        &TopicRecord{"orders", sampleID},
		"partition-v0": &PartitionRecord{3, sampleID, partition},
		"partition-v1": &PartitionRecord{3, sampleID, v1},
		"partition-v2": &PartitionRecord{3, sampleID, Partition{
			Replicas: []int32{1, 2, 3}, ISR: []int32{2}, Removing: []int32{3}, Adding: []int32{1}, Leader: -1,
			LeaderEpoch: 5, PartitionEpoch: 9, Directories: []UUID{d1, d2, d1}, ELR: []int32{3}, LastKnownELR: []int32{1},
		}},
		"partition-change": &PartitionChangeRecord{
			Index: 3, TopicID: sampleID, ISR: []int32{1}, Leader: 1, Replicas: []int32{1}, Removing: []int32{},
			Adding: []int32{}, Directories: []UUID{d1}, ELR: []int32{2}, LastKnownELR: []int32{},
		},
		"partition-change-little": little,
		"remove-topic":            &RemoveTopicRecord{sampleID},
		"config":                  &ConfigRecord{TopicResource, "orders", "retention.ms", ptr("-1")},
		"config-null":             &ConfigRecord{BrokerResource, "", "log.cleaner.threads", nil},
		"register-broker": &RegisterBrokerRecord{
			BrokerID: 1, Incarnation: sampleID, BrokerEpoch: 77, Endpoints: endpoints, Features: features,
			Rack: ptr("r1"), Fenced: true, LogDirs: []UUID{d1},
		},
		"register-broker-v4": &RegisterBrokerRecord{
			BrokerID: 1, Incarnation: sampleID, BrokerEpoch: 77, Endpoints: endpoints, Features: features,
			InControlledShutdown: true, LogDirs: []UUID{d1}, CordonedLogDirs: []UUID{d1},
		},
		"registration-change": &BrokerRegistrationChangeRecord{
			BrokerID: 1, BrokerEpoch: 77, Fenced: -1, InControlledShutdown: 1, LogDirs: []UUID{d2},
		},
		"registration-change-little": &BrokerRegistrationChangeRecord{BrokerID: 1, BrokerEpoch: 77, Fenced: 1},
		"fence":                      &FenceBrokerRecord{1, 77},
		"unfence":                    &UnfenceBrokerRecord{1, 77},
		"unregister":                 &UnregisterBrokerRecord{1, 77},
		"producer-ids":               &ProducerIDsRecord{1, 77, 2000},
		"feature":                    &FeatureLevelRecord{"metadata.version", 29},
		"noop":                       &NoOpRecord{},
		"quota": &ClientQuotaRecord{
			Entity: []QuotaEntity{{"user", ptr("ann")}, {"client-id", nil}}, Limit: "producer_byte_rate", Value: 1024.5,
		},
		"quota-remove": &ClientQuotaRecord{
			Entity: []QuotaEntity{{"ip", ptr("10.0.0.1")}}, Limit: "connection_creation_rate", Remove: true,
		},
		"scram":        &UserScramCredentialRecord{"ann", 1, []byte{1, 2}, []byte{3}, []byte{4, 5, 6}, 4096},
		"remove-scram": &RemoveUserScramCredentialRecord{"ann", 2},
		"delegation-token": &DelegationTokenRecord{
			Owner: "User:ann", Requester: "User:bob", Renewers: []string{"User:carl", "User:dan"}, IssueTimestamp: 1000, MaxTimestamp: 3000, ExpirationTimestamp: 2000, TokenID: "token",
		},
		"remove-delegation-token": &RemoveDelegationTokenRecord{"token"},
		"acl":                     &AccessControlEntryRecord{sampleID, 2, "orders", 3, "User:ann", "*", 3, 3},
		"remove-acl":              &RemoveAccessControlEntryRecord{sampleID},
		"clear-elr":               &ClearELRRecord{"orders"},
		"register-controller": &RegisterControllerRecord{
			ControllerID: 1, Incarnation: sampleID, Endpoints: endpoints, Features: features,
		},
		"unregister-controller": &UnregisterControllerRecord{7},
	}
}()

// olderVersions are written by Kafka at a version below the one we write.
var olderVersions = map[string]bool{
	"partition-v0": true, "partition-v1": true, "register-broker": true, "registration-change": true,
}

func goldenRecords(t testing.TB) map[string][]byte {
	t.Helper()
	text, err := os.ReadFile("testdata/kafka-records.txt")
	if err != nil {
		t.Fatal(err)
	}
	golden := map[string][]byte{}
	for line := range strings.Lines(string(text)) {
		name, digits, _ := strings.Cut(strings.TrimSpace(line), " ")
		if golden[name], err = hex.DecodeString(digits); err != nil {
			t.Fatal(err)
		}
	}
	return golden
}

func TestRecordsAreKafkas(t *testing.T) {
	golden := goldenRecords(t)
	if len(golden) != len(kafkaRecords) {
		t.Fatalf("%d golden records, %d expected", len(golden), len(kafkaRecords))
	}
	for name, want := range kafkaRecords {
		got, err := DecodeRecord(golden[name])
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: decoded %+v, %v; want %+v", name, got, err, want)
		}
		if raw := AppendRecord(nil, want); !olderVersions[name] && !bytes.Equal(raw, golden[name]) {
			t.Errorf("%s: encoded %x; Kafka %x", name, raw, golden[name])
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	for name, raw := range goldenRecords(t) {
		for cut := range raw {
			if _, err := DecodeRecord(raw[:cut]); !errors.Is(err, ErrMalformed) {
				t.Errorf("%s cut at %d of %d: %v", name, cut, len(raw), err)
			}
		}
		if _, err := DecodeRecord(append(raw[:len(raw):len(raw)], 0)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s with a byte too many: %v", name, err)
		}
	}
	for _, raw := range []string{"02140000", "01630000", "01140100", "01ffffff0f0000"} {
		b, _ := hex.DecodeString(raw)
		if _, err := DecodeRecord(b); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v", raw, err)
		}
	}
}

func TestDecodeSkipsUnknownTags(t *testing.T) {
	r, err := DecodeRecord([]byte{1, 20, 0, 1, 99, 2, 7, 7})
	if _, ok := r.(*NoOpRecord); err != nil || !ok {
		t.Fatalf("%v, %v", r, err)
	}
}

func FuzzRecord(f *testing.F) {
	for _, raw := range goldenRecords(f) {
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		first, err := DecodeRecord(raw)
		if err != nil {
			return
		}
		written := AppendRecord(nil, first)
		second, err := DecodeRecord(written)
		if err != nil {
			t.Fatalf("%x was read, but not %x written from it: %v", raw, written, err)
		}
		if again := AppendRecord(nil, second); !bytes.Equal(again, written) {
			t.Fatalf("%x became %x", written, again)
		}
	})
}
