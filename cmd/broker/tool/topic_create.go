package tool

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
)

func (t *tool) createTopicCommand() *cobra.Command {
	var partitions int32
	var replicas int16
	var configs []string
	var ifMissing bool
	cmd := &cobra.Command{
		Use: "create <topic>…", Short: "Create topics", Args: atLeast(1),
		RunE: t.asks(func(ctx context.Context, c *cluster, args []string) error {
			if partitions == 0 || partitions < -1 || replicas == 0 || replicas < -1 {
				return usagef("--partitions and --replicas are at least 1; -1 is the broker's default")
			}
			set, err := pairs("--config", configs)
			if err != nil {
				return err
			}
			values := map[string]*string{}
			for _, p := range set {
				values[p[0]] = &p[1]
			}
			return c.createTopics(ctx, args, partitions, replicas, values, ifMissing)
		}),
	}
	cmd.Flags().Int32VarP(&partitions, "partitions", "p", -1, "how many partitions each has; -1 is the broker's default")
	cmd.Flags().Int16VarP(&replicas, "replicas", "r", -1, "how many replicas each partition has; -1 is the broker's default")
	cmd.Flags().StringArrayVarP(&configs, "config", "c", nil, "`key=value` of the topics' configuration; may be repeated")
	cmd.Flags().BoolVar(&ifMissing, "if-not-exists", false, "a topic that exists already is no error")
	t.rehearses(cmd)
	return cmd
}

func (c *cluster) createTopics(ctx context.Context, names []string, partitions int32, replicas int16, configs map[string]*string, ifMissing bool) error {
	adm, err := c.admin()
	if err != nil {
		return err
	}
	if ifMissing {
		there, err := adm.ListTopicsWithInternal(ctx)
		if err != nil {
			return err
		}
		names = slices.DeleteFunc(names, there.Has)
		if len(names) == 0 {
			return nil
		}
	}
	create := adm.CreateTopics
	if c.t.dryRun {
		create = adm.ValidateCreateTopics
	}
	responses, err := create(ctx, partitions, replicas, configs, names...)
	if err != nil {
		return err
	}
	var p parts
	for _, r := range responses.Sorted() {
		done := "created"
		if r.NumPartitions > 0 {
			done = fmt.Sprintf("created with %s of %s", count(int(r.NumPartitions), "partition"), count(int(r.ReplicationFactor), "replica"))
		}
		p.add(r.Topic, done, r.Err, r.ErrMessage)
	}
	return p.report(c.t)
}

func (t *tool) addPartitionsCommand() *cobra.Command {
	var to int
	cmd := &cobra.Command{
		Use: "add-partitions <topic> --to <number>", Short: "Give a topic more partitions; keys move to other ones", Args: exactly(1),
		RunE: t.asks(func(ctx context.Context, c *cluster, args []string) error {
			if to < 1 {
				return usagef("--to is how many partitions %s shall have", args[0])
			}
			return c.addPartitions(ctx, args[0], to)
		}),
	}
	cmd.Flags().IntVar(&to, "to", 0, "how many partitions the topic has afterwards")
	t.rehearses(cmd)
	return cmd
}

func (c *cluster) addPartitions(ctx context.Context, topic string, to int) error {
	adm, err := c.admin()
	if err != nil {
		return err
	}
	update := adm.UpdatePartitions
	if c.t.dryRun {
		update = adm.ValidateUpdatePartitions
	}
	responses, err := update(ctx, to, topic)
	if err != nil {
		return err
	}
	var p parts
	for _, r := range responses.Sorted() {
		p.add(r.Topic, fmt.Sprintf("given %d partitions", to), r.Err, r.ErrMessage)
	}
	return p.report(c.t)
}

func (t *tool) truncateCommand() *cobra.Command {
	var before string
	cmd := &cobra.Command{
		Use: "truncate <topic[:partitions]>… --before <offset>", Short: "Delete the records before an offset", Args: atLeast(1),
		RunE: t.asks(func(ctx context.Context, c *cluster, args []string) error {
			spec, err := parseOffset(before, t.Clock.Now())
			if err != nil {
				return err
			}
			return c.truncate(ctx, args, spec)
		}),
	}
	cmd.Flags().StringVar(&before, "before", "", "`offset` of the first record that stays: "+offsetHelp)
	return cmd
}

// places resolves an offset in the partitions that arguments name.
func (c *cluster) places(ctx context.Context, args []string, spec offsetSpec) (within map[string]map[int32]span, at map[string]map[int32]int64, err error) {
	adm, err := c.admin()
	if err != nil {
		return nil, nil, err
	}
	some := map[string][]int32{}
	for _, arg := range args {
		topic, partitions, err := parseTopicPartitions(arg)
		if err != nil {
			return nil, nil, err
		}
		some[topic] = append(some[topic], partitions...)
	}
	names := slices.Sorted(maps.Keys(some))
	if _, err := c.topics(ctx, names); err != nil {
		return nil, nil, err
	}
	if within, err = spans(ctx, adm, false, names...); err != nil {
		return nil, nil, err
	}
	for topic, partitions := range some {
		if err := narrow(within, topic, partitions); err != nil {
			return nil, nil, err
		}
	}
	at, err = spec.resolve(ctx, adm, within)
	return within, at, err
}

func (c *cluster) truncate(ctx context.Context, args []string, spec offsetSpec) error {
	within, at, err := c.places(ctx, args, spec)
	if err != nil {
		return err
	}
	var offsets kadm.Offsets
	records := int64(0)
	for topic, partitions := range at {
		for p, offset := range partitions {
			if n := offset - within[topic][p].start; n > 0 {
				records += n
				offsets.AddOffset(topic, p, offset, -1)
			}
		}
	}
	if records == 0 {
		c.t.done("there is nothing to delete")
		return nil
	}
	if ok, err := c.t.confirm(ctx, "delete %s of %s", count(int(records), "offset"), strings.Join(args, ", ")); !ok {
		return err
	}
	responses, err := c.adm.DeleteRecords(ctx, offsets)
	if err != nil {
		return err
	}
	var p parts
	for _, r := range responses.Sorted() {
		p.add(fmt.Sprintf("%s-%d", r.Topic, r.Partition), fmt.Sprintf("begins at %d", r.LowWatermark), r.Err, "")
	}
	return p.report(c.t)
}
