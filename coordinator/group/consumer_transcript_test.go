package group

import (
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster/metadata"
)

// Commands of consumer groups for TestTranscripts.
func init() {
	verbs["topic"] = playTopic
	verbs["remove-topic"] = playRemoveTopic
	verbs["beat"] = playBeat
	verbs["describe-consumer"] = playDescribeConsumer
}

// testTopicID makes ids that can be read: the first byte is the first letter.
func testTopicID(name string) topicID { return topicID{name[0], name[len(name)-1], byte(len(name))} }

// playTopic creates a topic, or adds partitions to it.
func playTopic(r *rig, c command) {
	id, have := testTopicID(c.label), 0
	var records []metadata.Record
	if t := r.image.Topic(c.label); t != nil {
		have = len(t.Partitions)
	} else {
		records = append(records, &metadata.TopicRecord{Name: c.label, ID: id})
	}
	for p := int32(have); p < int32(c.num("partitions", 1)); p++ {
		records = append(records, &metadata.PartitionRecord{Index: p, TopicID: id, Partition: metadata.Partition{Replicas: []int32{1}, ISR: []int32{1}, Leader: 1}})
	}
	r.change(records...)
}

func playRemoveTopic(r *rig, c command) {
	r.change(&metadata.RemoveTopicRecord{ID: testTopicID(c.label)})
}

// playBeat sends a ConsumerGroupHeartbeat as a member named by its label. Without an epoch it joins, and says what it
// must unless bare=true; the epoch "now" is that of its last answer.
func playBeat(r *rig, c command) {
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Version = int16(c.num("version", 1))
	req.Group, req.MemberID, req.InstanceID = c.group(), c.str("member", c.label), c.opt("instance")
	if c.args["epoch"] == "now" {
		c.args["epoch"] = strconv.Itoa(int(r.epochs[c.label]))
	}
	req.MemberEpoch = int32(c.num("epoch", 0))
	req.RackID, req.ServerAssignor, req.SubscribedTopicRegex = c.opt("rack"), c.opt("assignor"), c.opt("regex")
	req.RebalanceTimeoutMillis = int32(c.num("timeout", -1))
	if topics, ok := c.args["topics"]; ok {
		req.SubscribedTopicNames = words(topics)
	}
	if owned, ok := c.args["owned"]; ok {
		req.Topics = ownedTopics(owned)
	}
	if req.MemberEpoch == 0 && c.str("bare", "") == "" {
		req.RebalanceTimeoutMillis = int32(c.num("timeout", 30000))
		req.Topics = ownedTopics(c.str("owned", ""))
	}
	rc := RequestContext{Version: req.Version, ClientID: c.label, ClientHost: "/127.0.0.1"}
	r.s.ConsumerGroupHeartbeat(rc, req, func(resp *kmsg.ConsumerGroupHeartbeatResponse) {
		if resp.ErrorCode != 0 {
			r.note("%s: beat %s %s", c.label, codeName(resp.ErrorCode), deref(resp.ErrorMessage))
			return
		}
		r.epochs[c.label] = resp.MemberEpoch
		assigned := ""
		if resp.Assignment != nil {
			assigned = " assignment=" + r.assignedText(resp.Assignment)
		}
		r.note("%s: beat 0 member=%s epoch=%d interval=%d%s", c.label, deref(resp.MemberID), resp.MemberEpoch, resp.HeartbeatIntervalMillis, assigned)
	})
}

// words splits at + and is empty, not nil, for "".
func words(s string) []string {
	if s == "" {
		return []string{}
	}
	return strings.Split(s, "+")
}

func numbers(s string) []int32 {
	var out []int32
	for _, w := range words(s) {
		n, err := strconv.Atoi(w)
		if err != nil {
			panic(err)
		}
		out = append(out, int32(n))
	}
	return out
}

// ownedTopics reads t:0+1,u:2.
func ownedTopics(s string) []kmsg.ConsumerGroupHeartbeatRequestTopic {
	out := []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	for _, item := range strings.Split(s, ",") {
		if name, ps, ok := strings.Cut(item, ":"); ok {
			t := kmsg.NewConsumerGroupHeartbeatRequestTopic()
			t.TopicID, t.Partitions = testTopicID(name), numbers(ps)
			out = append(out, t)
		}
	}
	return out
}

func (r *rig) assignedText(a *kmsg.ConsumerGroupHeartbeatResponseAssignment) string {
	p := make(partitions)
	for _, t := range a.Topics {
		p[t.TopicID] = t.Partitions
	}
	return partitionsText(p)
}

func partitionsText(p partitions) string {
	var out []string
	for _, id := range sortedTopics(p) {
		out = append(out, fmt.Sprintf("%c:%s", id[0], strings.Trim(strings.ReplaceAll(fmt.Sprint(p[id]), " ", "+"), "[]")))
	}
	return "[" + strings.Join(out, " ") + "]"
}

// consumerAssignmentOf is what a classic leader assigns: partitions of one topic.
func consumerAssignmentOf(topic, ps string) []byte {
	a := kmsg.NewConsumerMemberAssignment()
	a.Topics = []kmsg.ConsumerMemberAssignmentTopic{{Topic: topic, Partitions: numbers(ps)}}
	return a.AppendTo(nil)
}

// owningSubscription is a subscription that says what the member has, as t:0+1.
func owningSubscription(topics []string, owned string) []byte {
	m := kmsg.NewConsumerMemberMetadata()
	m.Version, m.Topics = 1, topics
	for _, item := range strings.Split(owned, ",") {
		if name, ps, ok := strings.Cut(item, ":"); ok {
			m.OwnedPartitions = append(m.OwnedPartitions, kmsg.ConsumerMemberMetadataOwnedPartition{Topic: name, Partitions: numbers(ps)})
		}
	}
	return m.AppendTo(nil)
}

// assignmentText shows a consumer's assignment, and any other quoted.
func assignmentText(raw []byte) string {
	var a kmsg.ConsumerMemberAssignment
	if len(raw) < 6 || a.ReadFrom(raw) != nil || len(a.AppendTo(nil)) != len(raw) {
		return fmt.Sprintf("%q", raw)
	}
	var out []string
	for _, t := range a.Topics {
		out = append(out, fmt.Sprintf("%s%v", t.Topic, t.Partitions))
	}
	return fmt.Sprintf("v%d%v", a.Version, out)
}

func playDescribeConsumer(r *rig, c command) {
	r.s.DescribeConsumerGroup(c.group(), func(g kmsg.ConsumerGroupDescribeResponseGroup) {
		r.note("describe: %s state=%s epoch=%d/%d assignor=%s %s", codeName(g.ErrorCode), g.State, g.Epoch, g.AssignmentEpoch, g.AssignorName, deref(g.ErrorMessage))
		for _, m := range g.Members {
			r.note("  %s instance=%s rack=%s epoch=%d topics=%v regex=%q type=%d has=%v target=%v", m.MemberID, deref(m.InstanceID), deref(m.RackID),
				m.MemberEpoch, m.SubscribedTopics, deref(m.SubscribedTopicRegex), m.MemberType, describedText(m.Assignment), describedText(m.TargetAssignment))
		}
	})
}

func describedText(a kmsg.Assignment) []string {
	var out []string
	for _, t := range a.TopicPartitions {
		out = append(out, fmt.Sprintf("%s%v", t.Topic, t.Partitions))
	}
	return out
}

// anyGroupText is a group of either kind, with what must always hold of it.
func anyGroupText(s *shard, g group) string {
	switch g := g.(type) {
	case *consumerGroup:
		return consumerText(g) + strings.Join(checkConsumerGroup(g), " ")
	case *classicGroup:
		return groupText(g)
	}
	return "?"
}

func consumerText(g *consumerGroup) string {
	var members []string
	for _, m := range g.membersWithout(nil) {
		text := m.id
		if m.instance != nil {
			text += "/" + *m.instance
		}
		if m.classic != nil {
			text += "(classic)"
		}
		text += fmt.Sprintf("@%d%s", m.epoch, partitionsText(m.assigned.plain()))
		if len(m.revoking) > 0 {
			text += "-" + partitionsText(m.revoking.plain())
		}
		if m.state == memberUnreleased {
			text += "?"
		}
		members = append(members, text)
	}
	return fmt.Sprintf("[%s] consumer %s epoch=%d/%d %s", g.id, g.stateName(), g.epoch, g.assignmentEpoch, strings.Join(members, " "))
}

// checkConsumerGroup lists what is wrong: nothing ever may be.
func checkConsumerGroup(g *consumerGroup) []string {
	var bad []string
	owners := map[topicPartition]string{}
	for id, m := range g.members {
		claim := func(topic topicID, p, _ int32) {
			at := topicPartition{topic, p}
			if owners[at] != "" {
				bad = append(bad, fmt.Sprintf("BOTH %s AND %s HAVE %c-%d", owners[at], id, topic[0], p))
			}
			owners[at] = id
		}
		m.assigned.each(claim)
		m.revoking.each(claim)
		if t := g.timers[id]; t == nil || !t.session.Set() {
			bad = append(bad, "NOBODY WATCHES "+id)
		} else if (m.state == memberUnrevoked && m.classic == nil && m.epoch >= 0) != t.rebalance.Set() {
			bad = append(bad, "REBALANCE TIMER OF "+id)
		}
		if m.instance != nil && g.static[*m.instance] != id {
			bad = append(bad, "STATIC "+id)
		}
	}
	if fmt.Sprint(owners) != fmt.Sprint(g.owners) {
		bad = append(bad, fmt.Sprintf("OWNERS %v, NOT %v", g.owners, owners))
	}
	for id := range g.timers {
		if g.members[id] == nil {
			bad = append(bad, "TIMERS OF "+id)
		}
	}
	bad = append(bad, checkTally(g)...)
	sort.Strings(bad)
	return bad
}

// checkTally counts the members, and the reasons for which the shard knows the group, anew.
func checkTally(g *consumerGroup) (bad []string) {
	var counted tally
	reasons := map[string]int{}
	for _, m := range g.members {
		counted.count(m, 1)
	}
	for name := range counted.topics {
		reasons[name]++
	}
	for _, x := range g.regexes {
		for _, name := range x.topics {
			reasons[name]++
		}
	}
	if fmt.Sprint(counted) != fmt.Sprint(g.tally) {
		bad = append(bad, fmt.Sprintf("TALLY %v, NOT %v", g.tally, counted))
	}
	for name, groups := range g.subscribers {
		if groups[g.id] != reasons[name] {
			bad = append(bad, fmt.Sprintf("INDEX %s %d, NOT %d", name, groups[g.id], reasons[name]))
		}
		delete(reasons, name)
	}
	if len(reasons) > 0 {
		bad = append(bad, fmt.Sprintf("INDEX WITHOUT %v", reasons))
	}
	return bad
}

func consumerRecordText(key, value []byte) string {
	k, err := readConsumerKey(key)
	if err != nil {
		return err.Error()
	}
	names := map[int16]string{
		consumerGroupType: "epoch", partitionMetadataType: "partition metadata", consumerMemberType: "member", targetMetadataType: "target epoch",
		targetMemberType: "target", currentMemberType: "current", regexType: "expression",
	}
	head := strings.TrimSpace(fmt.Sprintf("%s %s %s", names[k.kind], k.group, k.name))
	if value == nil {
		return head + " deleted"
	}
	g := newConsumerGroup(k.group)
	if err := g.replay(k, slices.Clone(value)); err != nil {
		return err.Error()
	}
	m := g.members[k.name]
	switch k.kind {
	case consumerGroupType:
		hashed := "no topics"
		if g.metadataHash != 0 {
			hashed = "topics"
		}
		return fmt.Sprintf("%s %d %s", head, g.epoch, hashed)
	case targetMetadataType:
		return fmt.Sprintf("%s %d at %d", head, g.assignmentEpoch, g.assignmentMs)
	case targetMemberType:
		return head + " " + partitionsText(g.target[k.name])
	case consumerMemberType:
		return fmt.Sprintf("%s instance=%s rack=%s %v %q timeout=%d assignor=%s classic=%v", head, deref(m.instance), deref(m.rack), m.topics, m.regex, m.rebalanceTimeoutMs, deref(m.assignor), m.classic != nil)
	case currentMemberType:
		return fmt.Sprintf("%s %d after %d, state %d, has %v, gives up %v", head, m.epoch, m.previousEpoch, m.state, ownedText(m.assigned), ownedText(m.revoking))
	case regexType:
		x := g.regexes[k.name]
		return fmt.Sprintf("%s %v at %d", head, x.topics, x.resolvedMs)
	}
	return head
}

// ownedText shows each partition with its assignment epoch.
func ownedText(o ownership) []string {
	var out []string
	o.each(func(id topicID, p, epoch int32) { out = append(out, fmt.Sprintf("%c-%d@%d", id[0], p, epoch)) })
	sort.Strings(out)
	return out
}
