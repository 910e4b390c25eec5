package tool

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// resource is what has a configuration.
type resource struct{ kind, name string }

// resourceTypes are the kinds of Kafka's ConfigResource.Type.
var resourceTypes = map[string]kmsg.ConfigResourceType{
	"topic": kmsg.ConfigResourceTypeTopic, "broker": kmsg.ConfigResourceTypeBroker, "broker-logger": kmsg.ConfigResourceTypeBrokerLogger, "client-metrics": 16, "group": 32,
}

func (t *tool) configCommand() *cobra.Command {
	var all bool
	get := &cobra.Command{
		Use: "get <topic|broker|broker-logger|group|client-metrics> [<name>]", Short: "Show a configuration: what was set, with --all defaults, too", Args: oneOrTwo,
		RunE: t.asks(func(ctx context.Context, c *cluster, args []string) error {
			r, err := resourceOf(args)
			if err != nil {
				return err
			}
			return c.showConfig(ctx, r, !all)
		}),
	}
	get.Flags().BoolVarP(&all, "all", "a", false, "show defaults, too")
	t.shows(get)
	set := &cobra.Command{
		Use: "set <kind> <name> <key=value>…", Short: "Set values; key+=value and key-=value change a list; the name of all brokers is default", Args: atLeast(3),
		RunE: t.asks(func(ctx context.Context, c *cluster, args []string) error {
			r, err := resourceOf(args[:2])
			if err != nil {
				return err
			}
			return c.configure(ctx, r, args[2:])
		}),
	}
	unset := &cobra.Command{
		Use: "unset <kind> <name> <key>…", Short: "Remove values, so that the default is in force again", Args: atLeast(3),
		RunE: t.asks(func(ctx context.Context, c *cluster, args []string) error {
			r, err := resourceOf(args[:2])
			if err != nil {
				return err
			}
			var changes []kadm.AlterConfig
			for _, key := range args[2:] {
				changes = append(changes, kadm.AlterConfig{Op: kadm.DeleteConfig, Name: key})
			}
			return c.alter(ctx, r, changes)
		}),
	}
	t.rehearses(set, unset)
	for _, cmd := range []*cobra.Command{get, set, unset} {
		cmd.ValidArgsFunction = t.completeResources
	}
	return group("config", "Show and change configurations of topics, brokers, groups and more", get, set, unset)
}

func oneOrTwo(cmd *cobra.Command, args []string) error {
	if len(args) != 1 && len(args) != 2 {
		return fmt.Errorf("%d arguments where there must be one or two: %s", len(args), cmd.UseLine())
	}
	return notEmpty(args)
}

func (t *tool) completeResources(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	switch {
	case len(args) == 0:
		return []string{"topic", "broker", "broker-logger", "group", "client-metrics"}, cobra.ShellCompDirectiveNoFileComp
	case len(args) == 1 && args[0] == "topic":
		return t.completes(0, topicNames)(cmd, args, typed)
	case len(args) == 1 && args[0] == "group":
		return t.completes(0, groupNames)(cmd, args, typed)
	}
	return nil, cobra.ShellCompDirectiveNoFileComp
}

func resourceOf(args []string) (resource, error) {
	r := resource{kind: args[0]}
	if len(args) > 1 {
		r.name = args[1]
	}
	if _, ok := resourceTypes[r.kind]; !ok {
		return r, usagef("%s has no configuration: it is one of a topic, broker, broker-logger, group or client-metrics", r.kind)
	}
	switch r.kind {
	case "broker":
		if r.name == "default" {
			r.name = ""
		}
		if _, err := strconv.ParseUint(r.name, 10, 31); r.name != "" && err != nil {
			return r, usagef("%s is no broker: it is an id, or default for all of them", r.name)
		}
	default:
		if r.name == "" {
			return r, usagef("which %s?", r.kind)
		}
	}
	return r, nil
}

func (r resource) String() string {
	if r.kind == "broker" && r.name == "" {
		return "all brokers"
	}
	return r.kind + " " + r.name
}

type configRow struct {
	Key       string  `json:"key"`
	Value     *string `json:"value"`
	Source    string  `json:"source"`
	Sensitive bool    `json:"sensitive,omitempty"`
}

// setHere are the sources of values that somebody has set on the resource itself.
var setHere = []kmsg.ConfigSource{
	kmsg.ConfigSourceDynamicTopicConfig, kmsg.ConfigSourceDynamicBrokerConfig, kmsg.ConfigSourceDynamicDefaultBrokerConfig, kmsg.ConfigSourceDynamicBrokerLoggerConfig,
	kmsg.ConfigSourceClientMetricsConfig, kmsg.ConfigSourceGroupConfig, kmsg.ConfigSourceStaticBrokerConfig,
}

// configRows are sorted; under set only those that somebody has set.
func configRows(configs []kadm.Config, set bool) []configRow {
	rows := []configRow{}
	for _, c := range configs {
		if !set || slices.Contains(setHere, c.Source) {
			rows = append(rows, configRow{c.Key, c.Value, c.Source.String(), c.Sensitive})
		}
	}
	slices.SortFunc(rows, func(a, b configRow) int { return strings.Compare(a.Key, b.Key) })
	return rows
}

func configTable(rows []configRow) *table {
	tb := newTable("", "key", "value", "source")
	for _, r := range rows {
		value := ""
		switch {
		case r.Sensitive:
			value = "[hidden]"
		case r.Value != nil:
			value = *r.Value
		}
		tb.row(r.Key, value, r.Source)
	}
	return tb
}

// describeConfig asks for the configuration of a resource.
func (c *cluster) describeConfig(ctx context.Context, r resource) ([]kadm.Config, error) {
	adm, err := c.admin()
	if err != nil {
		return nil, err
	}
	if r.kind == "topic" {
		found, err := adm.DescribeTopicConfigs(ctx, r.name)
		if err != nil {
			return nil, err
		}
		one, err := found.On(r.name, nil)
		return one.Configs, errors.Join(err, one.Err)
	}
	return c.describeResource(ctx, r)
}

// describeResource asks the broker in question, and any other for the rest.
func (c *cluster) describeResource(ctx context.Context, r resource) ([]kadm.Config, error) {
	req := kmsg.NewPtrDescribeConfigsRequest()
	one := kmsg.NewDescribeConfigsRequestResource()
	one.ResourceType, one.ResourceName = resourceTypes[r.kind], r.name
	req.Resources = append(req.Resources, one)
	resp, err := c.request(ctx, r, req)
	if err != nil {
		return nil, err
	}
	answer, ok := resp.(*kmsg.DescribeConfigsResponse)
	if !ok || len(answer.Resources) != 1 {
		return nil, errors.New("the answer is about something else")
	}
	got := answer.Resources[0]
	if err := kerrOf(got.ErrorCode, got.ErrorMessage); err != nil {
		return nil, err
	}
	var out []kadm.Config
	for _, e := range got.Configs {
		out = append(out, kadm.Config{Key: e.Name, Value: e.Value, Sensitive: e.IsSensitive, Source: e.Source})
	}
	return out, nil
}

// showConfig shows a configuration; under set only what somebody has set.
func (c *cluster) showConfig(ctx context.Context, r resource, set bool) error {
	found, err := c.describeConfig(ctx, r)
	if err != nil {
		return fmt.Errorf("%v: %w", r, err)
	}
	rows := configRows(found, set)
	return c.t.show(rows, configTable(rows))
}

// configure shows the configuration of a resource, or changes it by key=value, key+=value, key-=value and key=.
func (c *cluster) configure(ctx context.Context, r resource, args []string) error {
	if len(args) == 0 {
		return c.showConfig(ctx, r, true)
	}
	set, err := pairs("configuration", args)
	if err != nil {
		return err
	}
	var changes []kadm.AlterConfig
	for _, kv := range set {
		key, value := kv[0], kv[1]
		change := kadm.AlterConfig{Op: kadm.SetConfig, Name: key, Value: &value}
		switch {
		case strings.HasSuffix(key, "+"):
			change.Op, change.Name = kadm.AppendConfig, strings.TrimSuffix(key, "+")
		case strings.HasSuffix(key, "-"):
			change.Op, change.Name = kadm.SubtractConfig, strings.TrimSuffix(key, "-")
		case value == "":
			change.Op, change.Value = kadm.DeleteConfig, nil
		}
		changes = append(changes, change)
	}
	return c.alter(ctx, r, changes)
}

func (c *cluster) alter(ctx context.Context, r resource, changes []kadm.AlterConfig) error {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.ValidateOnly = c.t.dryRun
	one := kmsg.NewIncrementalAlterConfigsRequestResource()
	one.ResourceType, one.ResourceName = resourceTypes[r.kind], r.name
	for _, change := range changes {
		e := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		e.Name, e.Op, e.Value = change.Name, kmsg.IncrementalAlterConfigOp(change.Op), change.Value
		one.Configs = append(one.Configs, e)
	}
	req.Resources = append(req.Resources, one)
	resp, err := c.request(ctx, r, req)
	if err != nil {
		return err
	}
	answer, ok := resp.(*kmsg.IncrementalAlterConfigsResponse)
	if !ok || len(answer.Resources) != 1 {
		return errors.New("the answer is about something else")
	}
	if err := kerrOf(answer.Resources[0].ErrorCode, answer.Resources[0].ErrorMessage); err != nil {
		return fmt.Errorf("%v: %w", r, err)
	}
	verb := map[bool]string{false: "changed", true: "would be changed"}[c.t.dryRun]
	c.t.done("%v %s", r, verb)
	return nil
}

// request sends to the broker that a resource belongs to, or to any.
func (c *cluster) request(ctx context.Context, r resource, req kmsg.Request) (kmsg.Response, error) {
	cl, err := c.main()
	if err != nil {
		return nil, err
	}
	if id, err := strconv.ParseInt(r.name, 10, 32); err == nil && strings.HasPrefix(r.kind, "broker") {
		return cl.Broker(int(id)).RetriableRequest(ctx, req)
	}
	return cl.Request(ctx, req)
}
