package raftlog

import (
	"grete/cluster/metadata"
	"grete/internal/sched"
	"grete/protocol"
)

const (
	// partBytes is what a frame has at most of a message that needs several, a snapshot above all.
	partBytes = 1 << 20
	// maxMessageBytes bounds what a node gathers of one; far above any snapshot.
	maxMessageBytes = 1 << 30
)

// outgoing is a message, or a part of one.
type outgoing struct {
	raw             []byte
	snapshot        bool
	asker           metadata.UUID // the directory that it is for; zero: the one that the configuration has
	continues, rest int64         // as in protocol.MessageFrames
}

// parts cuts a message into what frames can take.
func (m outgoing) parts() []outgoing {
	if len(m.raw) <= partBytes {
		return []outgoing{m}
	}
	var out []outgoing
	for at := 0; at < len(m.raw); at += partBytes {
		part := m.raw[at:min(at+partBytes, len(m.raw))]
		out = append(out, outgoing{part, m.snapshot, m.asker, int64(at), int64(len(m.raw) - at - len(part))})
	}
	return out
}

// framesOf is the content of a frame.
func framesOf(messages []outgoing) protocol.MessageFrames {
	if len(messages) == 0 {
		return protocol.MessageFrames{}
	}
	f := protocol.MessageFrames{Continues: messages[0].continues, Rest: messages[len(messages)-1].rest}
	for _, m := range messages {
		f.Messages = append(f.Messages, m.raw)
	}
	return f
}

// frameLen is how many of the queued messages the next frame takes: up to frameBytes, at least one, for one directory,
// and no part but as its first or its last.
func frameLen(queue []outgoing) (n, bytes int) {
	for n < len(queue) && (n == 0 || bytes+len(queue[n].raw) <= frameBytes && queue[n].continues == 0 && queue[n].asker == queue[0].asker) {
		bytes += len(queue[n].raw)
		n++
		if queue[n-1].rest > 0 {
			break
		}
	}
	return n, bytes
}

// assembly gathers the parts of one message: of one sender, since only a leader sends any that large.
type assembly struct {
	mu    sched.Mutex
	from  int32
	bytes []byte
}

// add returns the whole messages of a frame; ok is false when a part does not follow the one before it, or the message
// is too large.
func (a *assembly) add(from int32, f protocol.MessageFrames) (whole [][]byte, ok bool) {
	if f.Continues == 0 && f.Rest == 0 {
		return f.Messages, true
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	whole = f.Messages
	if len(whole) == 0 || f.Continues < 0 || f.Rest < 0 || f.Continues+f.Rest > maxMessageBytes {
		return nil, false
	}
	var begun []byte
	if f.Continues > 0 {
		if a.from != from || int64(len(a.bytes)) != f.Continues {
			return nil, false
		}
		begun = a.bytes
	}
	a.bytes = nil
	whole[0] = append(begun, whole[0]...)
	if f.Rest == 0 {
		return whole, true
	}
	last := len(whole) - 1
	a.from, a.bytes = from, append([]byte(nil), whole[last]...)
	if last == 0 {
		a.bytes = whole[0] // has grown in place
	}
	return whole[:last], true
}
