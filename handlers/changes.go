package handlers

import (
	"fmt"
	"strings"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster/metadata"
	"grete/internal/security/sasl"
	"grete/protocol"
)

// maxChangeLines bounds the lines of one request. The last one counts what has none.
const maxChangeLines = 1000

// Changes writes a line of the log about each administrative change that a client has made (audit.changes.enable).
type Changes struct{ log zerolog.Logger }

// NewChanges makes the Changes of a node's listeners.
func NewChanges(log zerolog.Logger) *Changes { return &Changes{log} }

// changed is one thing that a request has changed. Where there is nothing to be said of the state before or after, that
// is "".
type changed struct{ resource, name, before, after string }

// done is a request that was answered, with the metadata as it was before the request and as it is with the answer.
type done struct {
	before, after *metadata.Image
	req           kmsg.Request
	resp          kmsg.Response
	secret        []byte // of delegation tokens
	changes       []changed
}

func (d *done) add(resource, name, before, after string) {
	d.changes = append(d.changes, changed{resource, name, before, after})
}

// note has the log told of what r changes, once it is answered.
func (c *Changes) note(b *Broker, r *protocol.Request) {
	list := changesOf[r.Key]
	if c == nil || list == nil || trusted(b.Image(), r.Conn) { // a node acts for others, or for itself
		return
	}
	d := &done{before: b.Image(), req: r.Body, secret: []byte(b.Static.Text(tokenSecret))}
	r.Amend(func(resp kmsg.Response) {
		d.after, d.resp = b.Image(), resp
		if list(d); len(d.changes) > 0 {
			c.write(r, d.changes)
		}
	})
}

func (c *Changes) write(r *protocol.Request, changes []changed) {
	s := subject(r.Conn)
	for i, ch := range changes[:min(len(changes), maxChangeLines)] {
		e := c.log.Info().Str("principal", shorten(s.Principal)).Str("host", s.Host).Str("listener", r.Conn.Listener).
			Str("request", kmsg.NameForKey(r.Key)).Str("resource_type", ch.resource).Str("resource", shorten(ch.name))
		for _, state := range []struct{ when, text string }{{"before", ch.before}, {"after", ch.after}} {
			if state.text != "" {
				e = e.Str(state.when, shorten(state.text))
			}
		}
		if more := len(changes) - maxChangeLines; i == maxChangeLines-1 && more > 0 {
			e = e.Int("untold", more)
		}
		e.Msg("changed")
	}
}

// describeTopic is what of a topic an administrator chooses, "" for none.
func describeTopic(t *metadata.Topic) string {
	if t == nil || len(t.Partitions) == 0 {
		return ""
	}
	return fmt.Sprintf("%d partitions, replication factor %d", len(t.Partitions), len(t.Partitions[0].Replicas))
}

// partitionName is how a partition is called in lines of the log.
func partitionName(topic string, partition int32) string {
	return fmt.Sprintf("%s-%d", topic, partition)
}

// partitionOf is nil where there is no such partition.
func partitionOf(im *metadata.Image, topic string, partition int32) *metadata.Partition {
	t := im.Topic(topic)
	if t == nil || partition < 0 || int(partition) >= len(t.Partitions) {
		return nil
	}
	return &t.Partitions[partition]
}

func describeReplicas(p *metadata.Partition) string {
	if p == nil {
		return ""
	}
	text := fmt.Sprint("replicas ", p.Replicas)
	if len(p.Adding)+len(p.Removing) > 0 {
		text += fmt.Sprintf(", adding %v, removing %v", p.Adding, p.Removing)
	}
	return text
}

func describeLeader(p *metadata.Partition) string {
	if p == nil {
		return ""
	}
	return fmt.Sprint("leader ", p.Leader)
}

// describeCredentials names mechanisms and iterations of a user, never salts or keys.
func describeCredentials(im *metadata.Image, user string) string {
	var out []string
	for _, h := range []sasl.Hash{sasl.SHA256, sasl.SHA512} {
		if c := im.ScramCredential(user, int8(h)); c != nil {
			out = append(out, fmt.Sprintf("%v with %d iterations", h, c.Iterations))
		}
	}
	return strings.Join(out, ", ")
}

func describeACL(principal, host string, op kmsg.ACLOperation, permission kmsg.ACLPermissionType) string {
	return fmt.Sprintf("%v %s from %s: %v", permission, principal, host, op)
}

// patternName is the resource that an ACL is about.
func patternName(kind kmsg.ACLResourceType, name string, pattern kmsg.ACLResourcePatternType) string {
	return fmt.Sprintf("%v %s (%v)", kind, name, pattern)
}

// describeToken never tells the HMAC. A token that is gone is "".
func describeToken(t *metadata.DelegationTokenRecord) string {
	if t == nil {
		return ""
	}
	return fmt.Sprintf("owner %s, requester %s, renewers %v, expires at %d", t.Owner, t.Requester, t.Renewers, t.ExpirationTimestamp)
}
