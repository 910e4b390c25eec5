package sim

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/internal/history"
)

// Groups of consumers: of the classic protocol, of KIP-848's, and of both.
const (
	classicGroup  = "classic"
	consumerGroup = "consumer"
	mixedGroup    = "mixed"
)

var groupTopics = []string{idempotentTopic, plainTopic}

const (
	groupSession   = 6 * time.Second
	groupRebalance = 4 * time.Second
)

// groupMember is one life of a member: it reads what it was given, from where the group is, and commits.
type groupMember struct {
	*client
	group string
	id    string
	epoch int32 // generation, of the classic protocol
	owned []history.Partition
	next  map[history.Partition]int64
}

func (c *clients) groupMember(k *client, group string) *groupMember {
	c.record(history.Op{Kind: history.Client, Client: k.name, Group: group})
	return &groupMember{client: k, group: group, next: map[history.Partition]int64{}}
}

// live steps until the life ends, or a step cannot go on; then the member leaves, or is gone without a goodbye.
func (g *groupMember) live(ctx context.Context, step, leave func(context.Context) error) {
	life, end := g.life(ctx)
	defer end()
	defer g.crash()
	for g.rest(life, 500*time.Millisecond) {
		if err := step(life); err != nil {
			continue
		}
		if len(g.owned) > 0 {
			g.consume(life, g.owned[g.rng.IntN(len(g.owned))])
		}
	}
	if ctx.Err() == nil && g.rng.IntN(3) == 0 {
		_ = leave(ctx)
	}
}

// own takes what the group has given; what is new is read from where the group is.
func (g *groupMember) own(ctx context.Context, given []history.Partition) error {
	before := g.owned
	g.owned = nil
	for _, p := range given {
		g.c.owners.claims(g, p)
		if !slices.Contains(before, p) {
			resuming, cancel := context.WithTimeout(ctx, g.c.w.stretch(attemptTimeout))
			err := g.resume(resuming, g.group, g.next, p)
			cancel()
			if err != nil {
				return err
			}
		}
		g.owned = append(g.owned, p)
	}
	return nil
}

// consume reads on in one partition and commits what was read.
func (g *groupMember) consume(ctx context.Context, p history.Partition) {
	if len(g.poll(ctx, g.next, p, false)) == 0 {
		return
	}
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.Generation, req.MemberID = g.group, g.epoch, g.id
	topic, part := kmsg.NewOffsetCommitRequestTopic(), kmsg.NewOffsetCommitRequestTopicPartition()
	part.Partition, part.Offset, part.LeaderEpoch = p.ID, g.next[p], g.epochs[p]
	topic.Topic, topic.TopicID, topic.Partitions = p.Topic, g.ids[p.Topic], append(topic.Partitions, part)
	req.Topics = append(req.Topics, topic)
	op := history.Op{Kind: history.Commit, Client: g.name, Group: g.group, BeganNs: g.c.nowNs(), Outcome: history.OK}
	op.Offsets = []history.Position{{Partition: p, Offset: g.next[p]}}
	_, err := g.askGroup(ctx, req, func(r kmsg.Response) int16 { return r.(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode })
	switch code, answered := err.(*kerr.Error); {
	case err == nil:
		g.c.owners.committed(g, p, op.BeganNs)
	case answered && !code.Retriable:
		op.Outcome = history.Fail
	default:
		op.Outcome = history.Unknown
	}
	g.c.record(op)
}

// askGroup asks the coordinator once.
func (g *groupMember) askGroup(ctx context.Context, req kmsg.Request, codeOf func(kmsg.Response) int16) (kmsg.Response, error) {
	at, err := g.coordinator(ctx, 0, g.group)
	if err != nil {
		return nil, err
	}
	answer, err := g.ask(ctx, at, req)
	if err == nil {
		err = kerr.ErrorForCode(codeOf(answer))
	}
	return answer, err
}

// forgotten says whether an error means that the group does not know the member, as it is, any more.
func forgotten(err error) bool {
	return slices.ContainsFunc([]error{kerr.UnknownMemberID, kerr.IllegalGeneration, kerr.FencedMemberEpoch, kerr.UnreleasedInstanceID, kerr.InconsistentGroupProtocol},
		func(of error) bool { return errors.Is(err, of) })
}

// classicMember joins, syncs and sends heartbeats.
func (c *clients) classicMember(ctx context.Context, k *client, group string) {
	g := c.groupMember(k, group)
	joined := false
	g.live(ctx, func(ctx context.Context) error {
		err := error(nil)
		if joined {
			err = g.beat(ctx)
		} else if err = g.join(ctx); err == nil {
			joined = true
		}
		if forgotten(err) {
			g.id = ""
		}
		if forgotten(err) || errors.Is(err, kerr.RebalanceInProgress) {
			g.owned, joined = nil, false
		}
		return err
	}, g.leaveClassic)
}

func (g *groupMember) beat(ctx context.Context) error {
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group, req.Generation, req.MemberID = g.group, g.epoch, g.id
	_, err := g.askGroup(ctx, req, func(r kmsg.Response) int16 { return r.(*kmsg.HeartbeatResponse).ErrorCode })
	return err
}

func (g *groupMember) join(ctx context.Context) error {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Group, req.MemberID, req.ProtocolType = g.group, g.id, "consumer"
	req.SessionTimeoutMillis = int32(g.c.w.ms(groupSession.Milliseconds()))
	req.RebalanceTimeoutMillis = int32(g.c.w.ms(groupRebalance.Milliseconds()))
	protocol := kmsg.NewJoinGroupRequestProtocol()
	wants := kmsg.NewConsumerMemberMetadata()
	wants.Topics = groupTopics
	protocol.Name, protocol.Metadata = "range", wants.AppendTo(nil)
	req.Protocols = append(req.Protocols, protocol)
	answer, err := g.askGroup(ctx, req, func(r kmsg.Response) int16 { return r.(*kmsg.JoinGroupResponse).ErrorCode })
	if errors.Is(err, kerr.MemberIDRequired) {
		g.id = answer.(*kmsg.JoinGroupResponse).MemberID
	}
	if err != nil {
		return err
	}
	r := answer.(*kmsg.JoinGroupResponse)
	g.id, g.epoch = r.MemberID, r.Generation
	return g.sync(ctx, r)
}

// sync gets what this member is given, and gives, when it leads the group and is to.
func (g *groupMember) sync(ctx context.Context, joined *kmsg.JoinGroupResponse) error {
	req := kmsg.NewPtrSyncGroupRequest()
	req.Group, req.Generation, req.MemberID = g.group, g.epoch, g.id
	req.ProtocolType, req.Protocol = kmsg.StringPtr("consumer"), joined.Protocol
	if joined.LeaderID == g.id && !joined.SkipAssignment {
		req.GroupAssignment = assign(joined)
	}
	answer, err := g.askGroup(ctx, req, func(r kmsg.Response) int16 { return r.(*kmsg.SyncGroupResponse).ErrorCode })
	if err != nil {
		return err
	}
	var given []history.Partition
	if raw := answer.(*kmsg.SyncGroupResponse).MemberAssignment; len(raw) > 0 {
		var a kmsg.ConsumerMemberAssignment
		if err := a.ReadFrom(raw); err != nil {
			g.c.w.found("history: the assignment of %s cannot be read: %v", g.id, err)
		}
		for _, t := range a.Topics {
			for _, p := range t.Partitions {
				given = append(given, history.Partition{Topic: t.Topic, ID: p})
			}
		}
	}
	g.owned = nil // all was given up before the group was joined again
	return g.own(ctx, given)
}

// assign deals the partitions out, differently in each generation.
func assign(joined *kmsg.JoinGroupResponse) (out []kmsg.SyncGroupRequestGroupAssignment) {
	slices.SortFunc(joined.Members, func(a, b kmsg.JoinGroupResponseMember) int { return strings.Compare(a.MemberID, b.MemberID) })
	for i, m := range joined.Members {
		var given kmsg.ConsumerMemberAssignment
		for j, topic := range groupTopics {
			t := kmsg.ConsumerMemberAssignmentTopic{Topic: topic}
			for p := range int32(partitions) {
				if (j*partitions+int(p)+int(joined.Generation))%len(joined.Members) == i {
					t.Partitions = append(t.Partitions, p)
				}
			}
			given.Topics = append(given.Topics, t)
		}
		out = append(out, kmsg.SyncGroupRequestGroupAssignment{MemberID: m.MemberID, MemberAssignment: given.AppendTo(nil)})
	}
	return out
}

func (g *groupMember) leaveClassic(ctx context.Context) error {
	req := kmsg.NewPtrLeaveGroupRequest()
	m := kmsg.NewLeaveGroupRequestMember()
	req.Group, req.MemberID, m.MemberID = g.group, g.id, g.id
	req.Members = append(req.Members, m)
	_, err := g.askGroup(ctx, req, func(r kmsg.Response) int16 { return r.(*kmsg.LeaveGroupResponse).ErrorCode })
	return err
}

// consumerMember is one of KIP-848's: heartbeats say what it owns, their answers what it is to own.
func (c *clients) consumerMember(ctx context.Context, k *client, group string) {
	g := c.groupMember(k, group)
	g.id = k.name
	g.live(ctx, func(ctx context.Context) error {
		if len(g.ids) < len(topics) {
			g.refresh(ctx)
			return errNoLeader
		}
		err := g.beat848(ctx, g.epoch)
		if forgotten(err) {
			g.owned, g.epoch = nil, 0
		}
		return err
	}, func(ctx context.Context) error { return g.beat848(ctx, -1) })
}

// beat848 tells everything each time, as a member does that has not heard the last answer.
func (g *groupMember) beat848(ctx context.Context, epoch int32) error {
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Group, req.MemberID, req.MemberEpoch = g.group, g.id, epoch
	req.RebalanceTimeoutMillis = int32(g.c.w.ms(groupRebalance.Milliseconds()))
	req.SubscribedTopicNames, req.Topics = groupTopics, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	for _, topic := range groupTopics {
		t := kmsg.NewConsumerGroupHeartbeatRequestTopic()
		t.TopicID = g.ids[topic]
		for _, p := range g.owned {
			if p.Topic == topic {
				t.Partitions = append(t.Partitions, p.ID)
			}
		}
		if len(t.Partitions) > 0 {
			req.Topics = append(req.Topics, t)
		}
	}
	answer, err := g.askGroup(ctx, req, func(r kmsg.Response) int16 { return r.(*kmsg.ConsumerGroupHeartbeatResponse).ErrorCode })
	if err != nil || epoch < 0 {
		return err
	}
	r := answer.(*kmsg.ConsumerGroupHeartbeatResponse)
	g.epoch = r.MemberEpoch
	given := g.owned
	if r.Assignment != nil {
		given = nil
		for _, t := range r.Assignment.Topics {
			for _, p := range t.Partitions {
				given = append(given, history.Partition{Topic: g.nameOf(t.TopicID), ID: p})
			}
		}
	}
	return g.own(ctx, given)
}

func (g *groupMember) nameOf(id [16]byte) string {
	for name, of := range g.ids {
		if of == id {
			return name
		}
	}
	g.c.w.found("history: %s is given partitions of a topic that is not its own", g.id)
	return ""
}
