// Command history makes histories of a broker under faults, and checks them:
//
//	history run [-target grete|kafka] [-seed N] [-duration 30s] [-faults kill,pause] [-o FILE] …
//	history check FILE…
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"time"

	"grete/compat-tests/history/load"
	"grete/compat-tests/kafka"
	"grete/internal/history"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if len(os.Args) < 2 {
		fail(fmt.Errorf("history run|check"))
	}
	var err error
	switch os.Args[1] {
	case "run":
		err = run(ctx, os.Args[2:])
	case "check":
		err = check(os.Args[2:])
	default:
		err = fmt.Errorf("unknown command %q: run or check", os.Args[1])
	}
	if err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func check(files []string) error {
	for _, file := range files {
		ops, err := history.Load(file)
		if err != nil {
			return err
		}
		r := history.Check(ops)
		fmt.Printf("%s: %v", file, r)
		if !r.OK() {
			return fmt.Errorf("%s: not what Kafka promises", file)
		}
	}
	return nil
}

func run(ctx context.Context, args []string) error {
	cfg := load.Default()
	flags := flag.NewFlagSet("history run", flag.ExitOnError)
	flags.Uint64Var(&cfg.Seed, "seed", uint64(time.Now().UnixNano()), "of every random choice")
	flags.DurationVar(&cfg.Duration, "duration", cfg.Duration, "of the load")
	flags.DurationVar(&cfg.CrashEvery, "crash-every", cfg.CrashEvery, "mean life of a client; 0: none crashes")
	flags.IntVar(&cfg.Plain, "plain", cfg.Plain, "plain producers, acks=all")
	flags.IntVar(&cfg.Idempotent, "idempotent", cfg.Idempotent, "idempotent producers")
	flags.IntVar(&cfg.Transactional, "transactional", cfg.Transactional, "transactional producers")
	flags.IntVar(&cfg.Copiers, "copiers", cfg.Copiers, "transactional consumers and producers")
	flags.IntVar(&cfg.Readers, "readers", cfg.Readers, "consumers without a group")
	flags.IntVar(&cfg.Members, "members", cfg.Members, "consumers in a classic group")
	flags.IntVar(&cfg.Balanced, "balanced", cfg.Balanced, "consumers in a KIP-848 group")
	flags.IntVar(&cfg.RecordsPerSecond, "rate", cfg.RecordsPerSecond, "records per second of a producer")
	faults := flags.String("faults", strings.Join(cfg.Faults, ","), "of "+strings.Join(load.Kinds, ", ")+"; empty: none")
	flags.IntVar(&cfg.AtOnce, "at-once", 1, "nodes that are disturbed at the same time")
	brokers := flags.Int("brokers", 1, "3 or more: a cluster, whose faults may be "+strings.Join(load.ClusterKinds, ", "))
	secured := flags.String("controllers", "", "SSL or SASL_SSL, of controller listeners: a cluster where everybody authenticates over TLS")
	target := flags.String("target", "grete", "the broker: grete or kafka")
	out := flags.String("o", "history.jsonl", "the history")
	_ = flags.Parse(args)
	cfg.Faults = strings.FieldsFunc(*faults, func(c rune) bool { return c == ',' })

	nodes, stop, err := start(ctx, &cfg, *target, *brokers, *secured)
	if err != nil {
		return err
	}
	defer stop()
	rec, err := history.Create(*out)
	if err != nil {
		return err
	}
	err = load.Run(ctx, cfg, nodes, rec, func(f string, a ...any) { fmt.Fprintf(os.Stderr, f+"\n", a...) })
	if closed := rec.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return err
	}
	return check([]string{*out})
}

func start(ctx context.Context, cfg *load.Config, target string, brokers int, secured string) (nodes []load.Node, stop func(), err error) {
	begin := kafka.StartGrete
	if target == "kafka" {
		begin = kafka.StartApache
	}
	dir, err := os.MkdirTemp("", "history")
	if err != nil {
		return nil, nil, err
	}
	fmt.Fprintln(os.Stderr, "data in", dir)
	if brokers == 1 {
		node, err := load.StartNode(ctx, begin, dir)
		return []load.Node{node}, func() { _ = node.Kill() }, err
	}
	o := load.ClusterOptions(brokers)
	if secured != "" {
		o = load.SecuredOptions(brokers, secured)
	}
	o.Dir, o.Start = dir, begin
	cluster, err := kafka.StartCluster(ctx, o)
	if err != nil {
		return nil, nil, err
	}
	return cfg.OnCluster(cluster), cluster.Kill, nil
}
