package protocol

import "time"

// reapEvery is how often connections are looked at for what has lasted too long; one goroutine does it for all.
const reapEvery = time.Second

// reap closes connections that are idle (connections.max.idle.ms), that began a frame or a response and make no
// progress, or that do not come to their end.
func (s *Server) reap() {
	every := reapEvery
	if s.o.MaxIdle > 0 {
		every = min(every, max(s.o.MaxIdle/4, time.Millisecond))
	}
	ticker := s.o.Clock.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C():
			s.reapOnce(s.o.Clock.Now())
		case <-s.stopped:
			return
		}
	}
}

func (s *Server) reapOnce(now time.Time) {
	s.reaping.Lock()
	defer s.reaping.Unlock()
	s.mu.Lock()
	conns := s.connList()
	s.mu.Unlock()
	for _, c := range conns {
		if why := c.overdue(now); why != "" {
			s.o.Log.Debug().Uint64("conn", c.ID).Str("reason", why).Msg("connection closed")
			c.cut()
		}
	}
}

// overdue says why c should be closed now, if it should.
func (c *Conn) overdue(now time.Time) string {
	o := &c.server.o
	over := func(sinceNanos int64, d time.Duration) bool {
		return sinceNanos != 0 && now.UnixNano()-sinceNanos >= int64(d)
	}
	switch {
	case c.unauthenticated.Load() && over(c.waitingSince.Load(), o.AuthTimeout):
		return "authentication took too long"
	case over(c.frames.began.Load(), o.FrameTimeout):
		return "a frame took too long to come"
	case over(c.sendingSince.Load(), o.SendTimeout):
		return "the peer does not read its responses"
	case c.frames.stalled(now):
		return "a frame does not come while others wait for its memory"
	case c.unread(now):
		return "the peer does not read its responses while others wait for their memory"
	case over(c.closingSince.Load(), o.FrameTimeout) && !c.server.isDraining():
		return "requests before the end are not answered"
	case o.MaxIdle > 0 && over(c.lastActive.Load(), o.MaxIdle) && c.atRest():
		return "idle"
	}
	return ""
}

// atRest is whether nothing is being received, handled or sent.
func (c *Conn) atRest() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.order.len() == 0 && !c.sending && c.frames.began.Load() == 0
}
