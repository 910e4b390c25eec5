package tool

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

func (t *tool) groupCommand() *cobra.Command {
	var states []string
	list := &cobra.Command{
		Use: "list [<group or prefix*>…]", Short: "List groups",
		RunE: t.asks(func(ctx context.Context, c *cluster, args []string) error { return c.listGroups(ctx, args, states) }),
	}
	list.Flags().StringSliceVar(&states, "state", nil, "only groups in these `states` (Stable, Empty, Dead, …)")
	var offsets, members bool
	describe := &cobra.Command{
		Use: "describe <group>…", Short: "Show lag per partition and in all, members, and why a group is not stable", Args: atLeast(1),
		RunE: t.asks(func(ctx context.Context, c *cluster, args []string) error {
			return c.describeGroups(ctx, args, offsets || !members, members || !offsets)
		}),
	}
	describe.Flags().BoolVar(&offsets, "offsets", false, "show offsets and lag alone")
	describe.Flags().BoolVar(&members, "members", false, "show members alone")
	t.shows(list, describe)
	remove := &cobra.Command{
		Use: "delete <group>…", Short: "Delete groups without members, with their offsets", Args: atLeast(1),
		RunE: t.asks(func(ctx context.Context, c *cluster, args []string) error { return c.deleteGroups(ctx, args) }),
	}
	forget := &cobra.Command{
		Use: "delete-offsets <group> <topic[:partitions]>…", Short: "Delete a group's offsets of topics to which it is not subscribed", Args: atLeast(2),
		RunE: t.asks(func(ctx context.Context, c *cluster, args []string) error {
			return c.deleteOffsets(ctx, args[0], args[1:])
		}),
	}
	t.destructive(remove, forget)
	reset := t.resetCommand()
	list.ValidArgsFunction, describe.ValidArgsFunction, remove.ValidArgsFunction = t.completes(0, groupNames), t.completes(0, groupNames), t.completes(0, groupNames)
	forget.ValidArgsFunction = t.completes(1, groupNames)
	reset.ValidArgsFunction = t.completes(1, groupNames)
	return group("group", "List, describe, reset and delete groups of consumers", list, describe, reset, remove, forget)
}

type groupRow struct {
	Name        string `json:"name"`
	Type        string `json:"type"`
	Protocol    string `json:"protocolType"`
	State       string `json:"state"`
	Coordinator int32  `json:"coordinator"`
}

func (c *cluster) listGroups(ctx context.Context, patterns, states []string) error {
	adm, err := c.admin()
	if err != nil {
		return err
	}
	groups, err := adm.ListGroups(ctx, states...)
	if err != nil {
		return err
	}
	rows, tb := []groupRow{}, newTable("", "group", "type", "state", "#coordinator", "+protocol")
	for _, g := range groups.Sorted() {
		if !matches(patterns, g.Group) {
			continue
		}
		rows = append(rows, groupRow{g.Group, g.GroupType, g.ProtocolType, g.State, g.Coordinator})
		var state any = g.State
		if !healthyState(g.State) {
			state = bad(g.State)
		}
		tb.row(g.Group, g.GroupType, state, g.Coordinator, g.ProtocolType)
	}
	return c.t.show(rows, tb)
}

func healthyState(state string) bool { return state == "Stable" || state == "Empty" || state == "" }

func (c *cluster) deleteGroups(ctx context.Context, groups []string) error {
	adm, err := c.admin()
	if err != nil {
		return err
	}
	if ok, err := c.t.confirm(ctx, "delete %s with all offsets: %s", count(len(groups), "group"), strings.Join(groups, ", ")); !ok {
		return err
	}
	responses, err := adm.DeleteGroups(ctx, groups...)
	if err != nil {
		return err
	}
	var p parts
	for _, r := range responses.Sorted() {
		p.add(r.Group, "deleted", r.Err, r.ErrMessage)
	}
	return p.report(c.t)
}

func (c *cluster) deleteOffsets(ctx context.Context, group string, args []string) error {
	within, _, err := c.places(ctx, args, offsetSpec{})
	if err != nil {
		return err
	}
	if ok, err := c.t.confirm(ctx, "delete the offsets of group %s for %s", group, strings.Join(args, ", ")); !ok {
		return err
	}
	set := map[string]map[int32]struct{}{}
	for topic, partitions := range within {
		set[topic] = map[int32]struct{}{}
		for p := range partitions {
			set[topic][p] = struct{}{}
		}
	}
	responses, err := c.adm.DeleteOffsets(ctx, group, set)
	if err != nil {
		return err
	}
	var p parts
	for topic, partitions := range responses {
		for partition, err := range partitions {
			p.add(fmt.Sprintf("%s-%d", topic, partition), "forgotten by "+group, err, "")
		}
	}
	return p.report(c.t)
}
