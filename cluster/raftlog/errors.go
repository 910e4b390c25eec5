package raftlog

import (
	"errors"
	"fmt"
)

var (
	// ErrNotLeader: this node does not lead the quorum in the epoch named.
	ErrNotLeader = errors.New("not the leader of the metadata quorum")
	// ErrStopped: the node was stopped, or has failed and stepped down.
	ErrStopped = errors.New("the metadata log is stopped")
	// ErrNoRoom: the log waits for space or descriptors, and takes no proposals meanwhile.
	ErrNoRoom = errors.New("no room for the metadata log")
	// ErrChangePending: the quorum's configuration is being changed already; one change at a time.
	ErrChangePending = errors.New("an earlier change of the quorum is under way")
	// ErrDamaged: a file that the metadata log cannot do without is damaged or missing.
	ErrDamaged = errors.New("the metadata log is damaged")
)

// DamagedError names the damaged file and what to do. Nothing has been changed or deleted.
type DamagedError struct {
	Path   string
	Err    error
	Advice string
}

func (e *DamagedError) Error() string {
	return fmt.Sprintf("%s: %v; nothing was changed: %s", e.Path, e.Err, e.Advice)
}

func (e *DamagedError) Unwrap() []error { return []error{ErrDamaged, e.Err} }

// restoreAdvice: a node without its vote must not come back as the voter that it was.
const restoreAdvice = "restore the file from a backup; or, when other voters of the quorum are healthy, take this node out of them " +
	"(kafka-metadata-quorum remove-controller), move its __cluster_metadata-0 and meta.properties aside and start it again"

func damaged(path string, format string, args ...any) error {
	return &DamagedError{Path: path, Err: fmt.Errorf(format, args...), Advice: restoreAdvice}
}
