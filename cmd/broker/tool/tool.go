// Package tool has the commands of grete that speak to a running cluster as a client does: to Grete, to Kafka, to
// anything that speaks the protocol. It knows none of the broker's rooms but what reads record batches offline.
package tool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"grete/internal/clock"
	"grete/internal/vfs"
)

// World is what the commands get from outside.
type World struct {
	Version        string
	Env            []string
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Files          vfs.FS
	Clock          clock.Clock
	Signals        <-chan os.Signal // the first one ends a command
	Terminal       bool             // stdout is a terminal: there are colours
	Asks           bool             // stdin and stderr are one: questions can be answered
}

// UsageError is a command line that makes no sense, which only the command itself could tell. Nothing was done.
type UsageError struct{ text string }

func (e *UsageError) Error() string { return e.text }

func usagef(format string, args ...any) error {
	return &UsageError{fmt.Sprintf(format, args...)}
}

// tool is one run of the program.
type tool struct {
	World
	flags   link   // as given on the command line
	profile string // --profile
	timeout timeoutFlag
	output  outputFlag
	yes     bool // -y
	dryRun  bool
	changes bool // the command changes something
	mayAsk  bool // the command may ask somebody, who takes time
}

// Commands returns the commands of the tool. Those that ask a cluster have the flags that say which.
func Commands(w World) []*cobra.Command {
	t := &tool{World: w}
	commands := []*cobra.Command{
		t.topicCommand(), t.groupCommand(), t.produceCommand(), t.consumeCommand(), t.configCommand(), t.quotaCommand(), t.brokerCommand(), t.clusterCommand(),
		t.quorumCommand(), t.txnCommand(), t.healthCommand(), t.apiCommand(), t.benchCommand(),
	}
	for _, cmd := range commands {
		t.connectionFlags(cmd.PersistentFlags())
	}
	return append(commands, t.logCommand(), t.profileCommand())
}

// env returns a variable of the environment, "" without one.
func (t *tool) env(name string) string {
	for _, entry := range t.Env {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value
		}
	}
	return ""
}

// group is a command that only holds others.
func group(use, short string, subs ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(subs...)
	return cmd
}

// errInterrupted is the end of a command by a signal.
var errInterrupted = errors.New("interrupted")

// watch returns a context that ends with the first signal; stop ends the watch.
func (t *tool) watch(parent context.Context) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	go func() {
		select {
		case <-t.Signals:
			cancel(errInterrupted)
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}

// interrupted tells whether a signal ended the context.
func interrupted(ctx context.Context) bool { return errors.Is(context.Cause(ctx), errInterrupted) }

// clusterCommand is a command that asks a cluster.
type clusterCommand func(ctx context.Context, c *cluster, args []string) error

// answerTimeout is how long a question waits for its answer.
const answerTimeout = 10 * time.Minute

// asks runs a command whose requests are few: --timeout bounds it as a whole.
func (t *tool) asks(run clusterCommand) func(*cobra.Command, []string) error {
	return t.connects(func(ctx context.Context, c *cluster, args []string) error {
		limit := c.timeout
		if t.mayAsk {
			limit += answerTimeout
		}
		limited, cancel := clock.WithTimeout(ctx, t.Clock, limit)
		defer cancel()
		err := run(limited, c, args)
		switch {
		case interrupted(ctx) && t.changes && errors.Is(err, context.Canceled):
			return fmt.Errorf("%w: what was asked for may be done, or not", errInterrupted)
		case err == nil || interrupted(ctx):
			return err
		case limited.Err() != nil && ctx.Err() == nil:
			return fmt.Errorf("no answer from %s within %v (--timeout)", c.addresses(), c.timeout)
		}
		return err
	})
}

// streams runs a command that goes on for as long as there is something to do.
func (t *tool) streams(run clusterCommand) func(*cobra.Command, []string) error {
	return t.connects(run)
}

// connects opens the connection to the cluster and says what went wrong in words of the command line.
func (t *tool) connects(run clusterCommand) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		ctx, stop := t.watch(cmd.Context())
		defer stop()
		l, err := t.link(cmd.Flags())
		if err != nil {
			return err
		}
		c, err := t.open(ctx, l)
		if err != nil {
			return err
		}
		defer c.close()
		err = run(c.ctx, c, args)
		if interrupted(ctx) && errors.Is(err, context.Canceled) {
			return errInterrupted
		}
		return c.explain(err)
	}
}
