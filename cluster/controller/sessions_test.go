package controller

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster/metadata"
)

// beat is a heartbeat of a broker that has applied the metadata up to offset.
func (s *stage) beat(t *testing.T, id int32, offset int64, stop bool) ([]metadata.Record, *kmsg.BrokerHeartbeatResponse) {
	t.Helper()
	req := kmsg.NewPtrBrokerHeartbeatRequest()
	req.BrokerID, req.BrokerEpoch, req.CurrentMetadataOffset, req.WantShutdown = id, s.image.Broker(id).Epoch, offset, stop
	records, resp, err := s.view().decide(req)
	if err != nil {
		t.Fatal(err)
	}
	return records, resp.(*kmsg.BrokerHeartbeatResponse)
}

// A broker that stops is let go when the others have applied the records that took its partitions, wherever these are
// in the log: entries of the Raft group's own may come before them.
func TestStoppingBrokerIsKeptUntilOthersKnow(t *testing.T) {
	s := newStage()
	for _, c := range []string{"register 1", "heartbeat 1", "register 2", "heartbeat 2", "create t assign=0:1,2"} {
		s.run(c)
	}
	before := s.image.Offset()
	records, _ := s.beat(t, 1, before, true)
	predicted := before + int64(len(records))
	const between = 3
	actual := predicted + between
	next, delta, err := s.image.Apply(records, actual, 1)
	if err != nil {
		t.Fatal(err)
	}
	s.index.follow(s.image, next, delta.Topics)
	s.image = next
	stopped := func(known int64) bool {
		s.sessions.heard(2, s.now, known)
		_, resp := s.beat(t, 1, actual, true)
		return resp.ShouldShutdown
	}
	if stopped(actual) {
		t.Error("it goes while nobody knows where its records are")
	}
	s.sessions.appended(actual + 1)
	if stopped(predicted) || stopped(actual-1) {
		t.Error("it goes before the other broker has its records")
	}
	if !stopped(actual) {
		t.Error("it is kept for nothing")
	}
}
