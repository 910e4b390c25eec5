package txn

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"grete/coordinator"
	"grete/internal/transcript"
)

// TestTranscripts plays testdata/*.txt. A command is a verb, mostly an id, and key=value pairs; it leads to answers and
// markers in the order in which they came, then each transactional id as it is.
func TestTranscripts(t *testing.T) {
	transcript.Run(t, 8, func(t *testing.T) func(string) string { return (&player{t: t}).play })
}

// player runs the commands of one transcript.
type player struct {
	t *testing.T
	r *rig
}

type command struct {
	t    *testing.T
	id   string
	args map[string]string
}

func (c command) int(key string, absent int64) int64 {
	v, ok := c.args[key]
	if !ok {
		return absent
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil {
		c.t.Fatal(err)
	}
	return n
}

// producer is p=id/epoch.
func (c command) producer() ProducerEpoch {
	id, epoch, _ := strings.Cut(c.args["p"], "/")
	n, _ := strconv.ParseInt(id, 10, 64)
	e, _ := strconv.ParseInt(epoch, 10, 16)
	return ProducerEpoch{n, int16(e)}
}

func (c command) partitions() []Partition {
	var out []Partition
	for _, text := range strings.FieldsFunc(c.args["parts"], func(r rune) bool { return r == ',' }) {
		topic, index, _ := strings.Cut(text, "-")
		n, err := strconv.Atoi(index)
		if err != nil {
			c.t.Fatal(err)
		}
		out = append(out, Partition{topic, int32(n)})
	}
	return out
}

func (p *player) play(line string) string {
	fields := strings.Fields(line)
	c := command{t: p.t, args: map[string]string{}}
	for _, f := range fields[1:] {
		if k, v, ok := strings.Cut(f, "="); ok {
			c.args[k] = v
		} else {
			c.id = f
		}
	}
	if fields[0] == "new" {
		p.r = newRig(p.t, DefaultConfig())
		p.r.version = int16(c.int("version", 2))
		return "ok"
	}
	p.do(fields[0], c)
	p.r.rest()
	return strings.Join(append(p.r.takeAnswers(), p.r.states()...), "\n")
}

func (p *player) do(verb string, c command) {
	r := p.r
	switch verb {
	case "init":
		req := InitRequest{ID: c.id, TimeoutMs: int32(c.int("timeout", 60_000))}
		if c.args["p"] != "" {
			own := c.producer()
			req.Expected = &own
		}
		r.s.InitProducer(req, func(got ProducerEpoch, err error) {
			r.note("init %s: %s %d/%d", c.id, codeText(err), got.ID, got.Epoch)
		})
	case "add":
		_, wait := c.args["wait"]
		r.s.AddPartitions(AddRequest{
			ID: c.id, Producer: c.producer(), Partitions: c.partitions(), ClientVersion: int16(c.int("v", 0)), Wait: wait,
		}, func(err error) { r.note("add %s: %s", c.id, codeText(err)) })
	case "verify":
		r.s.VerifyPartitions(AddRequest{ID: c.id, Producer: c.producer(), Partitions: c.partitions()}, func(errs []error) {
			for i, err := range errs {
				r.note("verify %s: %s %s", c.id, partitionTexts(c.partitions())[i], codeText(err))
			}
		})
	case "commit", "abort":
		r.s.End(EndRequest{ID: c.id, Producer: c.producer(), Commit: verb == "commit", ClientVersion: int16(c.int("v", 0))}, func(got ProducerEpoch, err error) {
			r.note("%s %s: %s %d/%d", verb, c.id, codeText(err), got.ID, got.Epoch)
		})
	default:
		p.world(verb, c)
	}
}

// world moves what is around the coordinator.
func (p *player) world(verb string, c command) {
	r := p.r
	switch verb {
	case "markers":
		p.setMarkers(c)
	case "advance":
		d, err := time.ParseDuration(c.id)
		if err != nil {
			p.t.Fatal(err)
		}
		r.clock.Advance(d)
	case "log": // fail, hold, commit
		switch c.id {
		case "fail":
			r.log.FailAppends(kerr.NotEnoughReplicas)
		case "good":
			r.log.FailAppends(nil)
		case "hold":
			r.log.Hold()
		case "commit":
			r.log.Commit()
		}
	case "ids":
		r.noIDs = map[string]error{"none": kerr.CoordinatorLoadInProgress}[c.id]
	case "record":
		own := c.producer()
		m := newMetadata(own.ID)
		m.epoch, m.prevProducerID, m.timeoutMs, m.state = own.Epoch, own.ID, 60_000, State(c.int("state", 0))
		m.updateMs, m.partitions, m.clientVersion = r.clock.Now().UnixMilli(), c.partitions(), int16(c.int("v", 0))
		if m.state != Empty {
			m.startMs = m.updateMs
		}
		r.append(recordKey(c.id), m.value(maxValueVersion))
	case "resign":
		r.s.Resign(0, r.epoch)
		time.Sleep(10 * time.Millisecond)
	case "lead":
		r.lead()
	default:
		p.t.Fatalf("no command %q", verb)
	}
}

func (p *player) setMarkers(c command) {
	f := p.r.markers
	switch c.id {
	case "hold":
		f.hold = true
	case "let":
		f.let()
	default:
		for _, part := range c.partitions() {
			f.fail[part] = map[string]error{
				"NOT_LEADER": kerr.NotLeaderForPartition, "FENCED": kerr.TransactionCoordinatorFenced, "EPOCH": kerr.InvalidProducerEpoch,
			}[c.id]
		}
	}
}

func codeText(err error) string {
	if err == nil {
		return "0"
	}
	var known *kerr.Error
	if code := coordinator.Code(err); !errors.As(err, &known) || known.Code != code {
		return fmt.Sprintf("%d %s", code, kerr.ErrorForCode(code).(*kerr.Error).Message)
	}
	return fmt.Sprintf("%d %s", known.Code, known.Message)
}
