package tool

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
)

func (t *tool) topicCommand() *cobra.Command {
	var internal bool
	list := &cobra.Command{
		Use: "list [<topic or prefix*>…]", Short: "List topics",
		RunE: t.asks(func(ctx context.Context, c *cluster, args []string) error { return c.listTopics(ctx, args, internal) }),
	}
	list.Flags().BoolVarP(&internal, "internal", "i", false, "list internal topics, too")
	describe := &cobra.Command{
		Use: "describe <topic>…", Short: "Show partitions with leaders, replicas, in-sync replicas, offsets and sizes", Args: atLeast(1),
		RunE: t.asks(func(ctx context.Context, c *cluster, args []string) error { return c.describeTopics(ctx, args) }),
	}
	t.shows(list, describe)
	remove := &cobra.Command{
		Use: "delete <topic>…", Short: "Delete topics with their records", Args: atLeast(1),
		RunE: t.asks(func(ctx context.Context, c *cluster, args []string) error { return c.deleteTopics(ctx, args) }),
	}
	truncate := t.truncateCommand()
	t.destructive(remove, truncate)
	partitions := t.addPartitionsCommand()
	config := &cobra.Command{
		Use: "config <topic> [key=value | key=…]", Short: "Show a topic's configuration, or set and (with key= alone) remove some of it", Args: atLeast(1),
		RunE: t.asks(func(ctx context.Context, c *cluster, args []string) error {
			return c.configure(ctx, resource{"topic", args[0]}, args[1:])
		}),
	}
	t.shows(config)
	t.rehearses(config)
	for _, cmd := range []*cobra.Command{list, describe, remove} {
		cmd.ValidArgsFunction = t.completes(0, topicNames)
	}
	for _, cmd := range []*cobra.Command{partitions, config, truncate} {
		cmd.ValidArgsFunction = t.completes(1, topicNames)
	}
	return group("topic", "List, describe, create, change and delete topics", list, describe, t.createTopicCommand(), remove, partitions, truncate, config)
}

type topicRow struct {
	Name       string `json:"name"`
	ID         string `json:"id"`
	Partitions int    `json:"partitions"`
	Replicas   int    `json:"replicas"`
	Internal   bool   `json:"internal,omitempty"`
	Unhealthy  int    `json:"unhealthy"` // partitions without a leader, or with replicas out of sync
	Error      string `json:"error,omitempty"`
}

func (c *cluster) listTopics(ctx context.Context, patterns []string, internal bool) error {
	adm, err := c.admin()
	if err != nil {
		return err
	}
	topics, err := adm.ListTopicsWithInternal(ctx)
	if err != nil {
		return err
	}
	rows, tb := []topicRow{}, newTable("", "topic", "#partitions", "#replicas", "unhealthy", "+id")
	for _, d := range topics.Sorted() {
		if d.IsInternal && !internal && len(patterns) == 0 || !matches(patterns, d.Topic) {
			continue
		}
		r := topicRow{Name: d.Topic, ID: idText(d.ID), Partitions: len(d.Partitions), Replicas: d.Partitions.NumReplicas(), Internal: d.IsInternal, Unhealthy: unhealthy(d.Partitions)}
		var state any = ""
		if r.Unhealthy > 0 {
			state = bad(fmt.Sprint(r.Unhealthy))
		}
		if d.Err != nil {
			r.Error = d.Err.Error()
			state = bad(r.Error)
		}
		rows = append(rows, r)
		tb.row(r.Name, r.Partitions, r.Replicas, state, r.ID)
	}
	return c.t.show(rows, tb)
}

// matches tells whether a name is one of the list, or begins as one with a star does; everything matches no list.
func matches(patterns []string, name string) bool {
	return len(patterns) == 0 || slices.ContainsFunc(patterns, func(p string) bool {
		prefix, star := strings.CutSuffix(p, "*")
		return p == name || star && strings.HasPrefix(name, prefix)
	})
}

// unhealthy counts partitions that have no leader or not all replicas in sync.
func unhealthy(partitions kadm.PartitionDetails) (n int) {
	for _, p := range partitions {
		if p.Leader < 0 || len(p.ISR) < len(p.Replicas) {
			n++
		}
	}
	return n
}

// deleteTopics deletes all of the topics, or none where one of them is unknown.
func (c *cluster) deleteTopics(ctx context.Context, topics []string) error {
	adm, err := c.admin()
	if err != nil {
		return err
	}
	details, err := c.topics(ctx, topics)
	if err != nil {
		return err
	}
	for _, d := range details.Sorted() {
		if d.IsInternal {
			return fmt.Errorf("topic %s is internal: the cluster needs it", d.Topic)
		}
	}
	if ok, err := c.t.confirm(ctx, "delete %s with all records: %s", count(len(details), "topic"), strings.Join(details.Names(), ", ")); !ok {
		return err
	}
	responses, err := adm.DeleteTopics(ctx, details.Names()...)
	if err != nil {
		return err
	}
	var p parts
	for _, r := range responses.Sorted() {
		p.add(r.Topic, "deleted", r.Err, r.ErrMessage)
	}
	return p.report(c.t)
}

// topics returns metadata of topics of which each exists.
func (c *cluster) topics(ctx context.Context, names []string) (kadm.TopicDetails, error) {
	adm, err := c.admin()
	if err != nil {
		return nil, err
	}
	details, err := adm.ListTopicsWithInternal(ctx, names...)
	if err != nil {
		return nil, err
	}
	for _, d := range details.Sorted() {
		if d.Err != nil {
			return nil, fmt.Errorf("topic %s: %w", d.Topic, d.Err)
		}
	}
	return details, nil
}
