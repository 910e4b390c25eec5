package tool

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// destructive gives commands that take something away the flags -y and --dry-run.
func (t *tool) destructive(commands ...*cobra.Command) {
	for _, cmd := range commands {
		cmd.Flags().BoolVarP(&t.yes, "yes", "y", false, "do it without a question")
	}
	t.rehearses(commands...)
}

// rehearses gives commands the flag --dry-run.
func (t *tool) rehearses(commands ...*cobra.Command) {
	for _, cmd := range commands {
		cmd.PreRun = func(cmd *cobra.Command, _ []string) {
			t.changes, t.mayAsk = true, t.Asks && cmd.Flags().Lookup("yes") != nil
		}
		cmd.Flags().BoolVar(&t.dryRun, "dry-run", false, "only say what would be done, after the checks that can be made")
	}
}

// confirm asks before something is taken away. It returns false for a dry run, which only says what would be done.
func (t *tool) confirm(ctx context.Context, format string, args ...any) (bool, error) {
	what := fmt.Sprintf(format, args...)
	switch {
	case t.dryRun:
		t.done("would %s", what)
		return false, nil
	case t.yes:
		return true, nil
	case !t.Asks:
		return false, usagef("it would %s: -y does it without a question, --dry-run only says so", what)
	}
	fmt.Fprintf(t.Stderr, "%s? [y/N] ", what)
	answer := make(chan string, 1)
	go func() { // ends with the process when nobody answers
		line, _ := bufio.NewReader(t.Stdin).ReadString('\n')
		answer <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case text := <-answer:
		if text == "y" || text == "yes" {
			return true, nil
		}
		return false, errors.New("nothing was done")
	case <-ctx.Done():
		fmt.Fprintln(t.Stderr)
		return false, errors.New("nothing was done")
	}
}
