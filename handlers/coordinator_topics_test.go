package handlers

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/internal/clock"
	"grete/protocol"
)

// TestCoordinatorTopicFailures: an attempt that fails is not the last, and Close ends one that hangs.
func TestCoordinatorTopicFailures(t *testing.T) {
	attempts := make(chan struct{}, 10)
	topics := NewCoordinatorTopics(hangingController{attempts}, clock.System, zerolog.Nop(), CoordinatorTopic{Name: offsetsTopic, Partitions: 1, ReplicationFactor: 1})
	topics.create(offsetsTopic)
	topics.create(offsetsTopic)
	topics.create("unknown")
	<-attempts
	topics.Close()
	topics.create(offsetsTopic)
	if len(attempts) != 0 {
		t.Error("more than one attempt at a time, or one after Close")
	}
}

// A topic that cannot be made is a line in ten minutes, however many clients ask, and each topic has a line of its own.
func TestCoordinatorTopicFailuresAreALineEach(t *testing.T) {
	var out bytes.Buffer
	c := clock.NewManual(time.Unix(1000, 0))
	topics := NewCoordinatorTopics(tooFewBrokers{}, c, zerolog.New(zerolog.SyncWriter(&out)),
		CoordinatorTopic{Name: offsetsTopic, Partitions: 1, ReplicationFactor: 3}, CoordinatorTopic{Name: transactionsTopic, Partitions: 1, ReplicationFactor: 2})
	defer topics.Close()
	ask := func() (lines string) {
		out.Reset()
		for range 4 {
			topics.create(offsetsTopic)
			topics.create(transactionsTopic)
			topics.running.Wait() // so that each is an attempt
		}
		return out.String()
	}
	requireLines := func(lines string, want int, parts ...string) {
		t.Helper()
		if got := strings.Count(lines, "\n"); got != want {
			t.Errorf("%d lines, not %d: %s", got, want, lines)
		}
		for _, part := range parts {
			if strings.Count(lines, part) != 1 {
				t.Errorf("%q is not told once: %s", part, lines)
			}
		}
	}
	named := []string{`"topic":"__consumer_offsets","replicas":3`, `"topic":"__transaction_state","replicas":2`}
	requireLines(ask(), 2, named...)
	c.Advance(refusedTopicLogEvery - time.Second)
	requireLines(ask(), 0)
	c.Advance(time.Second)
	lines := ask()
	requireLines(lines, 2, named...)
	if strings.Count(lines, `"suppressed":7`) != 2 {
		t.Errorf("what was not told is not counted: %s", lines)
	}
}

// tooFewBrokers refuses every topic.
type tooFewBrokers struct{}

func (tooFewBrokers) Do(_ context.Context, _ protocol.Principal, req kmsg.Request) (kmsg.Response, error) {
	resp := kmsg.NewPtrCreateTopicsResponse()
	for _, asked := range req.(*kmsg.CreateTopicsRequest).Topics {
		topic := kmsg.NewCreateTopicsResponseTopic()
		topic.Topic, topic.ErrorCode = asked.Topic, kerr.InvalidReplicationFactor.Code
		resp.Topics = append(resp.Topics, topic)
	}
	return resp, nil
}

type hangingController struct{ attempts chan struct{} }

func (c hangingController) Do(ctx context.Context, _ protocol.Principal, _ kmsg.Request) (kmsg.Response, error) {
	c.attempts <- struct{}{}
	<-ctx.Done()
	return nil, kerr.RequestTimedOut
}
