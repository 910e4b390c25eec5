package node

import (
	"errors"
	"fmt"
	"time"

	"grete/protocol"
)

// troubleLasts is how long readiness tells of what was refused last: whether it would be again is not known before it
// is tried.
const troubleLasts = 30 * time.Second

var (
	errNoDirectory   = errors.New("no log directory is online")
	errFenced        = errors.New("the controller does not count on this broker")
	errNoController  = errors.New("no controller answers: nothing can be decided")
	errNoDescriptors = errors.New("the process is out of file descriptors")
	errFull          = errors.New("connections wait: there are as many as file descriptors or max.connections let in")
)

// healthy: there is somewhere to write. A node that has not started yet is not to be started again for it.
func (n *Node) healthy() error {
	if n.progress.pending() != nil {
		return nil
	}
	for _, dir := range n.store.Dirs() {
		if dir.Offline == nil {
			return nil
		}
	}
	return errNoDirectory
}

// ready: started, healthy, known to clients, with a controller, and refusing nobody for want of something.
func (n *Node) ready() error {
	if err := n.progress.pending(); err != nil {
		return err
	}
	if n.controller.Leader().NodeID < 0 || n.o.Config.IsBroker && n.lifecycle.Unheard() > millis(n.o.Config.Int("broker.session.timeout.ms")) {
		return errNoController
	}
	if b := n.controller.Image().Broker(n.o.Config.NodeID); n.o.Config.IsBroker && (b == nil || !b.Active()) {
		return errFenced
	}
	if err := n.healthy(); err != nil {
		return err
	}
	return n.lacking()
}

func (n *Node) lacking() error {
	for _, dir := range n.store.Dirs() {
		if n.recent(dir.NoSpace) {
			return fmt.Errorf("log directory %s has no space left: writes to it are refused", dir.Path)
		}
	}
	accepting := n.acceptState()
	switch {
	case n.recent(n.store.Trouble().LastNoDescriptors) || n.recent(accepting.LastFailure):
		return errNoDescriptors
	case accepting.Waiting > 0:
		return errFull
	}
	return nil
}

func (n *Node) recent(t time.Time) bool {
	return !t.IsZero() && n.o.Clock.Now().Sub(t) < troubleLasts
}

// notes are what is wrong and leaves the broker of use.
func (n *Node) notes() []string {
	if n.progress.pending() != nil {
		return nil
	}
	var notes []string
	for _, dir := range n.store.Dirs() {
		if dir.Offline != nil {
			notes = append(notes, dir.Offline.Error())
		}
	}
	if late := n.store.Trouble().LateFlushes; late > 0 {
		notes = append(notes, fmt.Sprintf("%d flushes to disk are late", late))
	}
	return notes
}

// acceptState is of the listeners for clients.
func (n *Node) acceptState() protocol.AcceptState {
	if n.server == nil {
		return protocol.AcceptState{}
	}
	return n.server.AcceptState()
}

// troubleGauges count what was refused, and show what is late.
func (n *Node) troubleGauges() {
	for _, g := range []struct {
		name, help string
		value      func() int64
	}{
		{"log_logmanager_refused_nospace", "Operations on logs that were refused for want of space, since the start.", func() int64 { return n.store.Trouble().NoSpace }},
		{"log_logmanager_refused_nodescriptors", "Operations on logs that were refused for want of file descriptors, since the start.", func() int64 { return n.store.Trouble().NoDescriptors }},
		{"log_logflushstats_late", "Flushes under way for longer than two seconds.", func() int64 { return int64(n.store.Trouble().LateFlushes) }},
		{"network_acceptor_failures", "Connections that could not be accepted, since the start.", func() int64 { return n.acceptState().Failures }},
		{"network_acceptor_waiting", "Listeners of which a connection waits for a bound on connections.", func() int64 { return int64(n.acceptState().Waiting) }},
	} {
		n.metrics.Gauge(g.name, g.help, func() float64 { return float64(g.value()) })
	}
}
