package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"grete/cmd/broker/tool"
	"grete/internal/clock"
	"grete/internal/vfs"
)

func newRootCommand(p process) *cobra.Command {
	root := &cobra.Command{
		Use:           "grete",
		Short:         "A Kafka broker in one binary, and a tool for Kafka clusters",
		Version:       version,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetVersionTemplate("grete {{.Version}}\n")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return flagError(err) })
	root.SetHelpCommand(newHelpCommand())
	root.AddCommand(newServeCommand(p), newCertsCommand(p), newUserCommand(p), newVersionCommand())
	root.AddCommand(tool.Commands(p.toolWorld())...)
	return root
}

// toolWorld is what the commands get that speak to a cluster as a client.
func (p process) toolWorld() tool.World {
	return tool.World{
		Version: version, Env: p.env, Stdin: p.stdin, Stdout: p.stdout, Stderr: p.stderr, Files: vfs.OS, Clock: clock.System, Signals: p.signals,
		Terminal: isTerminal(p.stdout), Asks: isTerminal(p.stdin) && isTerminal(p.stderr),
	}
}

// isTerminal tells whether somebody sits before a reader or a writer.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}

// onRun has begin called before any command does something: the command line has been understood by then.
func onRun(cmd *cobra.Command, begin func()) {
	if run := cmd.RunE; run != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error { begin(); return run(cmd, args) }
	}
	for _, sub := range cmd.Commands() {
		onRun(sub, begin)
	}
}

// newHelpCommand refuses what is no command, where cobra's own shows another command's help.
func newHelpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [command]",
		Short: "Help about any command",
		Args: func(cmd *cobra.Command, args []string) error {
			of, rest, err := cmd.Root().Find(args)
			if err == nil && len(rest) > 0 {
				err = fmt.Errorf("unknown command %q for %q", rest[0], of.CommandPath())
			}
			return err
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			of, _, err := cmd.Root().Find(args)
			if err != nil {
				return err
			}
			of.InitDefaultHelpFlag()
			return of.Help()
		},
	}
}

// oneArg wants the one argument that a command's usage names.
func oneArg(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("%d arguments where there must be one: %s", len(args), cmd.UseLine())
	}
	return nil
}

func newServeCommand(p process) *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the broker until SIGTERM, SIGINT or SIGHUP",
		Long: "Run the broker until SIGTERM, SIGINT or SIGHUP; another a second later stops it at once.\n\n" +
			"Settings are Kafka's, from server.properties (--config), KAFKA_* variables and --set, each stronger than the one\n" +
			"before. A property that nobody knows is a warning, with --set or --strict an error. Without any, data goes to ./data,\n" +
			"clients are served on localhost:9092, and metrics, health and pprof on http://127.0.0.1:9640 (--set admin.listen=host:port\n" +
			"moves them, --set admin.listen= turns them off; pprof is there only while that is a loopback address,\n" +
			"--set admin.pprof.listen=host:port gives it one of its own).",
		Args:    cobra.NoArgs,
		PreRunE: func(cmd *cobra.Command, _ []string) error { return checkExclusive(cmd.Flags()) },
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkEmpty(cmd.Flags()); err != nil {
				return err
			}
			if err := f.check(cmd.Flags().Changed); err != nil {
				return err
			}
			return serve(cmd.Context(), p, f)
		},
	}
	cmd.Flags().StringVar(&f.config, "config", "", "server.properties `file`")
	cmd.Flags().StringVar(&f.listen, "listen", "", "`host:port` for clients (listeners=PLAINTEXT://host:port); port 0 takes a free one")
	cmd.Flags().StringVar(&f.dataDir, "data-dir", "", "data `directory` (log.dirs)")
	cmd.Flags().StringArrayVar(&f.set, "set", nil, "`key=value` of any Kafka property; may be repeated")
	cmd.Flags().BoolVar(&f.strict, "strict", false, "refuse a property that nobody knows in the file or a variable, too")
	cmd.Flags().BoolVar(&f.ephemeral, "ephemeral", false, "keep the data in a temporary directory that is removed at the end")
	cmd.Flags().IntVar(&f.brokers, "brokers", 1, "run that many brokers as one cluster in this process, on ports one after the other")
	cmd.Flags().IntVar(&f.nodeID, "node-id", -1, "`id` of this node (node.id)")
	cmd.Flags().StringVar(&f.join, "join", "", "`host:port,…` of nodes to find the others through, by gossip (gossip.join); the port is 7946 unless given")
	cmd.Flags().IntVar(&f.expect, "expect", 0, "how many nodes begin a new cluster together (gossip.expect); without it the node waits for a cluster to join")
	return cmd
}

// exclusiveFlags are pairs of which only one can be given.
var exclusiveFlags = [][2]string{{"brokers", "join"}, {"brokers", "node-id"}, {"data-dir", "ephemeral"}}

func checkExclusive(flags *pflag.FlagSet) error {
	for _, pair := range exclusiveFlags {
		if flags.Changed(pair[0]) && flags.Changed(pair[1]) {
			return fmt.Errorf("--%s and --%s exclude each other", pair[0], pair[1])
		}
	}
	return nil
}

// checkEmpty refuses a flag without text: in scripts it is a variable that is not set, and the default may be somebody
// else's data.
func checkEmpty(flags *pflag.FlagSet) (err error) {
	flags.Visit(func(flag *pflag.Flag) {
		if flag.Value.Type() == "string" && strings.TrimSpace(flag.Value.String()) == "" {
			err = fmt.Errorf("config: --%s is empty", flag.Name)
		}
	})
	return err
}

// flagError says what a flag takes, where pflag says how it was parsed.
func flagError(err error) error {
	if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return fmt.Errorf("--%s=%s: not a value of type %s", invalid.GetFlag().Name, invalid.GetValue(), invalid.GetFlag().Value.Type())
	}
	return err
}

func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), "grete", version)
			return err
		},
	}
}

// printError prints an error as one line. What cobra suggests instead of a command stands in lines of its own.
func printError(w io.Writer, err error) {
	text, asks := "", false
	for line := range strings.Lines(err.Error()) {
		switch line = strings.TrimSpace(line); {
		case line == "":
		case text == "":
			text = line
		case line == "Did you mean this?":
			text, asks = text+"; did you mean ", true
		case asks && strings.HasSuffix(text, " "):
			text += line
		case asks:
			text += " or " + line
		default:
			text += "; " + line
		}
	}
	if asks {
		text += "?"
	}
	fmt.Fprintln(w, "grete:", text)
}
