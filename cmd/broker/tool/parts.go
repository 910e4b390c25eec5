package tool

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
)

// parts are the answers to a request that has several: what was done is told beside what was not.
type parts struct {
	done   []string
	failed []string
	first  error
}

// add notes how one of them went. message is the broker's own explanation, which may be missing.
func (p *parts) add(name, done string, err error, message string) {
	if err == nil {
		p.done = append(p.done, name+" "+done)
		return
	}
	err = said(err, message)
	p.failed = append(p.failed, name+": "+err.Error())
	if p.first == nil {
		p.first = err
	}
}

// partsError is the failure of some of the parts, with the error of the first.
type partsError struct {
	text  string
	first error
}

func (e *partsError) Error() string { return e.text }
func (e *partsError) Unwrap() error { return e.first }

// report tells on stderr what was done, and returns what was not.
func (p *parts) report(t *tool) error {
	slices.Sort(p.done)
	slices.Sort(p.failed)
	verb := ""
	if t.dryRun {
		verb = "would be "
	}
	for _, text := range p.done {
		name, done, _ := strings.Cut(text, " ")
		t.done("%s %s%s", name, verb, done)
	}
	if len(p.failed) == 0 {
		return nil
	}
	return &partsError{strings.Join(p.failed, "; "), p.first}
}

// count writes 1 topic, 2 topics.
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// saidError is an error in the broker's own words, with its name.
type saidError struct {
	code    *kerr.Error
	message string
}

func (e *saidError) Error() string {
	return strings.TrimSuffix(e.message, ".") + " (" + e.code.Message + ")"
}
func (e *saidError) Unwrap() error { return e.code }

// said puts the broker's own words in place of what the code means in general.
func said(err error, message string) error {
	if known, ok := errors.AsType[*kerr.Error](err); ok && message != "" {
		return &saidError{known, message}
	}
	return err
}
