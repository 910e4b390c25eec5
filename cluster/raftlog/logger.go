package raftlog

import (
	"fmt"

	"github.com/rs/zerolog"
	"go.etcd.io/raft/v3"
)

// raftLogger gives Raft's log lines to zerolog; its information is our detail.
type raftLogger struct{ log zerolog.Logger }

var _ raft.Logger = raftLogger{}

func (l raftLogger) Debug(v ...any)                   { l.log.Trace().Msg(fmt.Sprint(v...)) }
func (l raftLogger) Debugf(format string, v ...any)   { l.log.Trace().Msgf(format, v...) }
func (l raftLogger) Info(v ...any)                    { l.log.Debug().Msg(fmt.Sprint(v...)) }
func (l raftLogger) Infof(format string, v ...any)    { l.log.Debug().Msgf(format, v...) }
func (l raftLogger) Warning(v ...any)                 { l.log.Warn().Msg(fmt.Sprint(v...)) }
func (l raftLogger) Warningf(format string, v ...any) { l.log.Warn().Msgf(format, v...) }
func (l raftLogger) Error(v ...any)                   { l.log.Error().Msg(fmt.Sprint(v...)) }
func (l raftLogger) Errorf(format string, v ...any)   { l.log.Error().Msgf(format, v...) }

// Raft calls these when an invariant of its own is broken: going on could lose data, so both panic.
func (l raftLogger) Fatal(v ...any)                 { panic(fmt.Sprint(v...)) }
func (l raftLogger) Fatalf(format string, v ...any) { panic(fmt.Sprintf(format, v...)) }
func (l raftLogger) Panic(v ...any)                 { panic(fmt.Sprint(v...)) }
func (l raftLogger) Panicf(format string, v ...any) { panic(fmt.Sprintf(format, v...)) }
