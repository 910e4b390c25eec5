package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"grete/cmd/broker/node"
	"grete/internal/clock"
	"grete/internal/config"
	"grete/internal/ports"
	"grete/internal/vfs"
)

// stopTimeout bounds a graceful stop; requests that are still parked then are dropped.
const stopTimeout = 30 * time.Second

// echoTime is how long further signals mean the same as the first: timeout(1) and supervisors signal a process and then
// its group, make passes on what a terminal has sent to both.
const echoTime = time.Second

// errForced: a second signal came.
var errForced = errors.New("stopped by a second signal; the next start checks the logs")

// serve runs the broker until a signal, ctx's end, or a failure that it cannot survive.
func serve(ctx context.Context, p process, f serveFlags) (err error) {
	fs := vfs.OS
	if f.ephemeral {
		if err := f.makeTempDir(fs, p.env, rand.Reader); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, fs.RemoveAll(f.tempDir)) }()
	}
	r := &reserved{byAddress: map[string]net.Listener{}}
	defer r.close()
	configs, err := f.loadFleet(fs, p.env, r)
	if err != nil {
		return err
	}
	loggers := newLevels()
	log := newLogger(p.stderr, loggers)
	warnUnused(log, configs[0])
	ledger := openLedger(fs, p.env, configs[0].Int("queued.max.request.bytes"))
	keeper := keepMemory(ledger, p.env, clock.System)
	defer keeper.Stop()
	var options []node.Options
	for _, cfg := range configs {
		own := log
		if len(configs) > 1 {
			own = log.With().Int32("broker", cfg.NodeID).Logger()
		}
		options = append(options, node.Options{
			Config: cfg, FS: fs, Clock: clock.System, Entropy: rand.Reader, Log: own, Loggers: loggers, Memory: ledger, Listen: r.listen, Bind: ports.Bind, ListenPacket: net.ListenPacket,
		})
	}
	started, err := start(ctx, p, log, options)
	if started == nil {
		return err
	}
	for i, cfg := range configs {
		log.Info().Str("version", version).Str("cluster", started.nodes[i].ClusterID()).Int32("node", cfg.NodeID).Strs("dirs", cfg.LogDirs).Int64("memory", ledger.LimitBytes()).Msg("started")
	}
	forgetStart()
	return wait(ctx, p, started, log)
}

func warnUnused(log zerolog.Logger, cfg *config.Broker) {
	if len(cfg.Unknown) > 0 {
		log.Warn().Strs("properties", cfg.Unknown).Msg("properties that nobody knows change nothing")
	}
	if len(cfg.Unused) > 0 {
		log.Warn().Str("properties", strings.Join(cfg.Unused, ",")).Msg("Kafka's properties that change nothing here yet")
	}
	for _, w := range cfg.Warnings {
		log.Warn().Strs("properties", w.Properties).Str("reason", w.Reason).Msg("properties that protect nothing")
	}
}

// start starts the brokers. A signal meanwhile, when they wait for other nodes say, ends the attempt: nil and no error.
func start(ctx context.Context, p process, log zerolog.Logger, options []node.Options) (f *fleet, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	started := make(chan error, 1)
	go func() { // ends with the process when it is forced
		f, err = startFleet(ctx, options)
		started <- err
	}()
	select {
	case err := <-started:
		return f, err
	case s := <-p.signals:
		log.Info().Stringer("signal", s).Msg("stopping before all is started")
	}
	cancel()
	switch err := awaitStop(started, p.signals, clock.System); {
	case errors.Is(err, errForced):
		return nil, err
	case err != nil:
		return nil, nil // because of the cancel, or of what does not matter any more
	}
	stopCtx, done := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer done()
	return nil, f.Stop(stopCtx)
}

// wait returns once the broker has stopped.
func wait(ctx context.Context, p process, f *fleet, log zerolog.Logger) error {
	var failure error
	select {
	case s := <-p.signals:
		log.Info().Stringer("signal", s).Msg("stopping")
	case <-ctx.Done():
		log.Info().Msg("stopping")
	case failure = <-f.Failed():
		failure = fmt.Errorf("the broker cannot go on: %w", failure)
	}
	stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	stopped := make(chan error, 1)
	go func() { stopped <- f.Stop(stopCtx) }() // ends with the process when it is forced
	err := awaitStop(stopped, p.signals, clock.System)
	if failure == nil && err == nil {
		log.Info().Msg("stopped")
	}
	return errors.Join(failure, err)
}

// awaitStop waits for the stop, or for a signal that comes echoTime or more after it has begun.
func awaitStop(stopped <-chan error, signals <-chan os.Signal, c clock.Clock) error {
	begun := c.Now()
	for {
		select {
		case err := <-stopped:
			return err
		case <-signals:
			if c.Now().Sub(begun) >= echoTime {
				return errForced
			}
		}
	}
}
