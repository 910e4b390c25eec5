package replica

import (
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func key(topic string, index int32) partitionKey { return partitionKey{idOf(topic), index} }

// targets are the offsets that a request asks for.
func targets(req *kmsg.FetchRequest) map[partitionKey]int64 {
	out := map[partitionKey]int64{}
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			out[partitionKey{t.TopicID, p.Partition}] = p.FetchOffset
		}
	}
	return out
}

func forgotten(req *kmsg.FetchRequest) []partitionKey {
	var out []partitionKey
	for _, t := range req.ForgottenTopics {
		for _, p := range t.Partitions {
			out = append(out, partitionKey{t.TopicID, p})
		}
	}
	return out
}

func TestSessionAsksForWhatDiffers(t *testing.T) {
	o := Options{Replication: Replication{BrokerEpoch: func() int64 { return 9 }}}
	wanted := map[partitionKey]position{key("a", 0): {offset: 1}, key("a", 1): {offset: 1}, key("b", 0): {offset: 1}}
	var s fetchSession
	for _, step := range []struct {
		what      string
		change    func()
		answer    int32 // the session that the leader names, 0: none
		epoch     int32
		targets   map[partitionKey]int64
		forgotten []partitionKey
	}{
		{"all", func() {}, 5, 0, map[partitionKey]int64{key("a", 0): 1, key("a", 1): 1, key("b", 0): 1}, nil},
		{"nothing", func() {}, 5, 1, nil, nil},
		{"one moved", func() { wanted[key("a", 1)] = position{offset: 2} }, 5, 2, map[partitionKey]int64{key("a", 1): 2}, nil},
		{"one left", func() { delete(wanted, key("b", 0)) }, 5, 3, nil, []partitionKey{key("b", 0)}},
		{"it came back", func() { wanted[key("b", 0)] = position{offset: 1} }, 5, 4, map[partitionKey]int64{key("b", 0): 1}, nil},
		{"a new epoch", func() { wanted[key("b", 0)] = position{offset: 1, leaderEpoch: 1} }, 5, 5, map[partitionKey]int64{key("b", 0): 1}, nil},
		{"the leader has no session", func() {}, 0, 6, nil, nil},
		{"all again", func() {}, 0, 0, map[partitionKey]int64{key("a", 0): 1, key("a", 1): 2, key("b", 0): 1}, nil},
		{"lost", s.lost, 5, 0, map[partitionKey]int64{key("a", 0): 1, key("a", 1): 2, key("b", 0): 1}, nil},
	} {
		step.change()
		req := s.request(o, wanted)
		if got := targets(req); !maps.Equal(got, step.targets) || !slices.Equal(forgotten(req), step.forgotten) || req.SessionEpoch != step.epoch {
			t.Errorf("%s: epoch %d, asked for %v, forgot %v", step.what, req.SessionEpoch, got, forgotten(req))
		}
		s.accepted(step.answer)
	}
}

// 0 would be a full fetch.
func TestSessionEpochWraps(t *testing.T) {
	s := fetchSession{epoch: math.MaxInt32}
	s.accepted(5)
	if s.epoch != 1 {
		t.Errorf("epoch %d", s.epoch)
	}
}
