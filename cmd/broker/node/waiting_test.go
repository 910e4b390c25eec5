package node

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"grete/protocol"
)

// Without a majority nobody is let in, and the reason says so, however whoever was asked puts it.
func TestWaitingForAMajorityIsSaid(t *testing.T) {
	n := &Node{}
	for _, tt := range []struct {
		code     int16
		err      error
		noLeader bool
	}{
		{err: fmt.Errorf("%w from a:9093 within %v", errUnanswered, joinTimeout), noLeader: true},
		{err: context.DeadlineExceeded, noLeader: true},
		{code: kerr.RequestTimedOut.Code, noLeader: true},
		{code: kerr.NotController.Code, noLeader: true},
		{code: kerr.CoordinatorNotAvailable.Code},
		{err: errors.New("connection refused")},
	} {
		err := n.admitted(&protocol.JoinResponse{ErrorCode: tt.code}, tt.err)
		if err == nil || errors.Is(err, errNoLeader) != tt.noLeader {
			t.Errorf("%+v: %v", tt, err)
		}
	}
}
