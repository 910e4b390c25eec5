package group

import (
	"fmt"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/coordinator"
	"grete/internal/transcript"
)

// TestTranscripts plays testdata/*.txt. A command is a verb, a label that names the request in the answers and is the
// client id, and key=value pairs; it leads to answers in the order in which they came, then each group as it is.
func TestTranscripts(t *testing.T) {
	transcript.Run(t, 8, func(t *testing.T) func(string) string { return (&player{t: t}).play })
}

// player runs the commands of one transcript.
type player struct {
	t *testing.T
	r *rig
}

func (p *player) play(line string) string {
	fields := strings.Fields(line)
	c := command{verb: fields[0], args: map[string]string{}}
	for _, f := range fields[1:] {
		if k, v, ok := strings.Cut(f, "="); ok {
			c.args[k] = v
		} else {
			c.label = f
		}
	}
	if c.verb == "new" {
		p.r = newRig(p.t, c.config())
		return "ok"
	}
	run := verbs[c.verb]
	if run == nil {
		p.t.Fatalf("unknown command %q", line)
	}
	run(p.r, c)
	return strings.Join(append(p.r.takeAnswers(), p.r.state()...), "\n")
}

type command struct {
	verb, label string
	args        map[string]string
}

func (c command) str(key, otherwise string) string {
	if v, ok := c.args[key]; ok {
		return v
	}
	return otherwise
}

func (c command) opt(key string) *string {
	if v, ok := c.args[key]; ok {
		return &v
	}
	return nil
}

func (c command) num(key string, otherwise int64) int64 {
	v, ok := c.args[key]
	if !ok {
		return otherwise
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}

func (c command) config() Config {
	cfg := DefaultConfig()
	cfg.MaxSize = int(c.num("max.size", int64(cfg.MaxSize)))
	cfg.InitialRebalanceDelayMs = int32(c.num("delay", int64(cfg.InitialRebalanceDelayMs)))
	cfg.OffsetsRetentionMs = c.num("retention", cfg.OffsetsRetentionMs)
	cfg.OffsetsRetentionCheckIntervalMs = c.num("check", cfg.OffsetsRetentionCheckIntervalMs)
	cfg.OffsetMetadataMaxBytes = int(c.num("metadata.max", int64(cfg.OffsetMetadataMaxBytes)))
	cfg.Consumer.MaxSize = int(c.num("consumer.max.size", int64(cfg.Consumer.MaxSize)))
	cfg.Consumer.Defaults.AssignmentIntervalMs = int32(c.num("interval", 0))
	cfg.Consumer.Migration = ParseMigrationPolicy(c.str("migration", "bidirectional"))
	return cfg
}

var verbs = map[string]func(*rig, command){
	"join":      playJoin,
	"sync":      playSync,
	"heartbeat": playHeartbeat,
	"leave":     playLeave,
	"commit":    playCommit,
	"fetch":     playFetch,
	"delete": func(r *rig, c command) {
		r.s.DeleteGroup(c.group(), func(code int16) { r.note("%s: %s", c.verb, codeName(code)) })
	},
	"delete-offset": playDeleteOffset,
	"drop-topic":    func(r *rig, c command) { r.dropTopic(c.str("topic", "t")) },
	"advance":       playAdvance,
	"fail-appends":  func(r *rig, c command) { r.log.FailAppends(kerr.TypedErrorForCode(int16(c.num("code", 56)))) },
	"mend-appends":  func(r *rig, _ command) { r.log.FailAppends(nil) },
	"hold-commits":  func(r *rig, _ command) { r.log.Hold() },
	"let-commits":   func(r *rig, _ command) { r.log.Commit() },
	"describe":      playDescribe,
	"list":          playList,
	"reload":        playReload,
	"resign":        func(r *rig, _ command) { r.s.Resign(0, r.epoch); time.Sleep(20 * time.Millisecond) },
	"records":       playRecords,
}

func (c command) group() string { return c.str("group", "g") }

func codeName(code int16) string {
	if e := kerr.TypedErrorForCode(code); e != nil {
		return fmt.Sprintf("%d %s", code, e.Message)
	}
	return "0"
}

func playJoin(r *rig, c command) {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Version = int16(c.num("version", 9))
	req.Group, req.MemberID, req.InstanceID = c.group(), c.str("member", ""), c.opt("instance")
	req.SessionTimeoutMillis = int32(c.num("session", 10000))
	req.RebalanceTimeoutMillis = int32(c.num("rebalance", 20000))
	req.ProtocolType = c.str("type", "consumer")
	for _, spec := range strings.Split(c.str("protocols", "range:t"), ",") {
		if name, topics, ok := strings.Cut(spec, ":"); ok {
			metadata := subscription(strings.Split(topics, "+")...)
			if owned, ok := c.args["owned"]; ok {
				metadata = owningSubscription(strings.Split(topics, "+"), owned)
			}
			req.Protocols = append(req.Protocols, kmsg.JoinGroupRequestProtocol{Name: name, Metadata: metadata})
		}
	}
	rc := RequestContext{Version: req.Version, ClientID: c.label, ClientHost: "/127.0.0.1"}
	r.s.JoinGroup(rc, req, func(resp *kmsg.JoinGroupResponse) {
		if resp.ErrorCode != 0 {
			r.note("%s: join %s member=%q generation=%d", c.label, codeName(resp.ErrorCode), resp.MemberID, resp.Generation)
			return
		}
		var members []string
		for _, m := range resp.Members {
			members = append(members, m.MemberID)
		}
		skip := ""
		if resp.SkipAssignment {
			skip = " skip-assignment"
		}
		r.note("%s: join 0 member=%s generation=%d %s/%s leader=%s members=%v%s", c.label, resp.MemberID, resp.Generation,
			deref(resp.ProtocolType), deref(resp.Protocol), resp.LeaderID, members, skip)
	})
}

func playSync(r *rig, c command) {
	req := kmsg.NewPtrSyncGroupRequest()
	req.Version = int16(c.num("version", 5))
	req.Group, req.MemberID, req.InstanceID = c.group(), c.str("member", ""), c.opt("instance")
	req.Generation = int32(c.num("generation", 1))
	req.ProtocolType, req.Protocol = ptr(c.str("type", "consumer")), ptr(c.str("protocol", "range"))
	for _, a := range strings.Split(c.str("assign", ""), ",") {
		if m, data, ok := strings.Cut(a, ":"); ok {
			if topic, partitions, ok := strings.Cut(data, ":"); ok {
				data = string(consumerAssignmentOf(topic, partitions))
			}
			req.GroupAssignment = append(req.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{MemberID: m, MemberAssignment: []byte(data)})
		}
	}
	r.s.SyncGroup(req, func(resp *kmsg.SyncGroupResponse) {
		r.note("%s: sync %s %s/%s assignment=%s", c.label, codeName(resp.ErrorCode), deref(resp.ProtocolType), deref(resp.Protocol), assignmentText(resp.MemberAssignment))
	})
}

func playHeartbeat(r *rig, c command) {
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group, req.MemberID, req.InstanceID = c.group(), c.str("member", ""), c.opt("instance")
	req.Generation = int32(c.num("generation", 1))
	r.s.Heartbeat(req, func(code int16) { r.note("%s: heartbeat %s", c.label, codeName(code)) })
}

func playLeave(r *rig, c command) {
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group = c.group()
	for _, id := range strings.Split(c.str("member", ""), ",") {
		m := kmsg.NewLeaveGroupRequestMember()
		m.MemberID, m.InstanceID = id, c.opt("instance")
		req.Members = append(req.Members, m)
	}
	r.s.LeaveGroup(req, func(resp *kmsg.LeaveGroupResponse) {
		var members []string
		for _, m := range resp.Members {
			members = append(members, fmt.Sprintf("%q/%s=%s", m.MemberID, deref(m.InstanceID), codeName(m.ErrorCode)))
		}
		r.note("%s: leave %s %v", c.label, codeName(resp.ErrorCode), members)
	})
}

func playCommit(r *rig, c command) {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Version = int16(c.num("version", 9))
	req.Group, req.MemberID, req.InstanceID = c.group(), c.str("member", ""), c.opt("instance")
	req.Generation = int32(c.num("generation", -1))
	req.RetentionTimeMillis = c.num("retention", -1)
	pt := kmsg.NewOffsetCommitRequestTopicPartition()
	pt.Partition, pt.Offset, pt.Metadata = int32(c.num("partition", 0)), c.num("offset", 1), c.opt("metadata")
	pt.LeaderEpoch = int32(c.num("epoch", -1))
	req.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: c.str("topic", "t"), TopicID: [16]byte{byte(c.num("id", 0))}, Partitions: []kmsg.OffsetCommitRequestTopicPartition{pt}}}
	if t := r.image.Topic(req.Topics[0].Topic); t != nil {
		req.Topics[0].TopicID = t.ID
	}
	r.s.CommitOffsets(req, func(topics []kmsg.OffsetCommitResponseTopic) {
		r.note("%s: commit %s", c.label, codeName(topics[0].Partitions[0].ErrorCode))
	})
}

func playFetch(r *rig, c command) {
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = c.group()
	if topic, ok := c.args["topic"]; ok {
		g.Topics = []kmsg.OffsetFetchRequestGroupTopic{{Topic: topic, TopicID: [16]byte{byte(c.num("id", 0))}, Partitions: []int32{int32(c.num("partition", 0))}}}
	}
	r.s.FetchOffsets(g, c.str("stable", "") == "true", func(resp kmsg.OffsetFetchResponseGroup) {
		var got []string
		for _, t := range resp.Topics {
			for _, p := range t.Partitions {
				got = append(got, fmt.Sprintf("%s-%d=%d/%d/%q", t.Topic, p.Partition, p.Offset, p.LeaderEpoch, deref(p.Metadata)))
			}
		}
		r.note("%s: fetch %s %v", c.label, codeName(resp.ErrorCode), got)
	})
}

func playDeleteOffset(r *rig, c command) {
	topics := []kmsg.OffsetDeleteRequestTopic{{Topic: c.str("topic", "t"), Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{Partition: int32(c.num("partition", 0))}}}}
	r.s.DeleteOffsets(c.group(), topics, func(code int16, topics []kmsg.OffsetDeleteResponseTopic) {
		if code != 0 {
			r.note("%s: delete-offset %s", c.label, codeName(code))
			return
		}
		r.note("%s: delete-offset 0 partition %s", c.label, codeName(topics[0].Partitions[0].ErrorCode))
	})
}

func playAdvance(r *rig, c command) {
	d, err := time.ParseDuration(c.label)
	if err != nil {
		panic(err)
	}
	r.clock.Advance(d)
}

func playDescribe(r *rig, c command) {
	r.s.DescribeGroup(c.group(), int16(c.num("version", 6)), func(g kmsg.DescribeGroupsResponseGroup) {
		r.note("describe: %s state=%s type=%s protocol=%s %s", codeName(g.ErrorCode), g.State, g.ProtocolType, g.Protocol, deref(g.ErrorMessage))
		for _, m := range g.Members {
			r.note("  %s instance=%s client=%s host=%s metadata=%d bytes assignment=%q", m.MemberID, deref(m.InstanceID), m.ClientID, m.ClientHost, len(m.ProtocolMetadata), m.MemberAssignment)
		}
	})
}

func playList(r *rig, c command) {
	filter := func(key string) []string {
		if v, ok := c.args[key]; ok {
			return strings.Split(v, ",")
		}
		return nil
	}
	r.s.ListGroups(filter("states"), filter("types"), func(code int16, groups []kmsg.ListGroupsResponseGroup) {
		r.note("list: %s", codeName(code))
		for _, g := range groups {
			r.note("  %s type=%q %s %s", g.Group, g.ProtocolType, g.GroupState, g.GroupType)
		}
	})
}

// playReload starts another coordinator on the same log, as a restart does.
func playReload(r *rig, c command) {
	r.s.Close()
	r.takeAnswers()
	r.cfg.MaxSize = int(c.num("max.size", int64(r.cfg.MaxSize)))
	r.start()
}

// playRecords prints what is in the log, one line for each record.
func playRecords(r *rig, c command) {
	records, err := r.log.Records()
	if err != nil {
		panic(err)
	}
	for _, rec := range records[min(c.num("from", 0), int64(len(records))):] {
		r.note("%d: %s", rec.Offset, recordText(rec.Key, rec.Value))
	}
}

func recordText(key, value []byte) string {
	if key[1] >= consumerGroupType {
		return consumerRecordText(key, value)
	}
	if key[1] == groupMetadataType {
		var k kmsg.GroupMetadataKey
		if err := k.ReadFrom(key); err != nil {
			return err.Error()
		}
		if len(value) == 0 {
			return "group " + k.Group + " deleted"
		}
		var v kmsg.GroupMetadataValue
		if err := v.ReadFrom(value); err != nil {
			return err.Error()
		}
		var members []string
		for _, m := range v.Members {
			members = append(members, fmt.Sprintf("%s/%s %d/%d %q", m.MemberID, deref(m.InstanceID), m.SessionTimeoutMillis, m.RebalanceTimeoutMillis, m.Assignment))
		}
		return fmt.Sprintf("group %s v%d type=%q generation=%d protocol=%s leader=%s %v", k.Group, v.Version, v.ProtocolType, v.Generation, deref(v.Protocol), deref(v.Leader), members)
	}
	var k kmsg.OffsetCommitKey
	if err := k.ReadFrom(key); err != nil {
		return err.Error()
	}
	if len(value) == 0 {
		return fmt.Sprintf("offset %s %s-%d deleted", k.Group, k.Topic, k.Partition)
	}
	var v kmsg.OffsetCommitValue
	if err := v.ReadFrom(value); err != nil {
		return err.Error()
	}
	return fmt.Sprintf("offset %s %s-%d v%d %d epoch=%d %q", k.Group, k.Topic, k.Partition, v.Version, v.Offset, v.LeaderEpoch, v.Metadata)
}

// state prints the groups: it looks into the shard, where a client would have to ask.
func (r *rig) state() []string {
	var out []string
	done := make(chan struct{})
	r.s.rt.Submit(0, op{
		Run: func(s *shard, tx *coordinator.Tx) {
			defer close(done)
			for id, g := range s.groups {
				out = append(out, anyGroupText(s, g)+checkExpiry(s, id, tx.NowMs))
			}
		},
		Refuse: func(err error) { out = append(out, "shard: "+err.Error()); close(done) },
	})
	<-done
	sort.Strings(out)
	return out
}

func groupText(g *classicGroup) string {
	var members []string
	for _, m := range g.members {
		text := m.id
		if m.instance != nil {
			text += "/" + *m.instance
		}
		if m.join != nil {
			text += "(join)"
		}
		if m.sync != nil {
			text += "(sync)"
		}
		members = append(members, text)
	}
	pending := ""
	if len(g.pendingJoin) > 0 {
		pending = fmt.Sprintf(" pending=%d", len(g.pendingJoin))
	}
	return fmt.Sprintf("[%s] %s generation=%d leader=%s %v%s", g.id, g.state, g.generation, g.leader, members, pending)
}
