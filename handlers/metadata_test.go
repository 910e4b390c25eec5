package handlers

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster/metadata"
)

// metadataLines is a Metadata response in short: one line for the cluster, one for each topic.
func metadataLines(resp *kmsg.MetadataResponse) []string {
	cluster := "null"
	if resp.ClusterID != nil {
		cluster = *resp.ClusterID
	}
	lines := []string{fmt.Sprintf("cluster %s controller %d brokers %d operations %d", cluster, resp.ControllerID, len(resp.Brokers), resp.AuthorizedOperations)}
	for _, t := range resp.Topics {
		name := "null"
		if t.Topic != nil {
			name = fmt.Sprintf("%q", *t.Topic)
		}
		line := fmt.Sprintf("%s error %d partitions %d", name, t.ErrorCode, len(t.Partitions))
		if t.TopicID != (metadata.UUID{}) {
			line += " id"
		}
		if t.IsInternal {
			line += " internal"
		}
		if t.AuthorizedOperations != notAsked {
			line += fmt.Sprintf(" operations %d", t.AuthorizedOperations)
		}
		lines = append(lines, line)
	}
	return lines
}

func named(names ...string) []kmsg.MetadataRequestTopic {
	topics := []kmsg.MetadataRequestTopic{}
	for _, name := range names {
		topics = append(topics, kmsg.MetadataRequestTopic{Topic: &name})
	}
	return topics
}

func byID(ids ...metadata.UUID) []kmsg.MetadataRequestTopic {
	var topics []kmsg.MetadataRequestTopic
	for _, id := range ids {
		topics = append(topics, kmsg.MetadataRequestTopic{TopicID: id})
	}
	return topics
}

// The expectations are what a Kafka 4.4 broker answered to the same requests.
func TestMetadata(t *testing.T) {
	r := newRig(t)
	r.createTopic("t1", 2)
	r.createTopic("t2", 1)
	w := r.dial()
	unknown := metadata.UUID{1, 1}
	both := byID(topicID("t1"))
	both[0].Topic = kmsg.StringPtr("zzz")
	for _, tt := range []struct {
		what    string
		version int16
		topics  []kmsg.MetadataRequestTopic
		ops     bool
		want    string
	}{
		{"null is all", 12, nil, false, `cluster rig controller 1 brokers 1 operations -2147483648|"t1" error 0 partitions 2 id|"t2" error 0 partitions 1 id`},
		{"no ids before v10", 9, nil, false, `cluster rig controller 1 brokers 1 operations -2147483648|"t1" error 0 partitions 2|"t2" error 0 partitions 1`},
		{"empty is all in v0", 0, named(), false, `cluster null controller -1 brokers 1 operations -2147483648|"t1" error 0 partitions 2|"t2" error 0 partitions 1`},
		{"empty is none from v1", 1, named(), false, `cluster null controller 1 brokers 1 operations -2147483648`},
		{"unknown, invalid, repeated", 12, named("nope", "b*d", "", "t2", "t1", "t1", "nope"), true,
			`cluster rig controller 1 brokers 1 operations -2147483648|"t2" error 0 partitions 1 id operations 3576|"t1" error 0 partitions 2 id operations 3576|` +
				`"nope" error 3 partitions 0 operations 3576|"b*d" error 17 partitions 0 operations 3576|"" error 17 partitions 0 operations 3576`},
		{"operations of the cluster", 9, named("t1"), true, `cluster rig controller 1 brokers 1 operations 8096|"t1" error 0 partitions 2 operations 3576`},
		{"internal", 12, named("__consumer_offsets"), false, `cluster rig controller 1 brokers 1 operations -2147483648|"__consumer_offsets" error 3 partitions 0 internal`},
		{"by id", 12, byID(topicID("t1")), false, `cluster rig controller 1 brokers 1 operations -2147483648|"t1" error 0 partitions 2 id`},
		{"id before name", 12, both, false, `cluster rig controller 1 brokers 1 operations -2147483648|"t1" error 0 partitions 2 id`},
		{"unknown id, names beside ids", 12, append(byID(unknown, unknown), named("t1")...), false,
			`cluster rig controller 1 brokers 1 operations -2147483648|null error 100 partitions 0 id`},
		{"ids in v10", 10, byID(topicID("t1")), false, `cluster null controller -1 brokers 0 operations -2147483648|"" error 42 partitions 0 id`},
		{"null name in v11", 11, byID(metadata.UUID{}), false, `cluster null controller -1 brokers 0 operations -2147483648|"" error 42 partitions 0`},
		{"neither name nor id in v12", 12, byID(metadata.UUID{}), false, `cluster null controller -1 brokers 0 operations -2147483648|"" error -1 partitions 0`},
	} {
		req := kmsg.NewPtrMetadataRequest()
		req.Topics, req.AllowAutoTopicCreation = tt.topics, false
		req.IncludeTopicAuthorizedOperations = tt.ops
		req.IncludeClusterAuthorizedOperations = tt.ops && tt.version <= 10
		got := strings.Join(metadataLines(call[*kmsg.MetadataResponse](w, tt.version, req)), "|")
		if got != tt.want {
			t.Errorf("%s:\n got %s\nwant %s", tt.what, got, tt.want)
		}
	}
}

// Brokers and partitions that cannot be reached, from what Kafka's KRaftMetadataCache does.
func TestMetadataOfUnreachablePartitions(t *testing.T) {
	r := newRig(t)
	r.createTopic("t", 1)
	gone := metadata.NewPartitionChange(topicID("t"), 0)
	gone.Leader, gone.ISR, gone.Replicas = 2, []int32{2}, []int32{rigNode, 2} // no such broker
	r.apply(gone)
	w := r.dial()
	for version, want := range map[int16]int16{0: 5, 5: 5, 6: 5, 12: 5} {
		req := kmsg.NewPtrMetadataRequest()
		req.Topics = named("t")
		p := call[*kmsg.MetadataResponse](w, version, req).Topics[0].Partitions[0]
		if p.ErrorCode != want || p.Leader != noLeader || version >= 5 && !slices.Equal(p.OfflineReplicas, []int32{2}) {
			t.Errorf("v%d: error %d leader %d offline %v", version, p.ErrorCode, p.Leader, p.OfflineReplicas)
		}
	}
}

func TestDescribeCluster(t *testing.T) {
	r := newRig(t)
	w := r.dial()
	for _, tt := range []struct {
		version  int16
		endpoint int8
		want     string
	}{
		{0, 1, "0 null rig 1 1 8096"},
		{2, 1, "0 null rig 1 1 8096"},
		{2, 2, "114 The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER  -1 0 -2147483648"},
		{2, 9, "115 Unsupported endpoint type 9  -1 0 -2147483648"},
	} {
		req := kmsg.NewPtrDescribeClusterRequest()
		req.EndpointType, req.IncludeClusterAuthorizedOperations = tt.endpoint, true
		resp := call[*kmsg.DescribeClusterResponse](w, tt.version, req)
		message := "null"
		if resp.ErrorMessage != nil {
			message = *resp.ErrorMessage
		}
		got := fmt.Sprintf("%d %s %s %d %d %d", resp.ErrorCode, message, resp.ClusterID, resp.ControllerID, len(resp.Brokers), resp.ClusterAuthorizedOperations)
		if got != tt.want {
			t.Errorf("v%d endpoint %d:\n got %s\nwant %s", tt.version, tt.endpoint, got, tt.want)
		}
	}
}

// Pages as a Kafka 4.4 broker cut them.
func TestDescribeTopicPartitions(t *testing.T) {
	r := newRig(t)
	r.createTopic("t1", 2)
	r.createTopic("t2", 2)
	w := r.dial()
	type cursor struct {
		topic     string
		partition int32
	}
	for _, tt := range []struct {
		topics string
		limit  int32
		cursor *cursor
		want   string
	}{
		{"t2 nope t1 b*d t1", 2000, nil, "b*d:17[] nope:3[] t1:0[0 1] t2:0[0 1]"},
		{"t2 nope t1", -1, nil, "nope:3[] t1:0[0] next t1-1"},
		{"t2 nope t1", 0, nil, "nope:3[] t1:0[0] next t1-1"},
		{"t2 nope t1", 2, nil, "nope:3[] t1:0[0 1] next t2-0"},
		{"t2 nope t1", 3, nil, "nope:3[] t1:0[0 1] t2:0[0] next t2-1"},
		{"t2 t1", 2, &cursor{"t1", 1}, "t1:0[1] t2:0[0] next t2-1"},
		{"t2 t1", 20, &cursor{"t1", 7}, "t1:0[] t2:0[0 1]"},
		{"t2 t1", 20, &cursor{"t11", 0}, "t2:42[] t1:42[]"},
		{"t2 t1", 20, &cursor{"t1", -1}, "t2:42[] t1:42[]"},
		{"", 20, &cursor{"t2", 1}, "t2:0[1]"},
		{"", 2, nil, "t1:0[0 1] next t2-0"},
		{`t1 ""`, 20, nil, "t1:-1[] :-1[]"},
		{`a ""`, 20, &cursor{"", 0}, ":17[] a:3[]"},
		{"nope", 20, &cursor{"nope", 1}, "nope:3[]"},
	} {
		req := kmsg.NewPtrDescribeTopicPartitionsRequest()
		req.ResponsePartitionLimit = tt.limit
		for _, name := range strings.Fields(tt.topics) {
			req.Topics = append(req.Topics, kmsg.DescribeTopicPartitionsRequestTopic{Topic: strings.Trim(name, `"`)})
		}
		if tt.cursor != nil {
			req.Cursor = &kmsg.DescribeTopicPartitionsRequestCursor{Topic: tt.cursor.topic, Partition: tt.cursor.partition}
		}
		if got := pageLine(call[*kmsg.DescribeTopicPartitionsResponse](w, 0, req)); got != tt.want {
			t.Errorf("%s limit %d cursor %v:\n got %s\nwant %s", tt.topics, tt.limit, tt.cursor, got, tt.want)
		}
	}
}

func pageLine(resp *kmsg.DescribeTopicPartitionsResponse) string {
	var parts []string
	for _, topic := range resp.Topics {
		var indexes []int32
		for _, p := range topic.Partitions {
			indexes = append(indexes, p.Partition)
		}
		parts = append(parts, fmt.Sprintf("%s:%d%v", *topic.Topic, topic.ErrorCode, indexes))
	}
	if n := resp.NextCursor; n != nil {
		parts = append(parts, fmt.Sprintf("next %s-%d", n.Topic, n.Partition))
	}
	return strings.Join(parts, " ")
}
