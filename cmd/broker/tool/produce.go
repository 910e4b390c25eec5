package tool

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"grete/internal/clock"
)

type produceFlags struct {
	key, value, print, null  string
	delimiter, keyDelimiter  string
	headers, files           []string
	partition                int32
	compression, partitioner string
	acks, transactionalID    string
	json, tombstone, new     bool
	hasKey, hasValue         bool
	maxBytes                 int32
}

func (t *tool) produceCommand() *cobra.Command {
	var f produceFlags
	cmd := &cobra.Command{
		Use: "produce <topic> [<file>…]", Short: "Write records: lines of the standard input, or files", Args: atLeast(1),
		Long: "Write records: the lines of the standard input, those of files (-f), or each file as one record.\n\n" +
			"  echo hello | grete produce greetings\n" +
			"  grete produce orders -k ann -v '{\"n\":1}' -H trace=7\n" +
			"  grete produce orders -K : -z zstd -f lines.txt\n" +
			"  grete consume a -e -J | grete produce b -J              a copy with keys, headers and times\n\n" +
			"--print writes what was acknowledged. Its format consists of: " + formatHelp + ".",
		PreRun: func(cmd *cobra.Command, _ []string) {
			f.hasKey, f.hasValue = cmd.Flags().Changed("key"), cmd.Flags().Changed("value")
		},
		RunE: t.streams(func(ctx context.Context, c *cluster, args []string) error {
			return c.produce(ctx, args[0], args[1:], f)
		}),
	}
	flags := cmd.Flags()
	flags.StringVarP(&f.key, "key", "k", "", "`key` of every record")
	flags.StringVarP(&f.value, "value", "v", "", "`value` of the one record to write")
	flags.StringArrayVarP(&f.headers, "header", "H", nil, "`name=value` of a header of every record; may be repeated")
	flags.StringArrayVarP(&f.files, "file", "f", nil, "`file` with records, - for the standard input; may be repeated")
	flags.StringVarP(&f.delimiter, "delimiter", "D", "\\n", "`text` between records")
	flags.StringVarP(&f.keyDelimiter, "key-delimiter", "K", "", "`text` between key and value; without it records have the key of -k")
	flags.StringVarP(&f.null, "null", "Z", "", "`text` that stands for a key or value that is null")
	flags.BoolVar(&f.tombstone, "tombstone", false, "the value of the one record is null")
	flags.BoolVarP(&f.json, "json", "J", false, "records are lines of JSON as consume -J writes them")
	flags.Int32VarP(&f.partition, "partition", "p", -1, "`partition` of every record; -1 lets the partitioner choose")
	flags.StringVar(&f.partitioner, "partitioner", "default", "how a partition is chosen: default (Kafka's: by the key, else one at a time), round-robin, random or librdkafka (crc32 of the key)")
	flags.StringVarP(&f.compression, "compression", "z", "none", "none, gzip, snappy, lz4 or zstd")
	flags.StringVarP(&f.acks, "acks", "a", "all", "all, 1 or 0")
	flags.StringVar(&f.transactionalID, "transactional-id", "", "write all in one transaction of this `id`: what fails or is interrupted is aborted")
	flags.StringVar(&f.print, "print", "", "`format` of a line about every record that was acknowledged")
	flags.BoolVar(&f.new, "create", false, "have the broker create the topic, where it is configured to")
	flags.Int32Var(&f.maxBytes, "max-message-bytes", 1_000_000, "most `bytes` of a batch")
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveDefault
		}
		return t.completes(1, topicNames)(cmd, args, typed)
	}
	_ = cmd.RegisterFlagCompletionFunc("compression", cobra.FixedCompletions([]string{"none", "gzip", "snappy", "lz4", "zstd"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// options are those of the client.
func (f produceFlags) options() ([]kgo.Opt, error) {
	codecs := map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}
	codec, ok := codecs[f.compression]
	if !ok {
		return nil, usagef("--compression=%s: must be none, gzip, snappy, lz4 or zstd", f.compression)
	}
	options := []kgo.Opt{kgo.ProducerBatchCompression(codec), kgo.ProducerBatchMaxBytes(f.maxBytes), kgo.MaxBufferedRecords(bufferedRecords + 1)}
	switch f.acks {
	case "all", "-1":
	case "1":
		options = append(options, kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite())
	case "0":
		options = append(options, kgo.RequiredAcks(kgo.NoAck()), kgo.DisableIdempotentWrite())
	default:
		return nil, usagef("--acks=%s: must be all, 1 or 0", f.acks)
	}
	if f.transactionalID != "" {
		if f.acks != "all" && f.acks != "-1" {
			return nil, usagef("--transactional-id needs --acks=all")
		}
		options = append(options, kgo.TransactionalID(f.transactionalID))
	}
	if f.new {
		options = append(options, kgo.AllowAutoTopicCreation())
	}
	partitioner, err := f.partitionerOf()
	return append(options, kgo.RecordPartitioner(partitioner)), err
}

const (
	// bufferedRecords bounds what waits to be sent.
	bufferedRecords = 50_000
	// fullPause is how often a full buffer is looked at.
	fullPause = time.Millisecond
)

func (f produceFlags) partitionerOf() (kgo.Partitioner, error) {
	if f.partition >= 0 {
		return kgo.ManualPartitioner(), nil
	}
	switch f.partitioner {
	case "default":
		return kgo.StickyKeyPartitioner(nil), nil
	case "round-robin":
		return kgo.RoundRobinPartitioner(), nil
	case "random":
		return kgo.StickyPartitioner(), nil
	case "librdkafka":
		return kgo.StickyKeyPartitioner(func(key []byte, n int) int { return int(crc32.ChecksumIEEE(key) % uint32(n)) }), nil
	}
	return nil, usagef("--partitioner=%s: must be default, round-robin, random or librdkafka", f.partitioner)
}

// produce writes all records of its sources, or says how many it has written.
func (c *cluster) produce(ctx context.Context, topic string, files []string, f produceFlags) error {
	input, err := f.input(c.t, topic, files)
	if err != nil {
		return err
	}
	options, err := f.options()
	if err != nil {
		return err
	}
	print, err := parseFormat(f.print, f.null)
	if err != nil {
		return err
	}
	if err := c.canProduce(ctx, topic, f); err != nil {
		return err
	}
	cl, err := c.client(options...)
	if err != nil {
		return err
	}
	s := &sender{t: c.t, cl: cl, print: print, out: bufio.NewWriter(c.t.Stdout), timeout: c.timeout, transactional: f.transactionalID != ""}
	return s.send(ctx, input)
}

// canProduce refuses a topic or a partition that is not there.
func (c *cluster) canProduce(ctx context.Context, topic string, f produceFlags) error {
	details, err := c.topics(ctx, []string{topic})
	switch {
	case errors.Is(err, kerr.UnknownTopicOrPartition) && f.new:
		return nil
	case errors.Is(err, kerr.UnknownTopicOrPartition):
		return fmt.Errorf("there is no topic %s (grete topic create %s; --create has the broker make it)", topic, topic)
	case err != nil:
		return err
	case int(f.partition) >= len(details[topic].Partitions):
		return fmt.Errorf("topic %s has no partition %d: it has %d", topic, f.partition, len(details[topic].Partitions))
	}
	return nil
}

// sender sends records and counts what came of them. The client calls acknowledge for one record at a time, and for the
// last one before a flush ends.
type sender struct {
	t             *tool
	cl            *kgo.Client
	print         format
	out           *bufio.Writer
	timeout       time.Duration
	transactional bool
	stop          context.CancelCauseFunc // ends the reading after a failure
	read          int
	acked         int
	first         error // of a record that was not written
	line          []byte
}

// send sends what input gives until its end, a failure or a signal.
func (s *sender) send(ctx context.Context, input *input) error {
	reading, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	s.stop = stop
	if s.transactional {
		if err := s.cl.BeginTransaction(); err != nil {
			return err
		}
	}
	whole := context.WithoutCancel(ctx) // a record that was handed over is written, or its failure known
	err := input.each(reading, func(r *kgo.Record) {
		for s.cl.BufferedProduceRecords() >= bufferedRecords {
			if clock.Pause(reading, s.t.Clock, fullPause) != nil {
				return
			}
		}
		s.read++
		s.cl.Produce(whole, r, s.acknowledge)
	})
	last, cancel := clock.WithTimeout(whole, s.t.Clock, s.timeout)
	defer cancel()
	if flushed := s.cl.Flush(last); s.first == nil {
		s.first = flushed
	}
	if s.first != nil {
		err = s.first
	}
	if s.transactional {
		if ended := s.cl.EndTransaction(last, kgo.TransactionEndTry(err == nil)); ended != nil {
			err = errors.Join(err, fmt.Errorf("the transaction is not ended: %w", ended))
		}
	}
	if flushed := s.out.Flush(); err == nil {
		err = flushed
	}
	return s.told(ctx, err)
}

func (s *sender) acknowledge(r *kgo.Record, err error) {
	if err != nil {
		if s.first == nil {
			s.first = err
			s.stop(err)
		}
		return
	}
	s.acked++
	if len(s.print) > 0 {
		s.line = append(s.print.append(s.line[:0], r), '\n')
		_, _ = s.out.Write(s.line) // its error comes back from Flush
	}
}

// told says what is half done.
func (s *sender) told(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case interrupted(ctx) && s.first == nil:
		err = errInterrupted
	case errors.Is(err, context.DeadlineExceeded) && s.cl.BufferedProduceRecords() > 0:
		err = fmt.Errorf("no answer within %v (--timeout)", s.timeout)
	}
	if s.read == 0 {
		return err
	}
	if s.transactional {
		return fmt.Errorf("%w; the transaction of %s is aborted: nothing of it counts", err, count(s.read, "record"))
	}
	return fmt.Errorf("%w; %s of %d that were read are written", err, count(s.acked, "record"), s.read)
}
