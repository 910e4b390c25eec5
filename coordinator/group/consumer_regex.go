package group

import (
	"errors"
	"maps"
	"regexp"
	"regexp/syntax"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"

	"grete/cluster/metadata"
	"grete/coordinator"
)

// regexPauseMs is the shortest time between two resolutions for a group (Kafka's REGEX_BATCH_REFRESH_MIN_INTERVAL_MS).
const regexPauseMs = 10_000

// resolvedRegex is the topics that an expression matched.
type resolvedRegex struct {
	topics     []string // sorted
	version    int64    // offset of the metadata
	resolvedMs int64
}

// regexChange says what a member did to its expression.
type regexChange int8

const (
	regexUnchanged regexChange = iota
	regexNew                   // not resolved yet
	regexResolved              // dropped, or to one whose topics are known
)

func (g *consumerGroup) sortedRegexes() []string { return slices.Sorted(maps.Keys(g.regexes)) }

// compileRegex compiles what must match all of a name, in RE2's syntax.
func compileRegex(expr string) (*regexp.Regexp, error) {
	if _, err := regexp.Compile(expr); err != nil {
		return nil, err
	}
	return regexp.Compile(`\A(?:` + expr + `)\z`)
}

func checkRegex(expr string) error {
	_, err := compileRegex(expr)
	if err == nil {
		return nil
	}
	reason := err.Error()
	if e := (*syntax.Error)(nil); errors.As(err, &e) {
		reason = string(e.Code)
	}
	return refuse(kerr.InvalidRegularExpression, "The subscribed expression %q cannot be read: %s.", expr, reason)
}

// noteRegex follows a change of the member's expression, and has expressions resolved when that is due.
func (t *turn) noteRegex() (regexChange, error) {
	change, isNew := regexUnchanged, false
	if was, is := t.old.regex, t.m.regex; was != is {
		change = regexNew
		if was != "" && tallyWith(t.g, t.m, func(is *tally) int { return is.regexes[was] }) == 0 {
			t.c.delete(consumerKey{regexType, t.g.id, was})
		}
		switch {
		case is == "":
			change = regexResolved
		case t.g.tally.regexes[is] == 0:
			if err := checkRegex(is); err != nil {
				return change, err
			}
			isNew = true
		case t.g.regexes[is] != nil:
			change = regexResolved
		}
	}
	if t.regexesDue(isNew) {
		groupID := t.g.id
		t.tx.Then(groupID, func(tx *coordinator.Tx) { t.s.resolveRegexes(tx, groupID, t.rc.Describable) })
	}
	return change, nil
}

// regexesDue: when one is not resolved, topics have been created since, or the refresh interval has passed; not within
// ten seconds of the last time.
func (t *turn) regexesDue(isNew bool) bool {
	subscribed := tallyWith(t.g, t.m, func(is *tally) int { return len(is.regexes) })
	if subscribed == 0 {
		return false
	}
	now := t.tx.NowMs
	last, known := t.g.lastResolution()
	switch {
	case !known:
		return true
	case now <= last.resolvedMs+regexPauseMs:
		return false
	}
	return isNew || subscribed != len(t.g.regexes) || last.version < t.s.followed.created.Load() ||
		now > last.resolvedMs+t.s.cfg.Consumer.RegexRefreshIntervalMs
}

// lastResolution is when, and on which metadata, the group's expressions were last resolved; all are at once.
func (g *consumerGroup) lastResolution() (last resolvedRegex, known bool) {
	for _, x := range g.regexes {
		if !known || x.resolvedMs > last.resolvedMs {
			last, known = *x, true
		}
	}
	return last, known
}

// resolveRegexes matches all of a group's expressions against the topics there are, and that the member whose heartbeat
// asks for it may describe, as in Kafka (GroupMetadataManager.refreshRegularExpressions). New topics raise the epoch.
func (s *shard) resolveRegexes(tx *coordinator.Tx, groupID string, describable func(string) bool) {
	g, ok := s.groups[groupID].(*consumerGroup)
	if !ok {
		return
	}
	im := s.image()
	resolved := resolve(im, g.tally.regexes, describable, tx.NowMs)
	var c changes
	raise := false
	for _, regex := range slices.Sorted(maps.Keys(resolved)) {
		x := resolved[regex]
		var was []string
		if old := g.regexes[regex]; old != nil {
			was = old.topics
		}
		raise = raise || !slices.Equal(was, x.topics)
		c.put(consumerKey{regexType, g.id, regex}, x.value())
	}
	hash := g.tally.metadataHash(im, resolved)
	if raise || hash != g.metadataHash {
		c.epoch(g.id, g.epoch+1, hash)
		g.checked = s.followed.standing(im)
		c.whenFailed(func(*coordinator.Tx, error) { g.checked = 0 })
	}
	c.commit(tx)
}

// resolve ignores an expression that does not compile: it was written by a Kafka whose syntax knows more.
func resolve(im *metadata.Image, regexes map[string]int, describable func(string) bool, nowMs int64) map[string]*resolvedRegex {
	out := make(map[string]*resolvedRegex, len(regexes))
	for regex := range regexes {
		x := &resolvedRegex{version: im.Offset(), resolvedMs: nowMs}
		out[regex] = x
		compiled, err := compileRegex(regex)
		if err != nil {
			continue
		}
		for t := range im.Topics() {
			if compiled.MatchString(t.Name) && (describable == nil || describable(t.Name)) {
				x.topics = append(x.topics, t.Name)
			}
		}
	}
	return out
}
