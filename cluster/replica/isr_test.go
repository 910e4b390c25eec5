package replica

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/internal/clock"
)

// Only a refusal that rules out that the proposal was committed ends it; after any other, metadata has the last word.
func TestProposalsStandUntilTheyAreSettled(t *testing.T) {
	const stands, withdrawn, again = "stands", "withdrawn", "is asked again"
	for what, c := range map[string]struct {
		code  int16
		epoch int32
		want  string
	}{
		"committed":              {0, 1, stands},
		"so already":             {0, 0, withdrawn},
		"not attempted":          {kerr.OperationNotAttempted.Code, 0, withdrawn},
		"ineligible":             {kerr.IneligibleReplica.Code, 0, withdrawn},
		"invalid update version": {kerr.InvalidUpdateVersion.Code, 0, stands},
		"fenced leader":          {kerr.FencedLeaderEpoch.Code, 0, stands},
		"new leader":             {kerr.NewLeaderElected.Code, 0, stands},
		"invalid request":        {kerr.InvalidRequest.Code, 0, stands},
		"unknown topic":          {kerr.UnknownTopicID.Code, 0, stands},
		"unknown partition":      {kerr.UnknownTopicOrPartition.Code, 0, stands},
		"another error":          {kerr.UnknownServerError.Code, 0, again},
	} {
		r := newReplicated(t)
		p := r.replicate(1, 1)
		requireError(t, r.follows(p, 2, 0), nil)
		asked := r.proposals()[0]
		settled := asked.decided(decision{c.code, c.epoch})
		got := stands
		switch {
		case !settled:
			got = again
		case !asked.stands():
			got = withdrawn
		}
		if got != c.want {
			t.Errorf("%s: it %s, want that it %s", what, got, c.want)
		}
	}
}

func TestOneProposalAtATime(t *testing.T) {
	r := newReplicated(t)
	p := r.replicate(1, 1)
	requireError(t, r.follows(p, 2, 0), nil)
	requireError(t, r.follows(p, 3, 0), nil)
	p.shrink()
	if asked := r.proposals(); len(asked) != 1 || len(asked[0].isr) != 2 {
		t.Fatalf("%d proposals", len(asked))
	}
	r.isr(1, 2)
	requireError(t, r.follows(p, 3, 0), nil)
	if asked := r.proposals(); len(asked) != 1 || len(asked[0].isr) != 3 || asked[0].partitionEpoch != 1 {
		t.Fatalf("%d proposals", len(asked))
	}
	r.elect(1, 1, 2)
	if p.state.Load().proposed != nil {
		t.Error("a proposal outlived its leadership")
	}
}

// Nobody joins who lacks what is committed, or what came before this leadership: that may be committed, too.
func TestWhoMayJoin(t *testing.T) {
	for _, c := range []struct {
		isr  []int32
		want []int // proposals, when broker 2 is at each offset
	}{
		{[]int32{1}, []int{0, 0, 0, 1}},    // everything is committed
		{[]int32{1, 3}, []int{0, 0, 1, 0}}, // nothing is, and one proposal is enough
	} {
		r := newReplicated(t)
		p := r.replicate(1, c.isr...)
		r.writes(p, 2)
		r.elect(1, c.isr...)
		r.writes(p, 1)
		for offset, want := range c.want {
			requireError(t, r.follows(p, 2, int64(offset)), nil)
			if asked := r.proposals(); len(asked) != want {
				t.Errorf("%v in sync, at offset %d: %d proposals, want %d", c.isr, offset, len(asked), want)
			}
		}
	}
}

// Those in sync stay so for replica.lag.time.max.ms from when they last had caught up, or from the beginning of the
// leadership.
func TestLaggingReplicasLeave(t *testing.T) {
	r := newReplicated(t)
	p := r.replicate(1, 1, 2, 3)
	r.writes(p, 1)
	for _, step := range []struct {
		after time.Duration
		fetch int64 // of broker 2
		want  []int32
	}{
		{lagMaxMs, 1, nil},
		{1, 1, []int32{1, 2}},
	} {
		r.clock.Advance(step.after * time.Millisecond)
		requireError(t, r.follows(p, 2, step.fetch), nil)
		p.shrink()
		var got []int32
		for _, c := range r.proposals() {
			for _, m := range c.isr {
				got = append(got, m.BrokerID)
			}
		}
		if !slices.Equal(got, step.want) {
			t.Errorf("asked for %v, want %v", got, step.want)
		}
	}
}

// A request that fails as a whole, or lacks a partition, is made again; what came meanwhile goes with it.
func TestAltererAsksAgain(t *testing.T) {
	r := newReplicated(t)
	p := r.replicate(1, 1)
	requireError(t, r.follows(p, 2, 0), nil)
	change := r.proposals()[0]
	var asked []*kmsg.AlterPartitionRequest
	answers := []func() (*kmsg.AlterPartitionResponse, error){
		func() (*kmsg.AlterPartitionResponse, error) { return nil, errors.New("no controller") },
		func() (*kmsg.AlterPartitionResponse, error) {
			resp := kmsg.NewPtrAlterPartitionResponse()
			resp.ErrorCode = kerr.StaleBrokerEpoch.Code
			return resp, nil
		},
		func() (*kmsg.AlterPartitionResponse, error) { return kmsg.NewPtrAlterPartitionResponse(), nil },
		func() (*kmsg.AlterPartitionResponse, error) { return accepting(asked[len(asked)-1]), nil },
	}
	done := make(chan bool)
	var lines bytes.Buffer
	a := newAlterer(r.manager.o)
	a.clock, a.log = clock.System, zerolog.New(&lines)
	a.alter = func(_ context.Context, req *kmsg.AlterPartitionRequest) (*kmsg.AlterPartitionResponse, error) {
		asked = append(asked, req)
		if len(asked) == len(answers) {
			defer close(done)
		}
		return answers[len(asked)-1]()
	}
	a.start()
	a.submit(change)
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Fatal("it was not asked again")
	}
	a.stop()
	if strings.Count(lines.String(), "asking again") != 1 {
		t.Errorf("more than one line about it, or none:\n%s", &lines)
	}
	for _, req := range asked {
		members := req.Topics[0].Partitions[0].NewEpochISR
		if len(req.Topics) != 1 || members[0].BrokerEpoch != 1 || members[1].BrokerEpoch != r.epochOf(2) || req.BrokerID != 1 {
			t.Errorf("asked %+v", req)
		}
	}
	if !change.stands() {
		t.Error("a committed proposal was withdrawn before its metadata")
	}
}

// accepting is the controller's consent.
func accepting(req *kmsg.AlterPartitionRequest) *kmsg.AlterPartitionResponse {
	resp := kmsg.NewPtrAlterPartitionResponse()
	for _, t := range req.Topics {
		rt := kmsg.NewAlterPartitionResponseTopic()
		rt.TopidID = t.TopicID
		for _, p := range t.Partitions {
			rp := kmsg.NewAlterPartitionResponseTopicPartition()
			rp.Partition, rp.PartitionEpoch = p.Partition, p.PartitionEpoch+1
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}

func TestSupersededProposalsAreNotAsked(t *testing.T) {
	r := newReplicated(t)
	p := r.replicate(1, 1)
	requireError(t, r.follows(p, 2, 0), nil)
	r.elect(1, 1)
	if asked := r.proposals(); len(asked) != 0 {
		t.Errorf("asked for %+v", asked[0])
	}
}
