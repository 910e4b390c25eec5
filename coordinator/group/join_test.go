package group

import (
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/coordinator/logtest"
	"grete/internal/clock"
)

// A member id begins with the client's or the instance's; one that no record could hold is refused before any is
// written, and the longest that can be is still there when the log is loaded.
func TestLongestMemberID(t *testing.T) {
	fits := strings.Repeat("x", maxIDPrefixBytes)
	for _, c := range []struct {
		client   string
		instance *string
		code     int16
		members  int
	}{
		{fits, nil, 0, 1}, {fits + "x", nil, kerr.UnknownServerError.Code, 0},
		{"c", ptr(fits), 0, 1}, {"c", ptr(fits + "x"), kerr.UnknownServerError.Code, 0},
	} {
		r := uuidRig(t)
		if code := r.joinAlone(c.client, c.instance); code != c.code {
			t.Errorf("client id of %d bytes: %d, want %d", len(c.client), code, c.code)
		}
		r.s.Resign(0, r.epoch)
		r.lead()
		r.s.DescribeGroup("g", 5, func(g kmsg.DescribeGroupsResponseGroup) {
			if g.ErrorCode != 0 || len(g.Members) != c.members {
				t.Errorf("client id of %d bytes: %d members after loading, code %d", len(c.client), len(g.Members), g.ErrorCode)
			}
		})
	}
}

// uuidRig generates ids as long as real ones.
func uuidRig(t *testing.T) *rig {
	cfg := DefaultConfig()
	cfg.InitialRebalanceDelayMs = 0
	r := &rig{t: t, cfg: cfg, log: &logtest.Log{}, clock: clock.NewManual(time.UnixMilli(1_000_000))}
	r.s = NewService(Options{
		Config: cfg, Clock: r.clock, Log: zerolog.Nop(), Partitions: func() int32 { return 1 },
		NewUUID: func() string { return strings.Repeat("u", 36) },
	})
	t.Cleanup(r.s.Close)
	r.lead()
	return r
}

// joinAlone joins and syncs as the only member of g, and returns the last code.
func (r *rig) joinAlone(clientID string, instance *string) int16 {
	join := kmsg.NewPtrJoinGroupRequest()
	join.Group, join.ProtocolType, join.SessionTimeoutMillis, join.InstanceID = "g", "consumer", 10_000, instance
	join.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: subscription("t")}}
	joined := make(chan *kmsg.JoinGroupResponse, 1)
	r.s.JoinGroup(RequestContext{Version: 3, ClientID: clientID}, join, func(resp *kmsg.JoinGroupResponse) { joined <- resp })
	r.clock.Advance(time.Millisecond)
	resp := <-joined
	if resp.ErrorCode != 0 {
		return resp.ErrorCode
	}
	sync := kmsg.NewPtrSyncGroupRequest()
	sync.Group, sync.MemberID, sync.Generation, sync.InstanceID = "g", resp.MemberID, resp.Generation, instance
	sync.GroupAssignment = []kmsg.SyncGroupRequestGroupAssignment{{MemberID: resp.MemberID}}
	code := make(chan int16, 1)
	r.s.SyncGroup(sync, func(resp *kmsg.SyncGroupResponse) { code <- resp.ErrorCode })
	return <-code
}
