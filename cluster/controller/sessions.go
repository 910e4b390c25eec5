package controller

import (
	"math"
	"time"

	"grete/cluster/metadata"
)

// sessions is what the active controller has heard of brokers: no metadata, and gone with its leadership.
type sessions struct {
	timeout time.Duration // broker.session.timeout.ms
	by      map[int32]*session
	leavers []int32 // brokers whose records of a controlled shutdown are decided and not appended yet
}

type session struct {
	contact time.Time
	// proven: a heartbeat has come since this controller took office. Until then the broker is given time, but a new
	// incarnation of it may register: it knows better that the old one is dead.
	proven  bool
	offset  int64 // of the metadata that the broker has applied
	leaving int64 // no record that took something from it for its controlled shutdown is above this offset
}

func newSessions(timeoutMs int64) *sessions {
	return &sessions{timeout: time.Duration(timeoutMs) * time.Millisecond, by: map[int32]*session{}}
}

func (s *sessions) of(id int32) *session {
	if s.by[id] == nil {
		s.by[id] = &session{offset: -1}
	}
	return s.by[id]
}

// touch counts as contact that proves nothing.
func (s *sessions) touch(id int32, now time.Time) { s.of(id).contact = now }

func (s *sessions) heard(id int32, now time.Time, offset int64) {
	b := s.of(id)
	b.contact, b.proven, b.offset = now, true, offset
}

func (s *sessions) forget(id int32) { delete(s.by, id) }

func (s *sessions) alive(id int32, now time.Time) bool {
	b := s.by[id]
	return b != nil && b.proven && now.Sub(b.contact) < s.timeout
}

func (s *sessions) offset(id int32) int64            { return s.of(id).offset }
func (s *sessions) leaving(id int32) (offset int64)  { return s.of(id).leaving }
func (s *sessions) expiresAt(id int32) (t time.Time) { return s.of(id).contact.Add(s.timeout) }

// leave says that id loses what it has for its controlled shutdown. Where these records will be is known when they are
// appended: the Raft group may put entries of its own before them.
func (s *sessions) leave(id int32) {
	s.of(id).leaving = math.MaxInt64
	s.leavers = append(s.leavers, id)
}

// appended says that all records decided so far are below end.
func (s *sessions) appended(end int64) {
	for _, id := range s.leavers {
		s.of(id).leaving = end - 1
	}
	s.leavers = s.leavers[:0]
}

// next is when the first unfenced broker expires; ok is false when there is none.
func (s *sessions) next(im *metadata.Image) (at time.Time, ok bool) {
	for b := range im.Brokers() {
		if t := s.expiresAt(b.ID); !b.Fenced && (!ok || t.Before(at)) {
			at, ok = t, true
		}
	}
	return at, ok
}

// armExpiry sets the alarm for the first session to end. It is set when a broker is unfenced and when it rings;
// heartbeats meanwhile only make it ring for nothing.
func (d *decider) armExpiry() {
	at, ok := d.sessions.next(d.pending)
	if !ok || d.expiry != nil {
		return
	}
	d.expiry = d.n.o.Clock.AfterFunc(at.Sub(d.n.o.Clock.Now()), func() { poke(d.expired) })
}

// fenceExpired fences the brokers whose sessions are over.
func (d *decider) fenceExpired() {
	d.expiry = nil
	if d.pending == nil {
		return
	}
	now := d.n.o.Clock.Now()
	for b := range d.pending.Brokers() {
		if b.Fenced || now.Before(d.sessions.expiresAt(b.ID)) {
			continue
		}
		d.n.o.Logger.Warn().Int32("broker", b.ID).Msg("fencing a broker whose session has timed out")
		d.n.o.OnTimeout(b.ID)
		if err := d.propose(d.view(0).fence(b)); err != nil {
			return // another controller does it
		}
	}
	d.armExpiry()
}
