package tool

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"regexp"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"grete/internal/clock"
)

const (
	// consumeBufferBytes is how much is written at once.
	consumeBufferBytes = 64 << 10
	// pollRecords bounds what is taken from the client at once.
	pollRecords = 10_000
)

type consumeFlags struct {
	from, until, partitions, group, rack string
	format, null                         string
	count                                int64
	exit, json, regex, uncommitted, meta bool
	grep                                 string
}

func (t *tool) consumeCommand() *cobra.Command {
	var f consumeFlags
	cmd := &cobra.Command{
		Use: "consume <topic>…", Short: "Read records", Args: atLeast(1),
		Long: "Read records of topics, from their start on, until Ctrl-C, a count, an offset or the end.\n\n" +
			"  grete consume orders -e                            all there is\n" +
			"  grete consume orders -o -10 -e                     the last ten of each partition\n" +
			"  grete consume orders -o @-1h --until @-30m -J      half an hour, as JSON\n" +
			"  grete consume orders -g readers                    as a member of a group, which commits what was written\n" +
			"  grete consume orders -f '%p:%o %k = %v\\n'\n\n" +
			"A format consists of: " + formatHelp + ".\nAn offset is " + offsetHelp + ".",
		RunE: t.streams(func(ctx context.Context, c *cluster, args []string) error { return c.consume(ctx, args, f) }),
	}
	flags := cmd.Flags()
	flags.StringVarP(&f.from, "offset", "o", "start", "`offset` to begin at; with -g where the group has none: start or end")
	flags.StringVar(&f.until, "until", "", "`offset` to end before, in each partition; end is where it is at the start of the command")
	flags.BoolVarP(&f.exit, "exit", "e", false, "end at the end (--until end)")
	flags.Int64VarP(&f.count, "count", "c", 0, "end after that many records; 0 means no bound")
	flags.StringVarP(&f.partitions, "partitions", "p", "", "`partitions` to read, as 0,2,4-7; all of them unless given")
	flags.StringVarP(&f.group, "group", "g", "", "`group` to read as a member of")
	flags.StringVarP(&f.format, "format", "f", "%v\\n", "`format` of a record")
	flags.BoolVarP(&f.json, "json", "J", false, "write each record as a line of JSON, which produce -J reads")
	flags.BoolVar(&f.meta, "meta", false, "write topic, partition, offset, time and key before the value")
	flags.StringVarP(&f.null, "null", "Z", "", "`text` for a key or value that is null")
	flags.StringVar(&f.grep, "grep", "", "only records whose key or value matches a regular `expression`")
	flags.BoolVarP(&f.regex, "regex", "r", false, "topics are regular expressions (with -g)")
	flags.BoolVar(&f.uncommitted, "read-uncommitted", false, "read records of transactions that are open or aborted, too")
	flags.StringVar(&f.rack, "rack", "", "`rack` of this client, to read from a replica there")
	cmd.ValidArgsFunction = t.completes(0, topicNames)
	_ = cmd.RegisterFlagCompletionFunc("group", t.completes(0, groupNames))
	return cmd
}

// reader writes records until one of its ends.
type reader struct {
	out    *bufio.Writer
	append func([]byte, *kgo.Record) []byte
	grep   *regexp.Regexp
	line   []byte
	left   int64 // records until --count, -1 without it
	// ends are the offsets before which partitions end; one that is reached is taken out. nil where there are none.
	ends map[string]map[int32]int64
}

var errEnough = errors.New("all was read")

func (f consumeFlags) reader(t *tool) (*reader, error) {
	r := &reader{out: bufio.NewWriterSize(t.Stdout, consumeBufferBytes), left: f.count}
	if f.count < 0 {
		return nil, usagef("--count=%d: must be at least 0", f.count)
	}
	if f.count == 0 {
		r.left = -1
	}
	text := f.format
	if f.meta {
		text = "%t-%p %o %D %k\\t%v\\n"
	}
	parsed, err := parseFormat(text, f.null)
	if r.append = parsed.append; f.json {
		r.append = appendJSON
	}
	if err == nil && f.grep != "" {
		if r.grep, err = regexp.Compile(f.grep); err != nil {
			err = usagef("--grep: %v", err)
		}
	}
	return r, err
}

func (f consumeFlags) check() error {
	direct := f.until != "" || f.exit || f.partitions != ""
	switch {
	case f.group != "" && direct:
		return usagef("-g excludes --until, -e and -p: the group decides who reads what")
	case f.group == "" && f.regex:
		return usagef("-r needs -g")
	case f.exit && f.until != "":
		return usagef("-e and --until exclude each other")
	case f.group != "" && f.from != "start" && f.from != "end":
		return usagef("with -g, -o is start or end: where the group begins that has no offsets (grete group reset sets others)")
	}
	return nil
}

func (c *cluster) consume(ctx context.Context, topics []string, f consumeFlags) error {
	if err := f.check(); err != nil {
		return err
	}
	r, err := f.reader(c.t)
	if err != nil {
		return err
	}
	options := f.fetchOptions()
	if f.group != "" {
		return c.consumeGroup(ctx, topics, f, r, options)
	}
	at, err := c.startOf(ctx, topics, f, r)
	if err != nil || len(at) == 0 {
		return err
	}
	return c.readFrom(ctx, at, r, options)
}

// fetchOptions are those of a client that reads.
func (f consumeFlags) fetchOptions() []kgo.Opt {
	options := []kgo.Opt{kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(), kgo.FetchMaxPartitionBytes(4 << 20)}
	if f.uncommitted {
		options[0] = kgo.FetchIsolationLevel(kgo.ReadUncommitted())
	}
	if f.rack != "" {
		options = append(options, kgo.Rack(f.rack))
	}
	return options
}

// readFrom reads partitions from these offsets on.
func (c *cluster) readFrom(ctx context.Context, at map[string]map[int32]kgo.Offset, r *reader, options []kgo.Opt) error {
	watch, err := c.endWatch(ctx, at)
	if err != nil {
		return err
	}
	cl, err := c.client(append(options, kgo.ConsumePartitions(at), kgo.WithHooks(watch))...)
	if err != nil {
		return err
	}
	return c.readAll(ctx, cl, r, watch)
}

// startOf resolves where to begin and to end. Partitions of which nothing is to be read are left out; so there may be
// none.
func (c *cluster) startOf(ctx context.Context, topics []string, f consumeFlags, r *reader) (map[string]map[int32]kgo.Offset, error) {
	now := c.t.Clock.Now()
	from, err := parseOffset(f.from, now)
	if err != nil {
		return nil, err
	}
	adm, err := c.admin()
	if err != nil {
		return nil, err
	}
	if _, err := c.topics(ctx, topics); err != nil {
		return nil, err
	}
	within, err := spans(ctx, adm, !f.uncommitted, topics...)
	if err != nil {
		return nil, err
	}
	if f.partitions != "" {
		some, err := parsePartitions(f.partitions)
		if err != nil {
			return nil, err
		}
		for topic := range within {
			if err := narrow(within, topic, some); err != nil {
				return nil, err
			}
		}
	}
	starts, err := from.resolve(ctx, adm, within)
	if err != nil {
		return nil, err
	}
	if err := c.endsOf(ctx, f, r, within, starts); err != nil {
		return nil, err
	}
	at := map[string]map[int32]kgo.Offset{}
	for topic, partitions := range starts {
		for p, offset := range partitions {
			if r.ends != nil {
				if _, some := r.ends[topic][p]; !some {
					continue
				}
			}
			if at[topic] == nil {
				at[topic] = map[int32]kgo.Offset{}
			}
			at[topic][p] = kgo.NewOffset().At(offset)
		}
	}
	return at, nil
}

// endsOf fills the ends that --until or -e ask for.
func (c *cluster) endsOf(ctx context.Context, f consumeFlags, r *reader, within map[string]map[int32]span, starts map[string]map[int32]int64) error {
	if f.exit {
		f.until = "end"
	}
	if f.until == "" {
		return nil
	}
	until, err := parseOffset(f.until, c.t.Clock.Now())
	if err != nil {
		return err
	}
	ends, err := until.resolve(ctx, c.adm, within)
	if err != nil {
		return err
	}
	r.ends = map[string]map[int32]int64{}
	for topic, partitions := range ends {
		for p, end := range partitions {
			if until.kind == offsetExact {
				end = until.n // it may be to come
			}
			if starts[topic][p] < end {
				if r.ends[topic] == nil {
					r.ends[topic] = map[int32]int64{}
				}
				r.ends[topic][p] = end
			}
		}
	}
	return nil
}

// readAll reads until an end, or until a signal, which is an end, too.
func (c *cluster) readAll(ctx context.Context, cl *kgo.Client, r *reader, watch *endWatch) error {
	for {
		turn, done := ctx, func() {}
		if r.ends != nil {
			turn, done = clock.WithTimeout(ctx, c.t.Clock, idleLook)
		}
		fetches := cl.PollRecords(turn, pollRecords)
		done()
		err := r.take(fetches)
		if flushed := r.out.Flush(); flushed != nil {
			return flushed
		}
		switch {
		case errors.Is(err, errEnough) || interrupted(ctx):
			return nil
		case err != nil:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		}
		if fetches.NumRecords() > 0 {
			watch.reset()
		} else if r.ends != nil && watch.idle() {
			return nil
		}
	}
}

// take writes records; errEnough when that was the last.
func (r *reader) take(fetches kgo.Fetches) error {
	var failed error
	fetches.EachError(func(topic string, p int32, err error) {
		if !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) && failed == nil && !kerr.IsRetriable(err) {
			failed = fmt.Errorf("topic %s, partition %d: %w", topic, p, err)
		}
	})
	for it := fetches.RecordIter(); !it.Done(); {
		if err := r.write(it.Next()); err != nil {
			return err
		}
	}
	return failed
}

func (r *reader) write(record *kgo.Record) error {
	end, ends := int64(0), false
	if r.ends != nil {
		if end, ends = r.ends[record.Topic][record.Partition]; !ends {
			return nil // beyond its end
		}
	}
	if (!ends || record.Offset < end) && !record.Attrs.IsControl() && r.wanted(record) {
		r.line = r.append(r.line[:0], record)
		if _, err := r.out.Write(r.line); err != nil {
			return err
		}
		if r.left--; r.left == 0 {
			return errEnough
		}
		r.left = max(r.left, -1)
	}
	if ends && record.Offset+1 >= end {
		return r.reached(record.Topic, record.Partition)
	}
	return nil
}

func (r *reader) wanted(record *kgo.Record) bool {
	return r.grep == nil || r.grep.Match(record.Key) || r.grep.Match(record.Value)
}

// reached takes the end of a partition out.
func (r *reader) reached(topic string, p int32) error {
	delete(r.ends[topic], p)
	if len(r.ends[topic]) == 0 {
		delete(r.ends, topic)
	}
	if len(r.ends) == 0 {
		return errEnough
	}
	return nil
}

// consumeGroup reads as a member; what was written is committed at the end, too.
func (c *cluster) consumeGroup(ctx context.Context, topics []string, f consumeFlags, r *reader, options []kgo.Opt) error {
	begin := kgo.NewOffset().AtStart()
	if f.from == "end" {
		begin = kgo.NewOffset().AtEnd()
	}
	options = append(options, kgo.ConsumerGroup(f.group), kgo.ConsumeTopics(topics...), kgo.ConsumeResetOffset(begin), kgo.AutoCommitMarks(), kgo.BlockRebalanceOnPoll())
	if f.regex {
		options = append(options, kgo.ConsumeRegex())
	} else if _, err := c.topics(ctx, topics); err != nil {
		return err
	}
	cl, err := c.client(options...)
	if err != nil {
		return err
	}
	inner := r.append
	var last []*kgo.Record
	r.append = func(out []byte, record *kgo.Record) []byte { last = append(last, record); return inner(out, record) }
	for {
		fetches := cl.PollRecords(ctx, pollRecords)
		err := r.take(fetches)
		if flushed := r.out.Flush(); flushed != nil {
			return flushed
		}
		cl.MarkCommitRecords(last...)
		last = last[:0]
		cl.AllowRebalance()
		if err == nil && ctx.Err() == nil {
			continue
		}
		if errors.Is(err, errEnough) || interrupted(ctx) {
			err = c.leave(ctx, cl)
		}
		return err
	}
}

// leave commits what was marked, also after a signal, and leaves the group.
func (c *cluster) leave(ctx context.Context, cl *kgo.Client) error {
	last, cancel := clock.WithTimeout(context.WithoutCancel(ctx), c.t.Clock, c.timeout)
	defer cancel()
	if err := cl.CommitMarkedOffsets(last); err != nil {
		return fmt.Errorf("the offsets of what was read are not committed: %w", err)
	}
	return cl.LeaveGroupContext(last)
}
