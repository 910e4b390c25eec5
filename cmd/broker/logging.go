package main

import (
	"io"
	"os"
	"sync/atomic"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/rs/zerolog"
)

// levels is the one logger of the process, which Kafka's tools see as "root", and its level.
type levels struct {
	root atomic.Int32
}

func newLevels() *levels {
	l := &levels{}
	l.root.Store(int32(zerolog.InfoLevel))
	return l
}

// Run drops events below the level; it is a zerolog.Hook.
func (l *levels) Run(e *zerolog.Event, level zerolog.Level, _ string) {
	if level < zerolog.Level(l.root.Load()) {
		e.Discard()
	}
}

// kafkaLevels are Kafka's names of zerolog's levels.
var kafkaLevels = map[zerolog.Level]string{
	zerolog.TraceLevel: "TRACE", zerolog.DebugLevel: "DEBUG", zerolog.InfoLevel: "INFO",
	zerolog.WarnLevel: "WARN", zerolog.ErrorLevel: "ERROR", zerolog.FatalLevel: "FATAL",
}

// Levels is handlers.Loggers'.
func (l *levels) Levels() map[string]string {
	return map[string]string{"root": kafkaLevels[zerolog.Level(l.root.Load())]}
}

// SetLevel is handlers.Loggers'.
func (l *levels) SetLevel(_, level string) {
	for z, name := range kafkaLevels {
		if name == level {
			l.root.Store(int32(z))
		}
	}
}

// newLogger writes lines for people to a terminal, JSON to anything else.
func newLogger(w io.Writer, l *levels) zerolog.Logger {
	zerolog.TimeFieldFormat = zerolog.TimeFormatUnixMs
	if f, ok := w.(*os.File); ok && isatty.IsTerminal(f.Fd()) {
		w = zerolog.ConsoleWriter{Out: w, TimeFormat: time.TimeOnly}
	}
	return zerolog.New(w).Level(zerolog.TraceLevel).Hook(l).With().Timestamp().Logger()
}
