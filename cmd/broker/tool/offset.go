package tool

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// offsetHelp says how offsets are written.
const offsetHelp = "start, end, a number, +N (N after the start), -N (the last N), @TIME (2026-11-30T10:00, a Unix time in ms, or -1h before now)"

type offsetKind int

const (
	offsetStart offsetKind = iota
	offsetEnd
	offsetExact
	offsetAfterStart
	offsetBeforeEnd
	offsetTime
)

// offsetSpec is a place in every partition.
type offsetSpec struct {
	kind offsetKind
	n    int64 // offset, count of records, or ms since 1970
}

// timeForms are those of a time without a zone, which is that of the machine.
var timeForms = []string{"2006-01-02T15:04:05.999999999", "2006-01-02T15:04", "2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02"}

// parseOffset reads what offsetHelp says.
func parseOffset(text string, now time.Time) (offsetSpec, error) {
	refuse := func() (offsetSpec, error) {
		return offsetSpec{}, usagef("%q is no offset: it is %s", text, offsetHelp)
	}
	if text == "" {
		return refuse()
	}
	switch text {
	case "start", "beginning", "earliest", "oldest":
		return offsetSpec{kind: offsetStart}, nil
	case "end", "latest", "newest":
		return offsetSpec{kind: offsetEnd}, nil
	}
	kind, digits := offsetExact, text
	switch text[0] {
	case '@':
		ms, err := parseTime(text[1:], now)
		if err != nil {
			return refuse()
		}
		return offsetSpec{offsetTime, ms}, nil
	case '+':
		kind, digits = offsetAfterStart, text[1:]
	case '-':
		kind, digits = offsetBeforeEnd, text[1:]
	}
	n, err := strconv.ParseUint(digits, 10, 63)
	if err != nil {
		return refuse()
	}
	return offsetSpec{kind, int64(n)}, nil
}

// parseTime reads a time, or how long it is before now, as ms since 1970.
func parseTime(text string, now time.Time) (int64, error) {
	if before, ok := strings.CutPrefix(text, "-"); ok {
		if days, ok := strings.CutSuffix(before, "d"); ok {
			n, err := strconv.ParseUint(days, 10, 16)
			return now.AddDate(0, 0, -int(n)).UnixMilli(), err
		}
		d, err := time.ParseDuration(before)
		return now.Add(-d).UnixMilli(), err
	}
	if ms, err := strconv.ParseUint(text, 10, 63); err == nil {
		return int64(ms), nil
	}
	if at, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return at.UnixMilli(), nil
	}
	for _, form := range timeForms {
		if at, err := time.ParseInLocation(form, text, now.Location()); err == nil {
			return at.UnixMilli(), nil
		}
	}
	return 0, errors.New("no time")
}

// span is what a partition has: from start up to end, which is excluded.
type span struct{ start, end int64 }

// spans asks for the start and the end of each partition of topics. Under committed the end is that of committed
// transactions.
func spans(ctx context.Context, adm *kadm.Client, committed bool, topics ...string) (map[string]map[int32]span, error) {
	starts, err := adm.ListStartOffsets(ctx, topics...)
	if err == nil {
		err = starts.Error()
	}
	if err != nil {
		return nil, err
	}
	list := adm.ListEndOffsets
	if committed {
		list = adm.ListCommittedOffsets
	}
	ends, err := list(ctx, topics...)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return nil, err
	}
	out := map[string]map[int32]span{}
	ends.Each(func(end kadm.ListedOffset) {
		if out[end.Topic] == nil {
			out[end.Topic] = map[int32]span{}
		}
		start, _ := starts.Lookup(end.Topic, end.Partition)
		out[end.Topic][end.Partition] = span{start.Offset, end.Offset}
	})
	return out, nil
}

// resolve returns the offset that the place has in each partition of within. A time after the last record is the end.
func (s offsetSpec) resolve(ctx context.Context, adm *kadm.Client, within map[string]map[int32]span) (map[string]map[int32]int64, error) {
	var times kadm.ListedOffsets
	if s.kind == offsetTime {
		var topics []string
		for topic := range within {
			topics = append(topics, topic)
		}
		var err error
		if times, err = adm.ListOffsetsAfterMilli(ctx, s.n, topics...); err == nil {
			err = times.Error()
		}
		if err != nil {
			return nil, err
		}
	}
	out := map[string]map[int32]int64{}
	for topic, partitions := range within {
		out[topic] = map[int32]int64{}
		for p, has := range partitions {
			at := s.in(has)
			if found, ok := times.Lookup(topic, p); ok && found.Offset >= 0 {
				at = found.Offset
			}
			out[topic][p] = at
		}
	}
	return out, nil
}

// in is the place in a partition that has these offsets: for a time, the end.
func (s offsetSpec) in(has span) int64 {
	switch s.kind {
	case offsetStart:
		return has.start
	case offsetExact:
		return min(max(s.n, has.start), has.end)
	case offsetAfterStart:
		return has.start + min(s.n, has.end-has.start)
	case offsetBeforeEnd:
		return max(has.end-s.n, has.start)
	}
	return has.end
}

// timeText is a time for people; "" for none.
func timeText(ms int64) string {
	if ms <= 0 {
		return ""
	}
	return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z")
}

// parsePartitions reads 1,3-5.
func parsePartitions(text string) ([]int32, error) {
	var out []int32
	for part := range strings.SplitSeq(text, ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		from, err := strconv.ParseUint(first, 10, 31)
		to, err2 := strconv.ParseUint(last, 10, 31)
		if err != nil || err2 != nil || to < from || to-from > 1e6 {
			return nil, usagef("%q names no partitions: they are written as 0,2,4-7", text)
		}
		for p := from; p <= to; p++ {
			out = append(out, int32(p))
		}
	}
	return out, nil
}

// parseTopicPartitions reads topic or topic:0,2-4.
func parseTopicPartitions(text string) (topic string, partitions []int32, err error) {
	topic, list, some := strings.Cut(text, ":")
	if topic == "" {
		return "", nil, usagef("%q names no topic: it is topic or topic:0,2-4", text)
	}
	if some {
		partitions, err = parsePartitions(list)
	}
	return topic, partitions, err
}

// narrow takes partitions away that are not listed; an error names one that there is not.
func narrow(within map[string]map[int32]span, topic string, partitions []int32) error {
	if partitions == nil {
		return nil
	}
	kept := map[int32]span{}
	for _, p := range partitions {
		has, ok := within[topic][p]
		if !ok {
			return fmt.Errorf("topic %s has no partition %d: it has %d", topic, p, len(within[topic]))
		}
		kept[p] = has
	}
	within[topic] = kept
	return nil
}
