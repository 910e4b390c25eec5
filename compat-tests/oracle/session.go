package oracle

import (
	"fmt"
	"regexp"
	"strings"
	"time"
)

// scenarioTimeout ends a scenario whose every step waits in vain.
const scenarioTimeout = time.Minute

// Target is a broker to run scenarios against.
type Target struct {
	Name string // "kafka", "grete": for messages
	Addr string
	SASL string // address of a listener that authenticates, "" where there is none
	Dir  string // prefix of paths that it may show
	// At is the address of connections that are not for set-up, "" for Addr.
	At string
	// Guest is the local address of connections that are not for set-up, "" for the system's choice.
	Guest string
}

// Step is one entry of a transcript.
type Step struct {
	Conn    string `json:"conn,omitempty"` // empty: the first connection
	Request string `json:"request"`
	Answer  any    `json:"answer"`
}

// Scenario is one conversation. Its name is unique and says key, case and version.
type Scenario struct {
	Name    string
	Key     int16
	Version int16
	Serial  bool // runs alone, before the others
	Run     func(*Session)
}

// Session is one run of a scenario against a target.
type Session struct {
	target    Target
	prefix    string // of every name that the scenario makes; masked in the transcript
	conns     []*Conn
	setupConn *Conn
	steps     []Step
	ids       map[string]string // what was seen → its alias
	counts    map[string]int    // aliases given, by kind
	begun     time.Time
}

func newSession(t Target, name, nonce string) *Session {
	slug := strings.NewReplacer("/", "-", " ", "-").Replace(name)
	return &Session{target: t, prefix: "o" + nonce + "-" + slug + "-", ids: map[string]string{}, counts: map[string]int{}, begun: time.Now()}
}

// run performs the scenario. A panic of the script, by an answer that it cannot go on with, is its last step.
func (s *Session) run(sc Scenario) (steps []Step) {
	defer func() {
		if r := recover(); r != nil {
			s.steps = append(s.steps, Step{Request: "script", Answer: fmt.Sprintf("stopped: %v", r)})
		}
		for _, c := range s.conns {
			c.Close()
		}
		if s.setupConn != nil {
			s.setupConn.Close()
		}
		steps = s.steps
	}()
	sc.Run(s)
	return s.steps
}

func (s *Session) record(conn, request string, answer any) {
	if time.Since(s.begun) > scenarioTimeout {
		panic(fmt.Sprintf("still not done after %v", scenarioTimeout))
	}
	s.steps = append(s.steps, Step{Conn: conn, Request: request, Answer: answer})
}

// Conn opens a connection; the second is named c2.
func (s *Session) Conn() *Conn {
	name := ""
	if n := len(s.conns) + 1; n > 1 {
		name = fmt.Sprintf("c%d", n)
	}
	c := dial(s, name)
	s.conns = append(s.conns, c)
	return c
}

// Probe opens a connection for a request that may not survive: unlike Conn's it has no number.
func (s *Session) Probe() *Conn {
	c := s.Conn()
	c.name = ""
	return c
}

// Name is a topic, group or other name of this scenario's own; the transcript shows it as ~name.
func (s *Session) Name(name string) string { return s.prefix + name }

// alias names an id that brokers make up: the first of a kind seen is kind#1, wherever it shows again.
func (s *Session) alias(kind, id string) string {
	if a, ok := s.ids[kind+id]; ok {
		return a
	}
	s.counts[kind]++
	a := fmt.Sprintf("%s#%d", kind, s.counts[kind])
	s.ids[kind+id] = a
	return a
}

var loopbackPattern = regexp.MustCompile(`127\.0\.0\.1:\d+`)

var timePattern = regexp.MustCompile(`-?\d{13,}`)

var uuidPattern = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

// kafkaUUIDPattern is a whole id in the form of Kafka's Uuid.
var kafkaUUIDPattern = regexp.MustCompile(`^[0-9A-Za-z_-]{22}$`)

// ownIDPattern are ids of clusters and directories within sentences.
var ownIDPattern = regexp.MustCompile(`(directoryId=|the cluster id ")[\w-]{22}`)

// maskString hides what differs from run to run inside a string.
func (s *Session) maskString(v string) string {
	v = strings.ReplaceAll(v, s.prefix, "~")
	v = strings.ReplaceAll(v, s.target.Addr, "<addr>")
	if strings.Contains(v, "imestamp") {
		v = timePattern.ReplaceAllString(v, "<ms>")
	}
	if strings.HasPrefix(v, "Request Request(") { // Kafka shows its own object
		return "<the request> is not authorized."
	}
	v = loopbackPattern.ReplaceAllString(v, "<other addr>")
	v = ownIDPattern.ReplaceAllString(v, "$1<own id>")
	if s.target.Dir != "" {
		v = strings.ReplaceAll(v, s.target.Dir, "<dir>")
	}
	if kafkaUUIDPattern.MatchString(v) && !foreignName.MatchString(v) {
		v = "<" + s.alias("uuid", v) + ">"
	}
	if strings.Contains(v, "-") {
		v = uuidPattern.ReplaceAllStringFunc(v, func(id string) string { return "<" + s.alias("uuid", id) + ">" })
	}
	return v
}

// pause lets broker time pass where a scenario is about time.
func pause(d time.Duration) { time.Sleep(d) }
