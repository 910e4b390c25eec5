// Command broker is grete: a Kafka broker in one binary.
package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"syscall"

	"grete/cmd/broker/tool"
)

// version is set by the linker.
var version = "dev"

func main() {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, stopSignals()...)
	os.Exit(run(context.Background(), process{
		args: os.Args[1:], env: os.Environ(), stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, signals: signals,
	}))
}

// stopSignals are those for which the JVM stops, too. Under nohup the end of a terminal is none.
func stopSignals() []os.Signal {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	return signals
}

// process is what the program gets from outside.
type process struct {
	args, env      []string
	stdin          io.Reader
	stdout, stderr io.Writer
	signals        <-chan os.Signal // the first asks it to stop, another to stop at once
}

// Exit codes.
const (
	exitFailure = 1 // it cannot start or go on, or the command did not succeed
	exitUsage   = 2 // the command line is none that the program understands; nothing was done
)

// run returns the exit code: 0, or another one with one line on stderr that says why.
func run(ctx context.Context, p process) int {
	root := newRootCommand(p)
	root.SetArgs(p.args)
	root.SetOut(p.stdout)
	root.SetErr(p.stderr)
	code := exitUsage
	onRun(root, func() { code = exitFailure })
	if err := root.ExecuteContext(ctx); err != nil {
		printError(p.stderr, err)
		if _, ok := errors.AsType[*tool.UsageError](err); ok {
			code = exitUsage
		}
		return code
	}
	return 0
}
