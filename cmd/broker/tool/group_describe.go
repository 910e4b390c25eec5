package tool

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"grete/internal/clock"
)

type groupView struct {
	Name        string       `json:"name"`
	Type        string       `json:"type"`
	State       string       `json:"state"`
	Why         []string     `json:"why"` // what keeps it from being stable, or its members from reading all
	Coordinator int32        `json:"coordinator"`
	Assignor    string       `json:"assignor"`
	Epoch       int32        `json:"epoch,omitempty"`
	Lag         int64        `json:"lag"`
	Unknown     int          `json:"partitionsWithoutOffset"`
	Offsets     []offsetRow  `json:"offsets"`
	Members     []memberView `json:"members"`
}

type offsetRow struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Committed int64  `json:"committed"` // -1 without one
	Start     int64  `json:"start"`
	End       int64  `json:"end"`
	Lag       int64  `json:"lag"` // -1 where it is not known
	Member    string `json:"member,omitempty"`
	ClientID  string `json:"clientId,omitempty"`
	Host      string `json:"host,omitempty"`
	Metadata  string `json:"metadata,omitempty"`
}

type memberView struct {
	ID         string             `json:"id"`
	Instance   string             `json:"instance,omitempty"`
	ClientID   string             `json:"clientId"`
	Host       string             `json:"host"`
	Epoch      int32              `json:"epoch,omitempty"`
	Topics     []string           `json:"topics"`
	Assigned   map[string][]int32 `json:"assigned"`
	Target     map[string][]int32 `json:"target,omitempty"` // of a consumer group, where it is not what is assigned
	partitions int
}

// describeGroups shows groups of both protocols; one that is not there is an error after those that are.
func (c *cluster) describeGroups(ctx context.Context, names []string, offsets, members bool) error {
	var views []groupView
	var tables []*table
	var missing error
	for _, name := range names {
		v, err := c.groupView(ctx, name)
		if err != nil {
			missing = errors.Join(missing, fmt.Errorf("group %s: %w", name, err))
			continue
		}
		views = append(views, v)
		tables = append(tables, v.tables(offsets, members)...)
	}
	if len(views) > 0 {
		if err := c.t.show(views, tables...); err != nil {
			return err
		}
	}
	return missing
}

func (c *cluster) groupView(ctx context.Context, name string) (groupView, error) {
	adm, err := c.admin()
	if err != nil {
		return groupView{}, err
	}
	v, err := c.members(ctx, name)
	if err != nil {
		return v, err
	}
	committed, err := adm.FetchOffsets(ctx, name)
	if err != nil {
		return v, err
	}
	topics := map[string]bool{}
	committed.Each(func(o kadm.OffsetResponse) { topics[o.Topic] = true })
	for _, m := range v.Members {
		for topic := range m.Assigned {
			topics[topic] = true
		}
	}
	if len(topics) > 0 {
		if err := c.lagOf(ctx, &v, committed, slices.Sorted(maps.Keys(topics))); err != nil {
			return v, err
		}
	}
	v.explain()
	if v.Members == nil {
		v.Members = []memberView{}
	}
	if v.Offsets == nil {
		v.Offsets = []offsetRow{}
	}
	return v, nil
}

// coordinatorPause is between two questions while a coordinator is made, or loads its groups.
const coordinatorPause = 50 * time.Millisecond

// members is membersOf, as soon as there is a coordinator.
func (c *cluster) members(ctx context.Context, name string) (groupView, error) {
	for {
		v, err := c.membersOf(ctx, name)
		if !errors.Is(err, kerr.CoordinatorNotAvailable) && !errors.Is(err, kerr.CoordinatorLoadInProgress) && !errors.Is(err, kerr.NotCoordinator) {
			return v, err
		}
		if clock.Pause(ctx, c.t.Clock, coordinatorPause) != nil {
			return v, err
		}
	}
}

// membersOf asks by the request for consumer groups, and where it is none by the one for classic groups.
func (c *cluster) membersOf(ctx context.Context, name string) (groupView, error) {
	found, err := c.adm.DescribeConsumerGroups(ctx, name)
	if err == nil && found[name].Err == nil {
		return consumerView(found[name]), nil
	}
	classic, err := c.adm.DescribeGroups(ctx, name)
	if err != nil {
		return groupView{}, err
	}
	g := classic[name]
	if g.Err != nil {
		return groupView{}, said(g.Err, g.ErrMessage)
	}
	if g.State == "Dead" {
		return groupView{}, said(kerr.GroupIDNotFound, "there is no such group")
	}
	v := groupView{Name: name, Type: "classic", State: g.State, Coordinator: g.Coordinator.NodeID, Assignor: g.Protocol}
	for _, m := range g.Members {
		mv := memberView{ID: m.MemberID, ClientID: m.ClientID, Host: m.ClientHost, Topics: []string{}, Assigned: map[string][]int32{}}
		if m.InstanceID != nil {
			mv.Instance = *m.InstanceID
		}
		if join, ok := m.Join.AsConsumer(); ok {
			mv.Topics = append(mv.Topics, join.Topics...)
		}
		if assigned, ok := m.Assigned.AsConsumer(); ok {
			for _, topic := range assigned.Topics {
				mv.Assigned[topic.Topic] = slices.Sorted(slices.Values(topic.Partitions))
				mv.partitions += len(topic.Partitions)
			}
		}
		v.Members = append(v.Members, mv)
	}
	return v, nil
}

func consumerView(g kadm.DescribedConsumerGroup) groupView {
	v := groupView{Name: g.Group, Type: "consumer", State: g.State, Coordinator: g.Coordinator.NodeID, Assignor: g.AssignorName, Epoch: g.Epoch}
	for _, m := range g.Members {
		mv := memberView{ID: m.MemberID, ClientID: m.ClientID, Host: m.ClientHost, Epoch: m.MemberEpoch, Topics: append([]string{}, m.SubscribedTopics...), Assigned: listed(m.Assignment)}
		if m.InstanceID != nil {
			mv.Instance = *m.InstanceID
		}
		if m.SubscribedTopicRegex != nil && *m.SubscribedTopicRegex != "" {
			mv.Topics = append(mv.Topics, "/"+*m.SubscribedTopicRegex+"/")
		}
		if target := listed(m.TargetAssignment); !maps.EqualFunc(target, mv.Assigned, slices.Equal) {
			mv.Target = target
		}
		for _, partitions := range mv.Assigned {
			mv.partitions += len(partitions)
		}
		v.Members = append(v.Members, mv)
	}
	return v
}

func listed(set kadm.TopicsSet) map[string][]int32 {
	out := map[string][]int32{}
	for topic, partitions := range set {
		out[topic] = slices.Sorted(maps.Keys(partitions))
	}
	return out
}

// lagOf has a row for each partition of topics that have an offset of the group or are assigned to a member.
func (c *cluster) lagOf(ctx context.Context, v *groupView, committed kadm.OffsetResponses, topics []string) error {
	starts, err := c.adm.ListStartOffsets(ctx, topics...)
	if err != nil {
		return err
	}
	ends, err := c.adm.ListEndOffsets(ctx, topics...)
	if err != nil {
		return err
	}
	owners := map[string]map[int32]memberView{}
	for _, m := range v.Members {
		for topic, partitions := range m.Assigned {
			for _, p := range partitions {
				if owners[topic] == nil {
					owners[topic] = map[int32]memberView{}
				}
				owners[topic][p] = m
			}
		}
	}
	for _, topic := range topics {
		partitions := map[int32]bool{}
		for p := range owners[topic] {
			partitions[p] = true
		}
		for p := range committed[topic] {
			partitions[p] = true
		}
		for _, p := range slices.Sorted(maps.Keys(partitions)) {
			row := offsetRow{Topic: topic, Partition: p, Committed: -1, Start: -1, End: -1, Lag: -1}
			if o, ok := committed.Lookup(topic, p); ok && o.Err == nil {
				row.Committed, row.Metadata = o.At, o.Metadata
			}
			if o, ok := starts.Lookup(topic, p); ok && o.Err == nil {
				row.Start = o.Offset
			}
			if o, ok := ends.Lookup(topic, p); ok && o.Err == nil {
				row.End = o.Offset
			}
			if m, ok := owners[topic][p]; ok {
				row.Member, row.ClientID, row.Host = m.ID, m.ClientID, m.Host
			}
			v.add(row)
		}
	}
	return nil
}

// add adds a row with its lag, which what the log has lost is no part of.
func (v *groupView) add(row offsetRow) {
	if row.Committed >= 0 && row.End >= 0 {
		row.Lag = max(row.End-max(row.Committed, row.Start), 0)
		v.Lag += row.Lag
	} else {
		v.Unknown++
	}
	v.Offsets = append(v.Offsets, row)
}

// explain says what keeps the group from being stable, and what its members do not read.
func (v *groupView) explain() {
	why := []string{}
	switch v.State {
	case "PreparingRebalance":
		why = append(why, fmt.Sprintf("a rebalance waits until each of %s has joined again, or its rebalance timeout has passed", count(len(v.Members), "member")))
	case "CompletingRebalance":
		why = append(why, "all members have joined, and wait for the assignment that their leader makes")
	case "Assigning":
		why = append(why, "members or topics have changed, and the coordinator makes another assignment")
	}
	idle := 0
	for _, m := range v.Members {
		switch {
		case m.Target != nil:
			why = append(why, fmt.Sprintf("member %s is on its way from %s to %s", m.name(), assignedText(m.Assigned), assignedText(m.Target)))
		case m.partitions == 0:
			idle++
		}
	}
	if idle > 0 && healthyState(v.State) {
		why = append(why, fmt.Sprintf("%s without partitions: there are more members than partitions, or their topics do not exist", count(idle, "member")))
	}
	if orphans := v.orphans(); len(orphans) > 0 && len(v.Members) > 0 && v.State == "Stable" {
		why = append(why, "no member reads "+strings.Join(orphans, ", ")+", of which the group has offsets")
	}
	lost := 0
	for _, row := range v.Offsets {
		if row.Committed >= 0 && row.Committed < row.Start {
			lost++
		}
	}
	if lost > 0 {
		why = append(why, fmt.Sprintf("the records at the offset of %s have been deleted: the group goes on at auto.offset.reset", count(lost, "partition")))
	}
	v.Why = why
}

// orphans are the topics that the group has offsets of and no member reads.
func (v *groupView) orphans() []string {
	read, out := map[string]bool{}, map[string]bool{}
	for _, row := range v.Offsets {
		read[row.Topic] = read[row.Topic] || row.Member != ""
	}
	for _, row := range v.Offsets {
		if !read[row.Topic] {
			out[row.Topic] = true
		}
	}
	return slices.Sorted(maps.Keys(out))
}

func (m memberView) name() string {
	if m.Instance != "" {
		return m.Instance
	}
	return m.ID
}

// assignedText writes a:0,1 b:2; nothing where there is nothing.
func assignedText(assigned map[string][]int32) string {
	var out []string
	for _, topic := range slices.Sorted(maps.Keys(assigned)) {
		if len(assigned[topic]) > 0 {
			out = append(out, topic+":"+ids(assigned[topic]))
		}
	}
	if len(out) == 0 {
		return "nothing"
	}
	return strings.Join(out, " ")
}

func (v groupView) tables(offsets, members bool) []*table {
	title := fmt.Sprintf("%s  %s, %s, %s, lag %d", v.Name, v.Type, v.State, count(len(v.Members), "member"), v.Lag)
	if v.Unknown > 0 {
		title += fmt.Sprintf(" and what %s without offset have", count(v.Unknown, "partition"))
	}
	for _, why := range v.Why {
		title += "\n  " + why
	}
	var out []*table
	if offsets {
		tb := newTable(title, "topic", "#partition", "#committed", "+#start", "#end", "#lag", "client", "host", "+member")
		for _, o := range v.Offsets {
			tb.row(o.Topic, o.Partition, dash(o.Committed), dash(o.Start), dash(o.End), dash(o.Lag), o.ClientID, o.Host, o.Member)
		}
		out, title = append(out, tb), ""
	}
	if members && len(v.Members) > 0 {
		tb := newTable(title, "member", "client", "host", "+#epoch", "assigned", "+subscribed")
		for _, m := range v.Members {
			var assigned any = assignedText(m.Assigned)
			if m.Target != nil {
				assigned = bad(fmt.Sprintf("%v → %s", assigned, assignedText(m.Target)))
			}
			tb.row(m.name(), m.ClientID, m.Host, m.Epoch, assigned, strings.Join(m.Topics, ","))
		}
		out = append(out, tb)
	} else if members && !offsets {
		out = append(out, newTable(title, "member", "client", "host", "+#epoch", "assigned", "+subscribed"))
	}
	return out
}

// dash is a number, or - for none.
func dash(n int64) string {
	if n < 0 {
		return "-"
	}
	return fmt.Sprint(n)
}
