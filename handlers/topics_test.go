package handlers

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A change that may take no time is not made, and says that its time is up.
func TestChangesWithoutTime(t *testing.T) {
	r := newRig(t)
	r.createTopic("t", 1)
	w := r.dial()
	for _, ms := range []int32{0, -1} {
		create := kmsg.NewPtrCreateTopicsRequest()
		topic := kmsg.NewCreateTopicsRequestTopic()
		topic.Topic, topic.NumPartitions, topic.ReplicationFactor = "new", 1, 1
		create.Topics, create.TimeoutMillis = append(create.Topics, topic), ms
		if got := call[*kmsg.CreateTopicsResponse](w, 7, create).Topics[0].ErrorCode; got != kerr.RequestTimedOut.Code {
			t.Errorf("CreateTopics: %d", got)
		}
		remove := kmsg.NewPtrDeleteTopicsRequest()
		remove.TopicNames, remove.TimeoutMillis = []string{"t"}, ms
		if got := call[*kmsg.DeleteTopicsResponse](w, 5, remove).Topics[0].ErrorCode; got != kerr.RequestTimedOut.Code {
			t.Errorf("DeleteTopics: %d", got)
		}
		more := kmsg.NewPtrCreatePartitionsRequest()
		grown := kmsg.NewCreatePartitionsRequestTopic()
		grown.Topic, grown.Count = "t", 3
		more.Topics, more.TimeoutMillis = append(more.Topics, grown), ms
		if got := call[*kmsg.CreatePartitionsResponse](w, 3, more).Topics[0].ErrorCode; got != kerr.RequestTimedOut.Code {
			t.Errorf("CreatePartitions: %d", got)
		}
	}
	if im := r.image.Load(); im.Topic("new") != nil || im.Topic("t") == nil || len(im.Topic("t").Partitions) != 1 {
		t.Error("something was changed")
	}
}
