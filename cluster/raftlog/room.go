package raftlog

import (
	"errors"
	"time"

	"grete/logstore"
)

// roomEvery is how often a write is tried again that lacked space or descriptors.
const roomEvery = 200 * time.Millisecond

// errStopping ends the node's loop when it is told to stop while it waits for room.
var errStopping = errors.New("stopped while waiting for space")

// persist writes, or reads what Raft cannot go on without, and waits where there is no room: such a write has changed
// nothing, and nothing that follows it may be done before it. Meanwhile nothing is sent either, so that in a quorum of
// several the others elect another leader. What was proposed before waits; what is proposed meanwhile is refused.
func (n *Node) persist(write func() error) error {
	err := write()
	if !logstore.Heals(err) {
		return err
	}
	n.o.Logger.Error().Err(err).Msg("no room for the metadata log: no change of the cluster is committed until there is some")
	for logstore.Heals(err) {
		if !n.refuseFor(roomEvery) {
			return errStopping
		}
		err = write()
	}
	if err == nil {
		n.o.Logger.Info().Msg("the metadata log goes on")
	}
	return err
}

// refuseFor waits for d; false when the node is told to stop meanwhile.
func (n *Node) refuseFor(d time.Duration) bool {
	over := make(chan struct{})
	timer := n.o.Clock.AfterFunc(d, func() { close(over) })
	defer timer.Stop()
	for {
		select {
		case p := <-n.proposals:
			p.reply <- proposed{err: ErrNoRoom}
		case <-over:
			return true
		case <-n.stop:
			return false
		}
	}
}
