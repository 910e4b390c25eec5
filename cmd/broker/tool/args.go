package tool

import (
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
)

func exactly(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != n {
			return fmt.Errorf("%d arguments where there must be %d: %s", len(args), n, cmd.UseLine())
		}
		return notEmpty(args)
	}
}

func atLeast(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < n {
			return fmt.Errorf("%d arguments where there must be at least %d: %s", len(args), n, cmd.UseLine())
		}
		return notEmpty(args)
	}
}

func atMost(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > n {
			return fmt.Errorf("%d arguments where there may be %d: %s", len(args), n, cmd.UseLine())
		}
		return notEmpty(args)
	}
}

// notEmpty refuses an argument without text: in scripts it is a variable that is not set.
func notEmpty(args []string) error {
	for i, a := range args {
		if strings.TrimSpace(a) == "" {
			return fmt.Errorf("argument %d is empty", i+1)
		}
	}
	return nil
}

// pairs reads key=value arguments.
func pairs(what string, list []string) ([][2]string, error) {
	var out [][2]string
	for _, entry := range list {
		key, value, ok := strings.Cut(entry, "=")
		if !ok || key == "" {
			return nil, usagef("%s %s: must be key=value", what, entry)
		}
		out = append(out, [2]string{key, value})
	}
	return out, nil
}

// ids writes broker ids as 1,2,3.
func ids(list []int32) string {
	return strings.ReplaceAll(strings.Trim(fmt.Sprint(list), "[]"), " ", ",")
}

// idText is a topic id as Kafka's tools write it.
func idText(id kadm.TopicID) string { return base64.RawURLEncoding.EncodeToString(id[:]) }
