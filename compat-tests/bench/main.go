// Bench prints the figures that docs/BENCHMARKS.md keeps: our broker, the floor (the least work that moves the same
// bytes) and Apache Kafka in one run, medians of several rounds with the targets in turn.
//
//	go run ./bench [-only produce64,rtt] [-rounds 3] [-scale 1] [-big 50] [-out FILE]
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if len(os.Args) == 4 && os.Args[1] == "floor" {
		exit(floor(os.Args[2], os.Args[3], floorPartitions))
	}
	only := flag.String("only", "", "works to run, by comma: produce64, produce1, rtt, tail, txn, compact, fetch, start, many, idle, size, tls, scram and acls (with their parts tls-fetch and so on), and cluster with its parts cluster-produce64 and so on (all)")
	rounds := flag.Int("rounds", 3, "rounds; the table has their medians")
	scale := flag.Int64("scale", 1, "GiB of a produce run; the other loads follow")
	big := flag.Int64("big", 50, "GiB of the big partition of work size")
	scratch := flag.String("scratch", "", "where data goes (a new temporary directory)")
	out := flag.String("out", "", "file that gets the table too")
	flag.Parse()
	exit(run(ctx, *only, *rounds, *scale, *big, *scratch, *out))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

type work struct {
	name string
	run  func(scratch string, rounds int) ([]row, error)
}

func works(ctx context.Context, scale, big int64) []work {
	var ws []work
	for _, c := range slices.Concat(comparisons(scale), secureComparisons(scale), clusterComparisons(scale)) {
		ws = append(ws, work{c.name, func(scratch string, rounds int) ([]row, error) { return compare(ctx, c, rounds, scratch) }})
	}
	return append(append(ws, work{"start", start}, work{"many", manyPartitions}, work{"idle", idleConnections}, work{"idle-tls", idleTLS}, work{"acls", manyACLs}, work{"size", dataSize(big << 30)}),
		clusterWorks(ctx)...)
}

func run(ctx context.Context, only string, rounds int, scale, big int64, scratch, out string) error {
	var rows [2][]row // of one broker, and of three
	var failed error
	for _, w := range works(ctx, scale, big) {
		if only != "" && !wanted(only, w.name) {
			continue
		}
		dir, err := os.MkdirTemp(scratch, "grete-bench-")
		if err != nil {
			return err
		}
		began := time.Now()
		got, err := w.run(dir, rounds)
		fmt.Fprintf(os.Stderr, "%s took %v\n", w.name, time.Since(began).Round(time.Second))
		i := 0
		if strings.HasPrefix(w.name, "cluster") {
			i = 1
		}
		rows[i] = append(rows[i], got...)
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", w.name, err))
		}
		_ = os.RemoveAll(dir)
	}
	for i, r := range rows {
		if len(r) > 0 {
			table(os.Stdout, i == 1, r)
		}
	}
	if out != "" && failed == nil && (only == "" || only == "cluster") {
		return write(out, rounds, rows)
	}
	return failed
}

// The headings of the tables' sections in the file.
const oneBroker, threeBrokers = "## One broker\n", "## Three brokers\n"

// write puts the tables in the file. That of one broker stays where only the cluster was looked at.
func write(out string, rounds int, rows [2][]row) error {
	var b strings.Builder
	if rows[0] == nil {
		old, err := os.ReadFile(out)
		if err != nil {
			return err
		}
		before, _, _ := strings.Cut(string(old), threeBrokers)
		b.WriteString(strings.TrimRight(before, "\n") + "\n\n")
	} else {
		header(&b, rounds)
		b.WriteString(oneBroker + "\n")
		table(&b, false, rows[0])
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, threeBrokers+`
Three brokers that are controllers too, against three nodes of Kafka with heaps of 512 MiB, on the same machine as the load: three replicas of everything,
min.insync.replicas=2, default settings. %d cores, %s.

`, runtime.NumCPU(), runtime.Version())
	table(&b, true, rows[1])
	return os.WriteFile(out, []byte(b.String()), 0o644)
}

// wanted: a name of only is the work's, or the first part of it.
func wanted(only, name string) bool {
	return slices.ContainsFunc(strings.Split(only, ","), func(o string) bool { return o == name || strings.HasPrefix(name, o+"-") })
}

func header(w io.Writer, rounds int) {
	fmt.Fprintf(w, `# Benchmarks

Made by `+"`make bench`"+`: the broker, the floor (read, checksum, append; sendfile back: the least that moves the same bytes) and
Apache Kafka 4.4 in one run on one machine, the targets in turn, medians of %d rounds; a ratio is the median of the rounds' own ratios. CPU is the broker process's own user and system time,
so it does not depend on the load generator. %d cores, %s.

`, rounds, runtime.NumCPU(), runtime.Version())
}

// table leaves out the floor where there is none.
func table(w io.Writer, cluster bool, rows []row) {
	floor, line := " floor |", "---|"
	if cluster {
		floor, line = "", ""
	}
	fmt.Fprintf(w, "| work |%s Grete | Kafka | result | must reach | met |\n|---|%s---|---|---|---|---|\n", floor, line)
	for _, r := range rows {
		dash := func(s string) string {
			if s == "" {
				return "–"
			}
			return s
		}
		if !cluster {
			floor = " " + dash(r.floor) + " |"
		}
		fmt.Fprintf(w, "| %s |%s %s | %s | %s | %s | %s |\n", r.work, floor, dash(r.grete), dash(r.kafka), r.result, r.target, strconv.FormatBool(r.met))
	}
}
