package oracle

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// SASLProperties are the broker's for SASLScenarios: sessions by PLAIN end, those by SCRAM do not. It has a listener SASL_PLAINTEXT beside the plain one.
var SASLProperties = map[string]string{
	"sasl.enabled.mechanisms":                                      "PLAIN,SCRAM-SHA-256",
	"listener.name.sasl_plaintext.plain.connections.max.reauth.ms": "600000",
	"connection.failed.authentication.delay.ms":                    "100",
	"listener.name.sasl_plaintext.plain.sasl.jaas.config":          `org.apache.kafka.common.security.plain.PlainLoginModule required user_ann="secret" user_ben="secret2";`,
	"listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config":  `org.apache.kafka.common.security.scram.ScramLoginModule required;`,
}

const authenticateKey = 36

// SASLScenarios are connections that authenticate, or do not.
func SASLScenarios() []Scenario {
	l := &list{}
	l.each(17, "sasl/handshake", saslHandshakes)
	l.between(authenticateKey, 0, 2, "sasl/plain", saslPlain)
	l.between(authenticateKey, 0, 2, "sasl/plain refused", saslPlainRefused)
	l.between(authenticateKey, 0, 2, "sasl/scram refused", saslScramRefused)
	l.between(authenticateKey, 0, 2, "sasl/again", saslAgain)
	l.one(17, 0, "sasl/tokens", saslTokens)
	l.one(17, 1, "sasl/states", saslStates)
	return l.all
}

func handshake(mechanism string) *kmsg.SASLHandshakeRequest {
	req := kmsg.NewPtrSASLHandshakeRequest()
	req.Mechanism = mechanism
	return req
}

func authenticate(token string) *kmsg.SASLAuthenticateRequest {
	req := kmsg.NewPtrSASLAuthenticateRequest()
	req.SASLAuthBytes = []byte(token)
	return req
}

const annsToken, bensToken = "\x00ann\x00secret", "\x00ben\x00secret2"

// alive shows whether a connection still serves.
func (c *Conn) alive() { c.Send(1, handshakeless()).Note("then").Alive().Wait() }

func handshakeless() kmsg.Request {
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{}
	return req
}

func saslHandshakes(s *Session, v int16) {
	for _, mechanism := range []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "plain", "", "NOPE", "GSSAPI"} {
		c := s.Probe()
		c.Send(v, handshake(mechanism)).Note(fmt.Sprintf("%q", mechanism)).Wait()
		if mechanism == "NOPE" {
			c.alive()
		}
	}
}

// chosen is a connection on which a mechanism is chosen.
func (s *Session) chosen(mechanism string) *Conn {
	c := s.Probe()
	c.Send(1, handshake(mechanism)).Quiet()
	return c
}

func saslPlain(s *Session, v int16) {
	for _, token := range []string{annsToken, "ann\x00ann\x00secret", bensToken} {
		c := s.chosen("PLAIN")
		c.Send(v, authenticate(token)).Note(fmt.Sprintf("%q", token)).Wait()
		c.alive()
	}
}

func saslPlainRefused(s *Session, v int16) {
	for _, token := range []string{
		"\x00ann\x00wrong", "\x00nobody\x00secret", "\x00ann\x00", "\x00\x00secret", "ben\x00ann\x00secret", "", "\x00", "\x00ann", "\x00ann\x00secret\x00", "nonsense", "\xff\x00ann\x00secret",
	} {
		c := s.chosen("PLAIN")
		c.Send(v, authenticate(token)).Note(fmt.Sprintf("%q", token)).Wait()
		if token == "nonsense" {
			c.alive()
		}
	}
}

func saslScramRefused(s *Session, v int16) {
	ann := s.Name("ann")
	s.makeScramUsers(upsertion(ann, scram256, 4096))
	for _, try := range [][2]string{
		{"an unknown user", "n,,n=" + s.Name("none") + ",r=nonce"}, {"in another's name", "n,a=other,n=" + ann + ",r=nonce"},
		{"channel binding", "p=tls-unique,,n=" + ann + ",r=nonce"}, {"no nonce", "n,,n=" + ann}, {"nonsense", "nonsense"}, {"nothing", ""},
		{"an extension that must be known", "n,,m=x,n=" + ann + ",r=nonce"},
	} {
		c := s.chosen("SCRAM-SHA-256")
		k := c.Send(v, authenticate(try[1])).Note(try[0])
		k.filter = withoutChallenge
		k.Wait()
	}
	c := s.chosen("SCRAM-SHA-256")
	c.Send(v, authenticate("n,,n="+ann+",r=nonce")).Alive().Wait()
	c.Send(v, authenticate("c=biws,r=nonce,p=AAAA")).Note("another nonce").Wait()
}

// withoutChallenge masks what a server draws anew each time.
func withoutChallenge(tree any) any {
	if m, ok := tree.(map[string]any); ok {
		if text, _ := m["SASLAuthBytes"].(string); strings.HasPrefix(text, "r=") {
			m["SASLAuthBytes"] = "<a challenge>"
		}
	}
	return tree
}

func saslAgain(s *Session, v int16) {
	plain := func() *Conn {
		c := s.chosen("PLAIN")
		c.Send(v, authenticate(annsToken)).Quiet()
		return c
	}
	c := plain()
	c.Send(1, handshake("PLAIN")).Note("again").Wait()
	c.Send(v, authenticate(annsToken)).Note("as the same").Wait()
	c.alive()
	c.Send(1, handshake("PLAIN")).Note("again within a second").Wait()
	c = plain()
	c.Send(1, handshake("PLAIN")).Note("again").Wait()
	c.Send(v, authenticate(bensToken)).Note("as another").Wait()
	c.alive()
	c = plain()
	c.Send(1, handshake("PLAIN")).Note("again").Wait()
	c.Send(v, authenticate("\x00ann\x00wrong")).Note("with a wrong password").Wait()
	c = plain()
	c.Send(1, handshake("SCRAM-SHA-256")).Note("by another mechanism").Wait()
	c.Send(v, authenticate("n,,n=ann,r=nonce")).Wait()
	c = plain()
	c.Send(1, handshake("NOPE")).Note("by none").Wait()
	c = plain()
	c.Send(v, authenticate(annsToken)).Note("without a handshake").Wait()
	c.alive()
}

// saslTokens are handshakes of version 0: what follows is a token in a frame without a header.
func saslTokens(s *Session) {
	for _, token := range []string{annsToken, "\x00ann\x00wrong", "nonsense", ""} {
		c := s.Probe()
		c.Send(0, handshake("PLAIN")).Quiet()
		c.SendRaw(fmt.Sprintf("token %q", token), append(binary.BigEndian.AppendUint32(nil, uint32(len(token))), token...)).Wait()
		if token == annsToken {
			c.alive()
		}
	}
}

// saslStates are requests that come when they may not.
func saslStates(s *Session) {
	first := func(note string, version int16, req kmsg.Request) {
		c := s.Probe()
		c.Send(version, req).Note("first " + note).Wait()
	}
	first("", 1, handshakeless())
	first("", 1, authenticate(annsToken))
	first("", 1, describeScram())
	c := s.Probe()
	c.Send(3, apiVersions("a", "1")).Alive().Wait()
	c.Send(3, apiVersions("a", "1")).Note("twice").Alive().Wait()
	c = s.Probe()
	c.Send(3, apiVersions("a", "1")).Alive().Wait()
	c.Send(1, handshakeless()).Note("after versions").Wait()
	c = s.Probe()
	c.Send(99, apiVersions("a", "1")).Note("of the future").Wait()
	c.Send(3, apiVersions("a", "1")).Note("then").Alive().Wait()
	c.Send(1, handshake("PLAIN")).Note("then").Wait()
	for _, req := range []kmsg.Request{handshake("PLAIN"), apiVersions("a", "1")} {
		c = s.chosen("PLAIN")
		c.Send(1, req).Note("after the handshake").Wait()
	}
	c = s.chosen("PLAIN")
	c.Send(1, handshakeless()).Note("after the handshake").Wait()
}
