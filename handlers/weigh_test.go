package handlers

import (
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/protocol"
)

// What is lent for a response before it is built is no less than its encoded form, and not many times as much.
func TestResponsesOfGroupsAreWeighed(t *testing.T) {
	r := newGroupRig(t)
	r.createTopic("wide", 200)
	w := r.dial()
	s := &script{w: w, t: t}
	s.ready()
	metadata := strings.Repeat("m", 1000)
	commit := func(group string, partitions int32) {
		req := kmsg.NewPtrOffsetCommitRequest()
		req.Group, req.Generation = group, -1
		topic := kmsg.OffsetCommitRequestTopic{Topic: "wide"}
		for p := range partitions {
			topic.Partitions = append(topic.Partitions, kmsg.OffsetCommitRequestTopicPartition{Partition: p, Metadata: &metadata})
		}
		req.Topics = []kmsg.OffsetCommitRequestTopic{topic}
		for _, p := range call[*kmsg.OffsetCommitResponse](w, 8, req).Topics[0].Partitions {
			if p.ErrorCode != 0 {
				t.Fatalf("error %d", p.ErrorCode)
			}
		}
	}
	for i := range 200 {
		commit(fmt.Sprint("small-", i), 1)
	}
	commit("large", 200)
	all := kmsg.NewOffsetFetchRequestGroup()
	all.Group = "large"
	for name, c := range map[string]struct {
		version int16
		req     kmsg.Request
	}{
		"ListGroups":           {4, kmsg.NewPtrListGroupsRequest()},
		"OffsetFetch":          {7, &kmsg.OffsetFetchRequest{Group: "large"}},
		"OffsetFetch, several": {8, &kmsg.OffsetFetchRequest{Groups: []kmsg.OffsetFetchRequestGroup{all}}},
	} {
		resp := call[kmsg.Response](w, c.version, c.req)
		took := int64(len(resp.AppendTo(nil)))
		if got := r.broker.Weigh(&protocol.Request{Version: c.version, Body: c.req}); got < took || got > 20*took {
			t.Errorf("%s: weighed %d, encoded %d", name, got, took)
		}
	}
	small := kmsg.NewPtrOffsetFetchRequest()
	small.Version, small.Group = 7, "small-1"
	if got := r.broker.Weigh(&protocol.Request{Version: 7, Body: small}); got != 0 {
		t.Errorf("a small group weighs %d", got)
	}
}
