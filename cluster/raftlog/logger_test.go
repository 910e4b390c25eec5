package raftlog

import (
	"bytes"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/quorum"
	"go.etcd.io/raft/v3/tracker"
)

// Raft's lines name nodes by their ids, in decimal; terms and indexes are as they were.
func TestRaftLinesNameNodes(t *testing.T) {
	config := tracker.Config{Voters: quorum.JointConfig{{1: {}, 3: {}}}, Learners: map[uint64]struct{}{17: {}}}
	for _, tt := range []struct {
		format string
		args   []any
		want   string
	}{
		{"%x stepped down to follower since quorum is not active", []any{raftID(2)}, "2 stepped down to follower since quorum is not active"},
		{"%x became follower at term %d", []any{raftID(19), uint64(5)}, "19 became follower at term 5"},
		{"%x [vote: %x, index: %3d] %s", []any{raftID(0), raft.None, uint64(7), "x"}, "0 [vote: none, index:   7] x"},
		{"%x switched to configuration %s", []any{raftID(2), config}, "2 switched to configuration voters=[0 2] learners=[16]"},
	} {
		var out bytes.Buffer
		raftLogger{zerolog.New(&out)}.Warningf(tt.format, tt.args...)
		if !strings.Contains(out.String(), `"`+tt.want+`"`) {
			t.Errorf("%s, want %q", out.String(), tt.want)
		}
	}
}
