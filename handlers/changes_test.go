package handlers

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster/metadata"
	"grete/internal/security/sasl"
)

// notAdministration are APIs that change nothing an administrator has set, with the reason.
var notAdministration = map[string][]int16{
	"reads":                                 {1, 2, 3, 9, 10, 15, 16, 18, 23, 29, 32, 35, 41, 46, 50, 55, 60, 61, 65, 66, 69, 74, 75},
	"data, positions and membership":        {0, 8, 11, 12, 13, 14, 22, 24, 25, 26, 27, 28, 68},
	"logs in; failures have their own line": {17, 36},
}

// Every API is told of in the log, or changes nothing that an administrator has set. One that is added must say which.
func TestEveryRowIsAuditedOrNoAdministration(t *testing.T) {
	known := map[int16]string{}
	for why, keys := range notAdministration {
		for _, key := range keys {
			known[key] = why
		}
	}
	for _, rows := range [][]API{table, controllerTable} {
		for _, api := range rows {
			if api.Key >= 1000 { // nodes' own
				continue
			}
			if audited := changesOf[api.Key] != nil; audited == (known[api.Key] != "") {
				t.Errorf("%s: audited: %v; %q", kmsg.NameForKey(api.Key), audited, known[api.Key])
			}
		}
	}
}

// imageOf has records applied one after another.
func imageOf(t *testing.T, im *metadata.Image, records ...metadata.Record) *metadata.Image {
	t.Helper()
	im, _, err := im.Apply(records, im.Offset()+1, 1)
	if err != nil {
		t.Fatal(err)
	}
	return im
}

func topicRecords(name string, config ...string) []metadata.Record {
	records := []metadata.Record{&metadata.TopicRecord{Name: name, ID: topicID(name)}, &metadata.PartitionRecord{
		TopicID: topicID(name), Partition: metadata.Partition{Replicas: []int32{1, 2}, ISR: []int32{1, 2}, Leader: 1},
	}}
	for i := 0; i < len(config); i += 2 {
		records = append(records, setting(metadata.TopicResource, name, config[i], config[i+1]))
	}
	return records
}

func setting(kind metadata.ResourceType, name, key, value string) metadata.Record {
	return &metadata.ConfigRecord{Type: kind, Name: name, Config: key, Value: &value}
}

// told is what the log is told of a request that has had images and the response.
func told(before, after *metadata.Image, req kmsg.Request, resp kmsg.Response) (lines []string) {
	d := &done{before: before, after: after, req: req, resp: resp, secret: []byte("key")}
	changesOf[req.Key()](d)
	for _, c := range d.changes {
		lines = append(lines, fmt.Sprintf("%s %s: %s -> %s", c.resource, c.name, c.before, c.after))
	}
	return lines
}

func requireTold(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("told:\n%s\nexpected:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// What is told of topics and configurations: before and after, nothing of what was refused or only tried, and no value
// that may be a secret.
func TestTopicAndConfigChanges(t *testing.T) {
	before := imageOf(t, &metadata.Image{}, topicRecords("old", "retention.ms", "1000")...)
	before = imageOf(t, before, setting(metadata.BrokerResource, "1", "log.cleaner.threads", "2"), setting(metadata.BrokerResource, "1", "listener.name.a.ssl.keystore.password", "hush"))
	after := imageOf(t, before, topicRecords("new", "cleanup.policy", "compact")...)
	after = imageOf(t, after, setting(metadata.TopicResource, "old", "retention.ms", "2000"),
		setting(metadata.BrokerResource, "1", "log.cleaner.threads", "3"), setting(metadata.BrokerResource, "1", "listener.name.a.ssl.keystore.password", "hush hush"),
		setting(metadata.BrokerResource, "1", "of.a.plugin", "a secret, perhaps"))

	create, created := kmsg.NewPtrCreateTopicsRequest(), kmsg.NewPtrCreateTopicsResponse()
	create.Topics = []kmsg.CreateTopicsRequestTopic{{Topic: "new", Configs: []kmsg.CreateTopicsRequestTopicConfig{{Name: "cleanup.policy"}}}, {Topic: "refused"}}
	created.Topics = []kmsg.CreateTopicsResponseTopic{{Topic: "new"}, {Topic: "refused", ErrorCode: kerr.TopicAuthorizationFailed.Code}}
	requireTold(t, told(before, after, create, created), "TOPIC new:  -> 1 partitions, replication factor 2", `TOPIC new cleanup.policy: not set -> "compact"`)
	create.ValidateOnly = true
	requireTold(t, told(before, after, create, created))

	remove, removed := kmsg.NewPtrDeleteTopicsRequest(), kmsg.NewPtrDeleteTopicsResponse()
	removed.Topics = []kmsg.DeleteTopicsResponseTopic{{Topic: kmsg.StringPtr("new")}, {TopicID: topicID("old")}, {Topic: kmsg.StringPtr("none"), ErrorCode: 3}}
	requireTold(t, told(after, before, remove, removed), "TOPIC new: 1 partitions, replication factor 2 -> ", "TOPIC old: 1 partitions, replication factor 2 -> ")

	alter, altered := kmsg.NewPtrIncrementalAlterConfigsRequest(), kmsg.NewPtrIncrementalAlterConfigsResponse()
	alter.Resources = []kmsg.IncrementalAlterConfigsRequestResource{{ResourceType: kmsg.ConfigResourceTypeBrokerLogger, ResourceName: "1", Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{
		{Name: "root", Value: kmsg.StringPtr("DEBUG")}}}}
	altered.Resources = []kmsg.IncrementalAlterConfigsResponseResource{
		{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: "old"}, {ResourceType: kmsg.ConfigResourceTypeBroker, ResourceName: "1"},
		{ResourceType: kmsg.ConfigResourceTypeBrokerLogger, ResourceName: "1"}, {ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: "new", ErrorCode: 40},
	}
	requireTold(t, told(before, after, alter, altered),
		`TOPIC old retention.ms: "1000" -> "2000"`,
		"BROKER 1 listener.name.a.ssl.keystore.password: set; the value is not shown -> set; the value is not shown",
		`BROKER 1 log.cleaner.threads: "2" -> "3"`,
		"BROKER 1 of.a.plugin: not set -> set; the value is not shown",
		"BROKER_LOGGER 1 root:  -> DEBUG")
	alter.ValidateOnly = true
	requireTold(t, told(before, after, alter, altered))
}

// What is told of users and tokens names no salt, key or HMAC.
func TestCredentialChanges(t *testing.T) {
	ann := &metadata.UserScramCredentialRecord{User: "ann", Mechanism: 1, Iterations: 4096, Salt: []byte("NaCl"), StoredKey: []byte("hush"), ServerKey: []byte("hush")}
	token := &metadata.DelegationTokenRecord{Owner: "User:ann", Requester: "User:ann", Renewers: []string{"User:ben"}, MaxTimestamp: 9000, ExpirationTimestamp: 7000, TokenID: "id"}
	renewed := *token
	renewed.ExpirationTimestamp = 8000
	none := &metadata.Image{}
	one := imageOf(t, none, ann, token)
	two := imageOf(t, one, &renewed)

	alter, altered := kmsg.NewPtrAlterUserSCRAMCredentialsRequest(), kmsg.NewPtrAlterUserSCRAMCredentialsResponse()
	altered.Results = []kmsg.AlterUserSCRAMCredentialsResponseResult{{User: "ann"}, {User: "ben", ErrorCode: 91}}
	requireTold(t, told(none, one, alter, altered), "USER ann:  -> SCRAM-SHA-256 with 4096 iterations")

	created := kmsg.NewPtrCreateDelegationTokenResponse()
	created.TokenID, created.HMAC = "id", sasl.TokenHMAC([]byte("key"), "id")
	const was = "owner User:ann, requester User:ann, renewers [User:ben], expires at 7000"
	requireTold(t, told(none, one, kmsg.NewPtrCreateDelegationTokenRequest(), created), "DELEGATION_TOKEN id:  -> "+was)
	renew := kmsg.NewPtrRenewDelegationTokenRequest()
	renew.HMAC = created.HMAC
	requireTold(t, told(one, two, renew, kmsg.NewPtrRenewDelegationTokenResponse()), "DELEGATION_TOKEN id: "+was+" -> "+strings.Replace(was, "7000", "8000", 1))
	renew.HMAC = []byte("another's")
	requireTold(t, told(one, two, renew, kmsg.NewPtrRenewDelegationTokenResponse()))
}

// What is told of ACLs, partitions, groups and nodes.
func TestOtherChanges(t *testing.T) {
	before := imageOf(t, &metadata.Image{}, topicRecords("t")...)
	moved := metadata.NewPartitionChange(topicID("t"), 0)
	moved.Leader, moved.Replicas, moved.Adding = 2, []int32{1, 2, 3}, []int32{3}
	after := imageOf(t, before, moved)

	acls, made := kmsg.NewPtrCreateACLsRequest(), kmsg.NewPtrCreateACLsResponse()
	one := kmsg.CreateACLsRequestCreation{ResourceType: 2, ResourceName: "t", ResourcePatternType: 3, Principal: "User:ann", Host: "*", Operation: 3, PermissionType: 3}
	acls.Creations, made.Results = []kmsg.CreateACLsRequestCreation{one, one}, []kmsg.CreateACLsResponseResult{{ErrorCode: 42}, {}}
	requireTold(t, told(before, before, acls, made), "ACL TOPIC t (LITERAL):  -> ALLOW User:ann from *: READ")
	gone := kmsg.NewPtrDeleteACLsResponse()
	gone.Results = []kmsg.DeleteACLsResponseResult{{MatchingACLs: []kmsg.DeleteACLsResponseResultMatchingACL{
		{ResourceType: 2, ResourceName: "t", ResourcePatternType: 3, Principal: "User:ann", Host: "*", Operation: 3, PermissionType: 3}}}}
	requireTold(t, told(before, before, kmsg.NewPtrDeleteACLsRequest(), gone), "ACL TOPIC t (LITERAL): ALLOW User:ann from *: READ -> ")

	reassigned := kmsg.NewPtrAlterPartitionAssignmentsResponse()
	reassigned.Topics = []kmsg.AlterPartitionAssignmentsResponseTopic{{Topic: "t", Partitions: []kmsg.AlterPartitionAssignmentsResponseTopicPartition{{}, {Partition: 7, ErrorCode: 3}}}}
	requireTold(t, told(before, after, kmsg.NewPtrAlterPartitionAssignmentsRequest(), reassigned), "PARTITION t-0: replicas [1 2] -> replicas [1 2 3], adding [3], removing []")
	elected := kmsg.NewPtrElectLeadersResponse()
	elected.Topics = []kmsg.ElectLeadersResponseTopic{{Topic: "t", Partitions: []kmsg.ElectLeadersResponseTopicPartition{{}}}}
	requireTold(t, told(before, after, kmsg.NewPtrElectLeadersRequest(), elected), "PARTITION t-0: leader 1 -> leader 2")
	requireTold(t, told(before, before, kmsg.NewPtrElectLeadersRequest(), elected))

	dirs, moving := kmsg.NewPtrAlterReplicaLogDirsRequest(), kmsg.NewPtrAlterReplicaLogDirsResponse()
	dirs.Dirs = []kmsg.AlterReplicaLogDirsRequestDir{{Dir: "/b", Topics: []kmsg.AlterReplicaLogDirsRequestDirTopic{{Topic: "t", Partitions: []int32{0, 1}}}}}
	moving.Topics = []kmsg.AlterReplicaLogDirsResponseTopic{{Topic: "t", Partitions: []kmsg.AlterReplicaLogDirsResponseTopicPartition{{}, {Partition: 1, ErrorCode: 57}}}}
	requireTold(t, told(before, before, dirs, moving), "PARTITION t-0:  -> log directory /b")
	cut := kmsg.NewPtrDeleteRecordsResponse()
	cut.Topics = []kmsg.DeleteRecordsResponseTopic{{Topic: "t", Partitions: []kmsg.DeleteRecordsResponseTopicPartition{{LowWatermark: 5}, {Partition: 1, ErrorCode: 1}}}}
	requireTold(t, told(before, before, kmsg.NewPtrDeleteRecordsRequest(), cut), "PARTITION t-0:  -> log start offset 5")

	groups := kmsg.NewPtrDeleteGroupsResponse()
	groups.Groups = []kmsg.DeleteGroupsResponseGroup{{Group: "g"}, {Group: "busy", ErrorCode: 68}}
	requireTold(t, told(before, before, kmsg.NewPtrDeleteGroupsRequest(), groups), "GROUP g:  -> deleted")
	voter := kmsg.NewPtrRemoveRaftVoterRequest()
	voter.VoterID = 3
	requireTold(t, told(before, before, voter, kmsg.NewPtrRemoveRaftVoterResponse()), "VOTER 3, directory "+metadata.UUID{}.String()+": voter -> no voter")
	refused := kmsg.NewPtrRemoveRaftVoterResponse()
	refused.ErrorCode = 42
	requireTold(t, told(before, before, voter, refused))
}

// A line names the client; the lines of one request, and each name in them, are bounded.
func TestChangesAreWritten(t *testing.T) {
	var log strings.Builder
	names := []string{strings.Repeat("x", 1000)}
	for i := range maxChangeLines + 5 {
		names = append(names, fmt.Sprint("g", i))
	}
	r := newRig(t, withBroker(func(b *Broker) { b.Changes = NewChanges(zerolog.New(&log)) }))
	row := changesOf[42]
	defer func() { r.close(); changesOf[42] = row }()
	changesOf[42] = func(d *done) {
		for _, name := range names {
			d.add("GROUP", name, "", "deleted")
		}
	}
	call[kmsg.Response](r.dial(), 2, kmsg.NewPtrDeleteGroupsRequest())
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	if len(lines) != maxChangeLines || !strings.Contains(lines[maxChangeLines-1], `"untold":6`) || strings.Contains(log.String(), names[0]) {
		t.Errorf("%d lines, the last is %s", len(lines), lines[len(lines)-1])
	}
	for _, want := range []string{`"principal":"User:ANONYMOUS"`, `"host":"127.0.0.1"`, `"request":"DeleteGroups"`, `"after":"deleted"`, `"message":"changed"`} {
		if !strings.Contains(lines[0], want) {
			t.Errorf("no %s in %s", want, lines[0])
		}
	}
}
