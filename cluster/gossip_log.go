package cluster

import (
	"strings"
	"time"

	"github.com/rs/zerolog"

	"grete/internal/loglimit"
)

// logEvery is how often memberlist may complain: whoever can send packets can make it.
const logEvery = 10 * time.Second

// listLog gives memberlist's lines to zerolog. Its information is our detail.
type listLog struct {
	log   zerolog.Logger
	limit *loglimit.Limit
}

// Write is io.Writer's; p is one line.
func (l *listLog) Write(p []byte) (int, error) {
	line := strings.TrimSpace(string(p))
	if strings.Contains(line, "Refuting") { // a rumour about this node, as after each of its restarts
		line = "[INFO]" + strings.TrimPrefix(line, "[WARN]")
	}
	complaint := strings.HasPrefix(line, "[ERR]") || strings.HasPrefix(line, "[WARN]") || strings.HasPrefix(line, "[ERROR]")
	_, text, _ := strings.Cut(line, "memberlist: ")
	if !complaint {
		l.log.Debug().Str("detail", text).Msg("gossip")
		return len(p), nil
	}
	l.limit.Write(&l.log, zerolog.WarnLevel, func(e *zerolog.Event) { e.Str("detail", text).Msg("gossip was refused or went wrong") })
	return len(p), nil
}
