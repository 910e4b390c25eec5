package oracle

import (
	"fmt"
	"regexp"
	"slices"
)

// exception is a set of differences from Kafka that we accept, with the reason.
type exception struct {
	scenario, path *regexp.Regexp
	reason         string
}

func except(scenario, path, reason string) exception {
	return exception{regexp.MustCompile(scenario), regexp.MustCompile(path), reason}
}

// Sift splits differences into those without an accepted reason and those where only the words of a message
// differ. An exception that matches nothing is an error: it has to go.
func Sift(found []Difference) (unexpected, wording []Difference, err error) {
	return siftBy(exceptions, found)
}

func siftBy(exceptions []exception, found []Difference) (unexpected, wording []Difference, err error) {
	used := make([]bool, len(exceptions))
	for _, d := range found {
		switch i := slices.IndexFunc(exceptions, func(e exception) bool { return e.accepts(d) }); {
		case i >= 0:
			used[i] = true
		case d.Wording():
			wording = append(wording, d)
		default:
			unexpected = append(unexpected, d)
		}
	}
	for i, e := range exceptions {
		if !used[i] {
			err = fmt.Errorf("exception without a difference: %s | %s (%s)", e.scenario, e.path, e.reason)
		}
	}
	return unexpected, wording, err
}

func (e exception) accepts(d Difference) bool {
	return e.scenario.MatchString(d.Scenario) && e.path.MatchString(d.Path)
}

// CompareAll lists the differences of all scenarios of want, in order.
func CompareAll(scenarios []Scenario, want, got Transcripts) (found []Difference) {
	for _, sc := range scenarios {
		found = append(found, Compare(sc.Name, want[sc.Name], got[sc.Name])...)
	}
	return found
}
