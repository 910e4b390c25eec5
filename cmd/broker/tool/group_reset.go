package tool

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

func (t *tool) resetCommand() *cobra.Command {
	var to string
	var all bool
	cmd := &cobra.Command{
		Use: "reset <group> [<topic[:partitions]>…] --to <offset>", Short: "Set the offsets of a group without members; a plan is shown first", Args: atLeast(1),
		Long: "Set the offsets of a group without members, in the topics that are named or (--all-topics) in those of which it has offsets.\n" +
			"The plan is shown, then a question asked; --dry-run only shows the plan. A place beyond a log is its nearest end.\n\n" +
			"An offset is " + offsetHelp + ".",
		RunE: t.asks(func(ctx context.Context, c *cluster, args []string) error {
			spec, err := parseOffset(to, t.Clock.Now())
			if err != nil {
				return err
			}
			if all == (len(args) > 1) {
				return usagef("name topics, or give --all-topics for those of which the group has offsets")
			}
			return c.resetGroup(ctx, args[0], args[1:], spec)
		}),
	}
	cmd.Flags().StringVar(&to, "to", "", "`offset` to go on at: "+offsetHelp)
	cmd.Flags().BoolVar(&all, "all-topics", false, "all topics of which the group has offsets")
	_ = cmd.MarkFlagRequired("to")
	t.destructive(cmd)
	t.shows(cmd)
	return cmd
}

type resetRow struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	From      int64  `json:"from"` // -1 without an offset
	To        int64  `json:"to"`
}

func (c *cluster) resetGroup(ctx context.Context, group string, args []string, spec offsetSpec) error {
	adm, err := c.admin()
	if err != nil {
		return err
	}
	if err := c.idle(ctx, group); err != nil {
		return err
	}
	committed, err := adm.FetchOffsets(ctx, group)
	if err != nil {
		return err
	}
	if len(args) == 0 {
		if args = slices.Sorted(maps.Keys(committed)); len(args) == 0 {
			return fmt.Errorf("group %s has no offsets; name the topics", group)
		}
	}
	_, at, err := c.places(ctx, args, spec)
	if err != nil {
		return err
	}
	var offsets kadm.Offsets
	rows, tb := []resetRow{}, newTable("", "topic", "#partition", "#from", "#to", "#records")
	for _, topic := range slices.Sorted(maps.Keys(at)) {
		for _, p := range slices.Sorted(maps.Keys(at[topic])) {
			row := resetRow{topic, p, -1, at[topic][p]}
			moved := ""
			if o, ok := committed.Lookup(topic, p); ok && o.Err == nil {
				row.From = o.At
				moved = fmt.Sprintf("%+d", row.To-row.From)
			}
			rows = append(rows, row)
			tb.row(topic, p, dash(row.From), row.To, moved)
			offsets.AddOffset(topic, p, row.To, -1)
		}
	}
	if err := c.t.show(rows, tb); err != nil {
		return err
	}
	if ok, err := c.t.confirm(ctx, "set %s of group %s", count(len(rows), "offset"), group); !ok {
		return err
	}
	responses, err := adm.CommitOffsets(ctx, group, offsets)
	if err != nil {
		return err
	}
	var p parts
	responses.Each(func(o kadm.OffsetResponse) {
		if o.Err != nil {
			p.add(fmt.Sprintf("%s-%d", o.Topic, o.Partition), "", o.Err, "")
		}
	})
	if err := p.report(c.t); err != nil {
		return err
	}
	c.t.done("group %s goes on at these offsets", group)
	return nil
}

// idle refuses a group that has members, which would go on where they are and commit that.
func (c *cluster) idle(ctx context.Context, group string) error {
	v, err := c.members(ctx, group)
	switch {
	case errors.Is(err, kerr.GroupIDNotFound):
		return nil // it comes into being with its offsets
	case err != nil:
		return fmt.Errorf("group %s: %w", group, err)
	case len(v.Members) > 0:
		return fmt.Errorf("group %s has %s, of which the first is %s on %s: stop them first", group, count(len(v.Members), "member"), v.Members[0].ClientID, v.Members[0].Host)
	}
	return nil
}
