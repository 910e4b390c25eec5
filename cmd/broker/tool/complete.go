package tool

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"

	"grete/internal/clock"
)

// completeTimeout bounds what a shell waits for after a tab.
const completeTimeout = 2 * time.Second

type completion = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective)

// completes asks the cluster for names. max bounds how many arguments have such names; 0 means no bound.
func (t *tool) completes(most int, names func(context.Context, *kadm.Client) ([]string, error)) completion {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if most > 0 && len(args) >= most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := clock.WithTimeout(context.WithoutCancel(cmd.Root().Context()), t.Clock, completeTimeout)
		defer cancel()
		l, err := t.link(cmd.Flags())
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		c, err := t.open(ctx, l)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		defer c.close()
		adm, err := c.admin()
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		found, err := names(c.ctx, adm)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		found = slices.DeleteFunc(found, func(name string) bool { return slices.Contains(args, name) })
		return found, cobra.ShellCompDirectiveNoFileComp
	}
}

func topicNames(ctx context.Context, adm *kadm.Client) ([]string, error) {
	topics, err := adm.ListTopics(ctx)
	return topics.Names(), err
}

func groupNames(ctx context.Context, adm *kadm.Client) ([]string, error) {
	groups, err := adm.ListGroups(ctx)
	return groups.Groups(), err
}

func (t *tool) completeProfiles(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	name, err := t.profilesFile()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	p, err := t.readProfiles(name)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return slices.Sorted(maps.Keys(p.Profiles)), cobra.ShellCompDirectiveNoFileComp
}
