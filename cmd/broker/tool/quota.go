package tool

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
)

func (t *tool) quotaCommand() *cobra.Command {
	list := &cobra.Command{
		Use: "list", Short: "List quotas of users, client ids and addresses", Args: cobra.NoArgs,
		RunE: t.asks(func(ctx context.Context, c *cluster, _ []string) error { return c.listQuotas(ctx) }),
	}
	t.shows(list)
	set := &cobra.Command{
		Use: "set <entity>… <quota=value>…", Short: "Set quotas, and (with quota= alone) remove some", Args: atLeast(2),
		Long: "Set quotas. An entity is user=NAME, client-id=NAME or ip=ADDRESS; a user and a client id together are one, and NAME may be <default>.\n\n" +
			"  grete quota set user=ann client-id=etl producer_byte_rate=1048576 consumer_byte_rate=\n\n" +
			"Quotas are producer_byte_rate, consumer_byte_rate, request_percentage, controller_mutation_rate and connection_creation_rate.",
		RunE: t.asks(func(ctx context.Context, c *cluster, args []string) error { return c.setQuotas(ctx, args) }),
	}
	t.rehearses(set)
	return group("quota", "List and set quotas of clients", list, set)
}

type quotaRow struct {
	Entity map[string]string  `json:"entity"`
	Quotas map[string]float64 `json:"quotas"`
}

func (c *cluster) listQuotas(ctx context.Context) error {
	adm, err := c.admin()
	if err != nil {
		return err
	}
	found, err := adm.DescribeClientQuotas(ctx, false, nil)
	if err != nil {
		return err
	}
	rows, tb := []quotaRow{}, newTable("", "entity", "quotas")
	for _, q := range found {
		r := quotaRow{map[string]string{}, map[string]float64{}}
		var entity, values []string
		for _, part := range q.Entity {
			name := "<default>"
			if part.Name != nil {
				name = *part.Name
			}
			r.Entity[part.Type] = name
			entity = append(entity, part.Type+"="+name)
		}
		for _, v := range q.Values {
			r.Quotas[v.Key] = v.Value
			values = append(values, v.Key+"="+strconv.FormatFloat(v.Value, 'f', -1, 64))
		}
		slices.Sort(entity)
		slices.Sort(values)
		rows = append(rows, r)
		tb.row(strings.Join(entity, " "), strings.Join(values, " "))
	}
	return c.t.show(rows, tb)
}

func (c *cluster) setQuotas(ctx context.Context, args []string) error {
	set, err := pairs("quota", args)
	if err != nil {
		return err
	}
	var e kadm.AlterClientQuotaEntry
	for _, kv := range set {
		switch kv[0] {
		case "user", "client-id", "ip":
			part := kadm.ClientQuotaEntityComponent{Type: kv[0], Name: &kv[1]}
			if kv[1] == "<default>" {
				part.Name = nil
			}
			e.Entity = append(e.Entity, part)
		default:
			op := kadm.AlterClientQuotaOp{Key: kv[0], Remove: kv[1] == ""}
			if op.Value, err = strconv.ParseFloat(kv[1], 64); err != nil && !op.Remove {
				return usagef("%s=%s: must be a number", kv[0], kv[1])
			}
			e.Ops = append(e.Ops, op)
		}
	}
	if len(e.Entity) == 0 || len(e.Ops) == 0 {
		return usagef("name an entity (user=, client-id=, ip=) and a quota")
	}
	adm, err := c.admin()
	if err != nil {
		return err
	}
	alter := adm.AlterClientQuotas
	if c.t.dryRun {
		alter = adm.ValidateAlterClientQuotas
	}
	altered, err := alter(ctx, []kadm.AlterClientQuotaEntry{e})
	if err != nil {
		return err
	}
	var p parts
	for _, a := range altered {
		p.add("quotas", fmt.Sprintf("changed for %d names", len(a.Entity)), a.Err, a.ErrMessage)
	}
	return p.report(c.t)
}
