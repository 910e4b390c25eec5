package tool

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"

	"grete/protocol/batch"
)

func (t *tool) logCommand() *cobra.Command {
	var records bool
	var text string
	dump := &cobra.Command{
		Use: "dump <segment or directory>…", Short: "Show the batches of segments, offline", Args: atLeast(1),
		Long: "Show the batches of segments (*.log) of Grete or of Kafka, offline. A directory of a partition stands for its segments.\n\n" +
			"With --records or --format records are shown. A format consists of: " + formatHelp + ".",
		RunE: func(cmd *cobra.Command, args []string) error { return t.dumpLogs(cmd, args, records, text) },
	}
	dump.Flags().BoolVarP(&records, "records", "r", false, "show the records of each batch as lines of JSON")
	dump.Flags().StringVarP(&text, "format", "f", "", "`format` of each record, in place of batches")
	verify := &cobra.Command{
		Use: "verify <segment or directory>…", Short: "Check lengths, checksums, offsets and records of segments, offline; exit code 1 when one is wrong", Args: atLeast(1),
		RunE: t.verifyLogs,
	}
	return group("log", "Look into segments of a log, offline", dump, verify)
}

// segments are the files that arguments name, those of a directory in order.
func (t *tool) segments(args []string) ([]string, error) {
	var out []string
	for _, name := range args {
		info, err := t.Files.Stat(name)
		if err != nil {
			return nil, err
		}
		if !info.IsDir() {
			out = append(out, name)
			continue
		}
		entries, err := t.Files.ReadDir(name)
		if err != nil {
			return nil, err
		}
		entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return !strings.HasSuffix(e.Name(), ".log") })
		if len(entries) == 0 {
			return nil, fmt.Errorf("%s has no segments (*.log)", name)
		}
		for _, e := range entries {
			out = append(out, path.Join(name, e.Name()))
		}
	}
	return out, nil
}

// badBatch is a place in a segment where no batch can be read.
type badBatch struct {
	file     string
	position int64
	err      error
}

func (e *badBatch) Error() string {
	return fmt.Sprintf("%s: position %d: %v", e.file, e.position, e.err)
}
func (e *badBatch) Unwrap() error { return e.err }

// maxBatchBytes bounds a batch: what is longer is a length that is wrong.
const maxBatchBytes = 1 << 30

// batches calls f with each batch of a segment and its position. A batch is valid during the call.
func (t *tool) batches(ctx context.Context, name string, f func(position int64, b batch.Batch) error) error {
	file, err := t.Files.OpenFile(name, 0, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	size, err := file.Size()
	if err != nil {
		return err
	}
	from := bufio.NewReaderSize(io.NewSectionReader(file, 0, size), 256<<10)
	var raw []byte
	for position := int64(0); position < size; {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		head, err := from.Peek(12)
		if err != nil {
			return &badBatch{name, position, batch.ErrShort}
		}
		length := int64(int32(binary.BigEndian.Uint32(head[8:]))) + 12
		switch {
		case bytes.Equal(head, make([]byte, 12)):
			return &badBatch{name, position, errors.New("zeros, as after a crash")}
		case length < batch.HeaderSize || length > maxBatchBytes:
			return &badBatch{name, position, fmt.Errorf("a batch cannot have %d bytes", length)}
		case position+length > size:
			return &badBatch{name, position, batch.ErrShort}
		}
		raw = slices.Grow(raw[:0], int(length))[:length]
		if _, err := io.ReadFull(from, raw); err != nil {
			return &badBatch{name, position, err}
		}
		b, _, err := batch.Next(raw)
		if err != nil {
			return &badBatch{name, position, err}
		}
		if err := f(position, b); err != nil {
			return err
		}
		position += length
	}
	return nil
}

func (t *tool) dumpLogs(cmd *cobra.Command, args []string, records bool, text string) error {
	ctx, stop := t.watch(cmd.Context())
	defer stop()
	show, err := parseFormat(text, "")
	if err != nil {
		return err
	}
	write := show.append
	if text == "" {
		write = appendJSON
	}
	names, err := t.segments(args)
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(t.Stdout, consumeBufferBytes)
	defer out.Flush()
	for _, name := range names {
		topic, partition := partitionOf(name)
		if text == "" {
			fmt.Fprintf(out, "%s\n", name)
		}
		err := t.batches(ctx, name, func(position int64, b batch.Batch) error {
			if text == "" {
				fmt.Fprintln(out, batchLine(position, b))
			}
			if !records && text == "" {
				return nil
			}
			return eachRecord(b, func(r *kgo.Record) error {
				r.Topic, r.Partition = topic, partition
				_, err := out.Write(write(nil, r))
				return err
			})
		})
		if err != nil {
			return err
		}
	}
	return out.Flush()
}

// partitionOf is the partition in whose directory a segment is, as far as its name tells.
func partitionOf(file string) (topic string, partition int32) {
	dir := path.Base(path.Dir(file))
	if i := strings.LastIndexByte(dir, '-'); i > 0 {
		if p, err := strconv.ParseUint(dir[i+1:], 10, 31); err == nil {
			return dir[:i], int32(p)
		}
	}
	return dir, 0
}

func batchLine(position int64, b batch.Batch) string {
	line := fmt.Sprintf("position %d offsets %d-%d records %d size %d %v time %s epoch %d", position, b.BaseOffset(), b.LastOffset(), b.RecordCount(), b.SizeBytes(),
		codecName(b.Codec()), timeText(b.MaxTimestamp()), b.PartitionLeaderEpoch())
	if b.ProducerID() >= 0 {
		line += fmt.Sprintf(" producer %d epoch %d sequence %d-%d", b.ProducerID(), b.ProducerEpoch(), b.BaseSequence(), b.LastSequence())
	}
	if b.Transactional() {
		line += " transactional"
	}
	if b.Control() {
		line += " control"
	}
	if !b.ChecksumOK() {
		line += " CHECKSUM WRONG"
	}
	return line
}

func codecName(c batch.Codec) string {
	names := []string{"none", "gzip", "snappy", "lz4", "zstd"}
	if int(c) < len(names) && c >= 0 {
		return names[c]
	}
	return fmt.Sprintf("codec %d", c)
}

// eachRecord calls f with the records of a batch.
func eachRecord(b batch.Batch, f func(*kgo.Record) error) error {
	for r, err := range b.Records() {
		if err != nil {
			return err
		}
		record := &kgo.Record{Offset: r.Offset, Timestamp: time.UnixMilli(r.TimestampMs), Key: r.Key, Value: r.Value}
		for _, h := range r.Headers {
			record.Headers = append(record.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
		}
		if err := f(record); err != nil {
			return err
		}
	}
	return nil
}

// verifyLogs checks every segment, and goes on with the next one after one that is wrong.
func (t *tool) verifyLogs(cmd *cobra.Command, args []string) error {
	ctx, stop := t.watch(cmd.Context())
	defer stop()
	names, err := t.segments(args)
	if err != nil {
		return err
	}
	wrong := 0
	for _, name := range names {
		batches, records, err := t.verify(ctx, name)
		switch {
		case interrupted(ctx):
			return errInterrupted
		case err != nil:
			wrong++
			fmt.Fprintf(t.Stdout, "%v (after %s)\n", err, plural(batches, "good batch", "good batches"))
		default:
			fmt.Fprintf(t.Stdout, "%s: good: %s, %s\n", name, plural(batches, "batch", "batches"), count(records, "record"))
		}
	}
	if wrong > 0 {
		return fmt.Errorf("%d of %s are wrong", wrong, count(len(names), "segment"))
	}
	return nil
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// verify checks a segment: its name is the least offset, offsets rise, checksums are right, records can be read.
func (t *tool) verify(ctx context.Context, name string) (batches, records int, err error) {
	next := int64(0)
	if base, err := strconv.ParseUint(strings.TrimSuffix(path.Base(name), ".log"), 10, 63); err == nil {
		next = int64(base)
	}
	err = t.batches(ctx, name, func(position int64, b batch.Batch) error {
		bad := func(format string, args ...any) error { return &badBatch{name, position, fmt.Errorf(format, args...)} }
		switch {
		case !b.ChecksumOK():
			return bad("the checksum is wrong")
		case b.BaseOffset() < next:
			return bad("offset %d after %d", b.BaseOffset(), next-1)
		}
		n := 0
		if err := eachRecord(b, func(*kgo.Record) error { n++; return nil }); err != nil {
			return bad("%w", err)
		}
		if n != int(b.RecordCount()) {
			return bad("%d records where the header says %d", n, b.RecordCount())
		}
		next = b.LastOffset() + 1
		batches, records = batches+1, records+n
		return nil
	})
	return batches, records, err
}
