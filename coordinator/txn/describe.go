package txn

import (
	"regexp"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"

	"grete/coordinator"
)

// Description is what DescribeTransactions tells.
type Description struct {
	Producer   ProducerEpoch
	State      State
	TimeoutMs  int32
	StartMs    int64
	Partitions []Partition // sorted
}

// Describe answers with the state of one transactional id.
func (s *Service) Describe(id string, answer func(Description, error)) {
	failed := func(err error) { answer(Description{}, err) }
	if id == "" {
		failed(kerr.InvalidRequest)
		return
	}
	s.submit(id, func(sh *shard, tx *coordinator.Tx) {
		e := sh.ids[id]
		if e == nil {
			replyError(tx, kerr.TransactionalIDNotFound, failed)
			return
		}
		d := Description{e.producer(), e.state, e.timeoutMs, e.startMs, e.partitions}
		tx.Reply(func(err error) { answer(d, err) })
	}, failed)
}

// ListRequest filters ListTransactions; empty filters match all.
type ListRequest struct {
	ProducerIDs []int64
	States      []string
	DurationMs  int64  // only transactions that began longer ago; -1 for all
	Pattern     string // RE2 that the whole id must match
}

// Listed is one transactional id.
type Listed struct {
	ID         string
	ProducerID int64
	State      State
}

// List lists the ids of all shards that this broker leads; a shard that is loading fails the whole list. unknownStates
// are the filters that name no state.
func (s *Service) List(r ListRequest, answer func(ids []Listed, unknownStates []string, err error)) {
	f, unknown, err := newFilter(r)
	if err != nil {
		answer(nil, unknown, err)
		return
	}
	read := func(sh *shard, tx *coordinator.Tx) []Listed { return sh.list(f, tx.NowMs) }
	coordinator.List(s.rt, read, func(ids []Listed, err error) { answer(ids, unknown, err) })
}

type filter struct {
	ListRequest
	states  []State
	pattern *regexp.Regexp
}

func newFilter(r ListRequest) (f filter, unknown []string, err error) {
	f.ListRequest = r
	for _, name := range r.States {
		if state, ok := stateOf(name); ok {
			f.states = append(f.states, state)
		} else if !slices.Contains(unknown, name) {
			unknown = append(unknown, name)
		}
	}
	if r.Pattern != "" {
		if f.pattern, err = regexp.Compile(`\A(?:` + r.Pattern + `)\z`); err != nil {
			err = kerr.InvalidRegularExpression
		}
	}
	return f, unknown, err
}

func (f *filter) matches(e *entry, nowMs int64) bool {
	return (len(f.ProducerIDs) == 0 || slices.Contains(f.ProducerIDs, e.producerID)) &&
		(len(f.ListRequest.States) == 0 || slices.Contains(f.states, e.state)) &&
		(f.DurationMs < 0 || nowMs-e.startMs > f.DurationMs) &&
		(f.pattern == nil || f.pattern.MatchString(e.id))
}

func (sh *shard) list(f filter, nowMs int64) []Listed {
	var out []Listed
	for id, e := range sh.ids {
		if f.matches(e, nowMs) {
			out = append(out, Listed{id, e.producerID, e.state})
		}
	}
	slices.SortFunc(out, func(a, b Listed) int { return strings.Compare(a.ID, b.ID) })
	return out
}
