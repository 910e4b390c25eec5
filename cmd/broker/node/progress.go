package node

import (
	"fmt"
	"sync/atomic"
)

// progress is what a node is doing, or waits for, until it has started. Readiness says it.
type progress struct {
	text atomic.Pointer[string] // nil: it has started
	why  atomic.Pointer[func() string]
}

func (p *progress) doing(what string) { p.text.Store(&what) }

// because names where to ask for the reason of a wait; "" is none.
func (p *progress) because(why func() string) { p.why.Store(&why) }

func (p *progress) done() { p.text.Store(nil) }

// pending is what the start is at; nil: it is over.
func (p *progress) pending() error {
	text := p.text.Load()
	if text == nil {
		return nil
	}
	if why := p.why.Load(); why != nil {
		if reason := (*why)(); reason != "" {
			return fmt.Errorf("starting: %s: %s", *text, reason)
		}
	}
	return fmt.Errorf("starting: %s", *text)
}
