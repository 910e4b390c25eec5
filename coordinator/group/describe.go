package group

import (
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/coordinator"
)

// DescribeGroup describes one classic group. One that is unknown is Dead; from version 6 on that is an error too.
func (s *Service) DescribeGroup(id string, version int16, answer func(kmsg.DescribeGroupsResponseGroup)) {
	fail := func(code int16) {
		resp := kmsg.NewDescribeGroupsResponseGroup()
		resp.Group, resp.ErrorCode = id, code
		answer(resp)
	}
	s.submit(id, false,
		func(sh *shard, tx *coordinator.Tx) {
			resp := sh.describe(id, version)
			tx.Reply(func(err error) {
				if err != nil {
					fail(coordinator.Code(err))
					return
				}
				answer(resp)
			})
		}, fail)
}

func (s *shard) describe(id string, version int16) kmsg.DescribeGroupsResponseGroup {
	resp := kmsg.NewDescribeGroupsResponseGroup()
	resp.Group = id
	g, ok := s.groups[id].(*classicGroup)
	if !ok {
		resp.State = dead.String()
		if version >= 6 {
			message := "Group " + id + " not found."
			if s.groups[id] != nil {
				message = "Group " + id + " is not a classic group."
			}
			resp.ErrorCode, resp.ErrorMessage = kerr.GroupIDNotFound.Code, &message
		}
		return resp
	}
	resp.State, resp.ProtocolType = g.stateName(), g.protocolType
	var chosen *string
	if g.state == stable && g.protocol != nil {
		chosen, resp.Protocol = g.protocol, *g.protocol
	}
	for _, m := range g.members {
		resp.Members = append(resp.Members, kmsg.DescribeGroupsResponseGroupMember{
			MemberID: m.id, InstanceID: m.instance, ClientID: m.clientID, ClientHost: m.clientHost,
			ProtocolMetadata: m.metadata(chosen), MemberAssignment: m.assignment,
		})
	}
	return resp
}

// ListGroups lists the groups of all shards that this broker leads; empty filters match all, and neither is sensitive
// to case. A shard that is loading fails the whole list.
func (s *Service) ListGroups(states, types []string, answer func(code int16, groups []kmsg.ListGroupsResponseGroup)) {
	match := matcher(states, types)
	read := func(sh *shard, _ *coordinator.Tx) []kmsg.ListGroupsResponseGroup { return sh.list(match) }
	coordinator.List(s.rt, read, func(groups []kmsg.ListGroupsResponseGroup, err error) { answer(coordinator.Code(err), groups) })
}

func matcher(states, types []string) func(group) bool {
	has := func(filter []string, s string) bool {
		return len(filter) == 0 || slices.ContainsFunc(filter, func(f string) bool { return strings.EqualFold(strings.TrimSpace(f), s) })
	}
	return func(g group) bool { return has(states, g.stateName()) && has(types, g.kind()) }
}

func (s *shard) list(match func(group) bool) []kmsg.ListGroupsResponseGroup {
	var out []kmsg.ListGroupsResponseGroup
	for id, g := range s.groups {
		if match(g) {
			out = append(out, kmsg.ListGroupsResponseGroup{
				Group: id, ProtocolType: g.protocolTypeName(), GroupState: g.stateName(), GroupType: g.kind(),
			})
		}
	}
	slices.SortFunc(out, func(a, b kmsg.ListGroupsResponseGroup) int { return strings.Compare(a.Group, b.Group) })
	return out
}

// DeleteGroup deletes a group without members, and its offsets.
func (s *Service) DeleteGroup(id string, answer func(code int16)) {
	s.submit(id, false,
		func(sh *shard, tx *coordinator.Tx) {
			err := sh.deleteGroup(tx, id)
			tx.Reply(func(failed error) { answer(firstCode(failed, coordinator.Code(err))) })
		}, answer)
}

func (s *shard) deleteGroup(tx *coordinator.Tx, id string) error {
	g := s.groups[id]
	if g == nil {
		return kerr.GroupIDNotFound
	}
	if err := g.checkDelete(); err != nil {
		return err
	}
	s.eachOffset(id, nil, func(topic string, partition int32, _ *committed) bool {
		tx.Append(offsetCommitKey(id, topic, partition), nil)
		return true
	})
	g.deleteRecords(tx)
	return nil
}
