package tool

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"grete/internal/vfs"
)

const (
	// maxRecordBytes bounds a record that is read: no broker takes one that large.
	maxRecordBytes = 1 << 30
	// readAhead is how many records are read before they are sent.
	readAhead = 1000
)

// input is where records come from.
type input struct {
	t            *tool
	f            produceFlags
	topic        string
	headers      []kgo.RecordHeader
	delimiter    []byte
	keyDelimiter []byte
	sources      []func(give func(*kgo.Record) bool) error
}

func (f produceFlags) input(t *tool, topic string, whole []string) (*input, error) {
	in := &input{t: t, f: f, topic: topic}
	headers, err := pairs("--header", f.headers)
	if err != nil {
		return nil, err
	}
	for _, h := range headers {
		in.headers = append(in.headers, kgo.RecordHeader{Key: h[0], Value: []byte(h[1])})
	}
	if in.delimiter, err = unescape("--delimiter", f.delimiter); err != nil {
		return nil, err
	}
	if in.keyDelimiter, err = unescape("--key-delimiter", f.keyDelimiter); err != nil {
		return nil, err
	}
	single := f.hasValue || f.tombstone
	switch {
	case f.hasValue && f.tombstone:
		return nil, usagef("--value and --tombstone exclude each other")
	case single && (len(whole) > 0 || len(f.files) > 0), len(whole) > 0 && len(f.files) > 0:
		return nil, usagef("records come from --value, --tombstone, --file or files: one of them")
	case len(in.delimiter) == 0:
		return nil, usagef("--delimiter is empty")
	case f.json && (single || len(whole) > 0 || f.keyDelimiter != ""):
		return nil, usagef("--json goes with --file or the standard input alone")
	case f.partition < -1:
		return nil, usagef("--partition=%d: must be at least 0", f.partition)
	case single:
		in.sources = append(in.sources, in.one)
	}
	for _, name := range whole {
		in.sources = append(in.sources, in.wholeFile(name))
	}
	files := f.files
	if len(in.sources) == 0 && len(files) == 0 {
		files = []string{"-"}
	}
	for _, name := range files {
		in.sources = append(in.sources, in.linesOf(name))
	}
	return in, nil
}

// record makes a record with what the flags say of every one.
func (in *input) record(value []byte) *kgo.Record {
	r := &kgo.Record{Topic: in.topic, Value: value, Headers: in.headers, Partition: max(in.f.partition, 0)}
	if in.f.hasKey {
		r.Key = []byte(in.f.key)
	}
	return r
}

func (in *input) one(give func(*kgo.Record) bool) error {
	r := in.record([]byte(in.f.value))
	if in.f.tombstone {
		r.Value = nil
	}
	give(r)
	return nil
}

func (in *input) wholeFile(name string) func(func(*kgo.Record) bool) error {
	return func(give func(*kgo.Record) bool) error {
		text, err := vfs.ReadFile(in.t.Files, name, maxRecordBytes)
		if err == nil {
			give(in.record(text))
		}
		return err
	}
}

// linesOf gives the records of a file, or of the standard input.
func (in *input) linesOf(name string) func(func(*kgo.Record) bool) error {
	return func(give func(*kgo.Record) bool) error {
		if name == "-" {
			return in.lines("the standard input", in.t.Stdin, give)
		}
		f, err := in.t.Files.OpenFile(name, 0, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		size, err := f.Size()
		if err != nil {
			return err
		}
		return in.lines(name, io.NewSectionReader(f, 0, size), give)
	}
}

// lines splits a stream at the delimiter. What follows the last one is a record, too, unless it is empty.
func (in *input) lines(name string, from io.Reader, give func(*kgo.Record) bool) error {
	s := bufio.NewScanner(from)
	s.Buffer(make([]byte, 64<<10), maxRecordBytes)
	s.Split(func(data []byte, atEOF bool) (int, []byte, error) {
		if i := bytes.Index(data, in.delimiter); i >= 0 {
			return i + len(in.delimiter), data[:i], nil
		}
		if atEOF && len(data) > 0 {
			return len(data), data, nil
		}
		return 0, nil, nil
	})
	for n := 1; s.Scan(); n++ {
		r, err := in.parse(s.Bytes())
		if err != nil {
			return fmt.Errorf("%s, record %d: %w", name, n, err)
		}
		if !give(r) {
			return nil
		}
	}
	return s.Err()
}

func (in *input) parse(line []byte) (*kgo.Record, error) {
	if in.f.json {
		return in.parseJSON(line)
	}
	orNull := func(b []byte) []byte {
		if in.f.null != "" && string(b) == in.f.null {
			return nil
		}
		return append([]byte{}, b...)
	}
	if len(in.keyDelimiter) == 0 {
		return in.record(orNull(line)), nil
	}
	key, value, ok := bytes.Cut(line, in.keyDelimiter)
	if !ok {
		return nil, fmt.Errorf("there is no %q between a key and a value (--key-delimiter)", in.keyDelimiter)
	}
	r := in.record(orNull(value))
	r.Key = orNull(key)
	return r, nil
}

// parseJSON reads what consume -J writes. Topic, partition and offset are where the record came from.
func (in *input) parseJSON(line []byte) (*kgo.Record, error) {
	var v recordView
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&v); err != nil {
		return nil, fmt.Errorf("no JSON of a record: %w", err)
	}
	value, err := bytesOf(v.Value, v.Base64)
	if err != nil {
		return nil, err
	}
	r := in.record(value)
	if key, err := bytesOf(v.Key, v.KeyBase64); err != nil {
		return nil, err
	} else if key != nil {
		r.Key = key
	}
	if v.Timestamp != nil {
		r.Timestamp = time.UnixMilli(*v.Timestamp)
	}
	r.Headers = append([]kgo.RecordHeader(nil), in.headers...)
	for _, h := range v.Headers {
		value, err := bytesOf(h.Value, h.Base64)
		if err != nil {
			return nil, err
		}
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: h.Key, Value: value})
	}
	return r, nil
}

// each calls send with one record after another, until the end of the input or of ctx.
func (in *input) each(ctx context.Context, send func(*kgo.Record)) error {
	records, failed := make(chan *kgo.Record, readAhead), make(chan error, 1)
	give := func(r *kgo.Record) bool {
		select {
		case records <- r:
			return true
		case <-ctx.Done():
			return false
		}
	}
	go func() { // ends with the input, or with the process when a read does not return
		defer close(records)
		for _, source := range in.sources {
			if err := source(give); err != nil {
				failed <- err
				return
			}
		}
		failed <- nil
	}()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case r, ok := <-records:
			if !ok {
				return <-failed
			}
			send(r)
		}
	}
}
