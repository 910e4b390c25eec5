package group

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// checkExpiry says so when something of a group would expire, or the group itself, and nobody looks at it then.
func checkExpiry(s *shard, id string, nowMs int64) string {
	g := s.groups[id]
	due, nextMs := s.nextExpiry(g, id, nowMs)
	if due || s.deletable(g, id, 0) {
		nextMs = nowMs + 1
	}
	if e := s.expiring.byID[id]; nextMs != never && (e == nil || e.atMs > nextMs) {
		return fmt.Sprintf(" NOBODY LOOKS AT %s AT %d", id, nextMs)
	}
	return ""
}

// Expiry and the deletion of a topic end their rounds when the log refuses tombstones, of which one append does not
// hold all.
func TestTombstonesEndWhenAppendsFail(t *testing.T) {
	for name, drop := range map[string]func(*rig){
		"expiry": func(r *rig) {
			r.clock.Advance(time.Duration(r.cfg.OffsetsRetentionMs+r.cfg.OffsetsRetentionCheckIntervalMs) * time.Millisecond)
		},
		"deleted topic": func(r *rig) { r.dropTopic("t") },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, DefaultConfig())
			req := kmsg.NewPtrOffsetCommitRequest()
			req.Version, req.Group, req.Generation = 8, "g", -1
			topic := kmsg.OffsetCommitRequestTopic{Topic: "t"}
			for i := range int32(maxTombstones + 1) {
				topic.Partitions = append(topic.Partitions, kmsg.OffsetCommitRequestTopicPartition{Partition: i})
			}
			req.Topics = []kmsg.OffsetCommitRequestTopic{topic}
			done := make(chan struct{})
			r.s.CommitOffsets(req, func([]kmsg.OffsetCommitResponseTopic) { close(done) })
			<-done
			left := func() (n int) {
				r.look(func(*shard) {})
				r.look(func(sh *shard) {
					if of := sh.offsets.groups["g"]; of != nil {
						n = of.count
					}
				})
				return n
			}
			r.log.FailAppends(kerr.NotEnoughReplicas)
			drop(r)
			if got := left(); got != maxTombstones+1 {
				t.Fatalf("%d offsets are left", got)
			}
			r.log.FailAppends(nil)
			drop(r)
			if got := left(); got != 0 {
				t.Errorf("%d offsets are left", got)
			}
		})
	}
}
