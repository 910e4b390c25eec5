package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"grete/cmd/broker/node"
	"grete/internal/clock"
	"grete/internal/config"
	"grete/internal/vfs"
)

// stopTimeout bounds a graceful stop; requests that are still parked then are dropped.
const stopTimeout = 30 * time.Second

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
	cfg, err := f.load(fs, p.env)
	if err != nil {
		return err
	}
	loggers := newLevels()
	log := newLogger(p.stderr, loggers)
	warnUnused(log, cfg)
	tuneMemory(p.env)
	n, err := node.Start(ctx, node.Options{
		Config: cfg, FS: fs, Clock: clock.System, Entropy: rand.Reader, Log: log, Loggers: loggers,
	})
	if err != nil {
		return err
	}
	log.Info().Str("version", version).Str("cluster", n.ClusterID()).Int32("node", cfg.NodeID).Strs("dirs", cfg.LogDirs).Msg("started")
	return wait(ctx, p, n, log)
}

func warnUnused(log zerolog.Logger, cfg *config.Broker) {
	if len(cfg.Unused) > 0 {
		log.Warn().Str("properties", strings.Join(cfg.Unused, ",")).Msg("Kafka's properties that change nothing here yet")
	}
}

// wait returns once the broker has stopped.
func wait(ctx context.Context, p process, n *node.Node, log zerolog.Logger) error {
	var failure error
	select {
	case s := <-p.signals:
		log.Info().Stringer("signal", s).Msg("stopping")
	case <-ctx.Done():
		log.Info().Msg("stopping")
	case failure = <-n.Failed():
		failure = fmt.Errorf("the broker cannot go on: %w", failure)
	}
	stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	stopped := make(chan error, 1)
	go func() { stopped <- n.Stop(stopCtx) }() // ends with the process when it is forced
	select {
	case err := <-stopped:
		if failure == nil && err == nil {
			log.Info().Msg("stopped")
		}
		return errors.Join(failure, err)
	case <-p.signals:
		return errors.Join(failure, errForced)
	}
}
