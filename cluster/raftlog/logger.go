package raftlog

import (
	"fmt"
	"slices"

	"github.com/rs/zerolog"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/tracker"
)

// raftLogger gives Raft's log lines to zerolog; its information is our detail. Raft's ids become those of nodes.
type raftLogger struct{ log zerolog.Logger }

var _ raft.Logger = raftLogger{}

func (l raftLogger) Debug(v ...any)                   { l.log.Trace().Msg(fmt.Sprint(v...)) }
func (l raftLogger) Debugf(format string, v ...any)   { l.log.Trace().Msg(withNodeIDs(format, v)) }
func (l raftLogger) Info(v ...any)                    { l.log.Debug().Msg(fmt.Sprint(v...)) }
func (l raftLogger) Infof(format string, v ...any)    { l.log.Debug().Msg(withNodeIDs(format, v)) }
func (l raftLogger) Warning(v ...any)                 { l.log.Warn().Msg(fmt.Sprint(v...)) }
func (l raftLogger) Warningf(format string, v ...any) { l.log.Warn().Msg(withNodeIDs(format, v)) }
func (l raftLogger) Error(v ...any)                   { l.log.Error().Msg(fmt.Sprint(v...)) }
func (l raftLogger) Errorf(format string, v ...any)   { l.log.Error().Msg(withNodeIDs(format, v)) }

// Raft calls these when an invariant of its own is broken: going on could lose data, so both panic.
func (l raftLogger) Fatal(v ...any)                 { panic(fmt.Sprint(v...)) }
func (l raftLogger) Fatalf(format string, v ...any) { panic(withNodeIDs(format, v)) }
func (l raftLogger) Panic(v ...any)                 { panic(fmt.Sprint(v...)) }
func (l raftLogger) Panicf(format string, v ...any) { panic(withNodeIDs(format, v)) }

// withNodeIDs is fmt.Sprintf of a line of Raft's.
func withNodeIDs(format string, args []any) string {
	shown := slices.Clone(args)
	for i, arg := range args {
		switch v := arg.(type) {
		case uint64:
			shown[i] = raftNumber(v)
		case tracker.Config:
			shown[i] = describe(v)
		}
	}
	return fmt.Sprintf(format, shown...)
}

// raftNumber is a number in a line of Raft's: ids, and nothing else, are printed with %x.
type raftNumber uint64

// Format is fmt.Formatter's.
func (n raftNumber) Format(f fmt.State, verb rune) {
	switch {
	case verb != 'x':
		fmt.Fprintf(f, fmt.FormatString(f, verb), uint64(n))
	case uint64(n) == raft.None:
		fmt.Fprint(f, "none")
	default:
		fmt.Fprint(f, nodeID(uint64(n)))
	}
}

// describe is a configuration's voters and learners.
func describe(c tracker.Config) string {
	return fmt.Sprintf("voters=%v learners=%v", nodesOf(c.Voters.IDs()), nodesOf(c.Learners))
}

func nodesOf(ids map[uint64]struct{}) (nodes []int32) {
	for id := range ids {
		nodes = append(nodes, nodeID(id))
	}
	slices.Sort(nodes)
	return nodes
}
