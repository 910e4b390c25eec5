package protocol

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/internal/security/sasl"
)

// saslScript plays steps of SASL on one connection, which the fuzzer chooses, and knows which secrets were shown.
type saslScript struct {
	t      *testing.T
	client net.Conn
	server *Server

	mu      sync.Mutex
	answers []byte // all that came
	shown   map[string]bool
	served  []string // principals that a Heartbeat was served for
}

// The steps that a byte of a script may be. What follows in rest depends on the step.
const (
	stepVersions = iota
	stepHandshakePlain
	stepHandshakePlainV0
	stepHandshakeScram
	stepHandshakeScramV0
	stepHandshakeUnknown
	stepAnn
	stepEve
	stepWrong
	stepRawAnn
	stepRawWrong
	stepScramFirst
	stepScramProof
	stepScramWrong
	stepRawScramFirst
	stepRawScramProof
	stepHeartbeat
	stepWait
	stepWaitLong
	stepGarbage
	steps
)

const scriptSession = 10 * time.Second

// bobsSalted is bob's password as his client keeps it.
var bobsSalted = func() []byte {
	salted, err := sasl.SHA256.SaltPassword("hunter2", []byte("salt"), sasl.MinIterations)
	if err != nil {
		panic(err)
	}
	return salted
}()

func (s *saslScript) write(b []byte) {
	_ = s.client.SetWriteDeadline(time.Now().Add(time.Second))
	_, _ = s.client.Write(b)
	synctest.Wait()
}

func (s *saslScript) token(raw bool, text string) {
	if raw {
		s.write(append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...))
		return
	}
	s.write(encodeRequest(saslToken(2, text), 1))
}

// challenge is the last of SCRAM that the server has sent, in an answer or as a frame.
func (s *saslScript) challenge() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := string(s.answers)
	i := strings.LastIndex(text, "r=rOpr")
	if i < 0 {
		return ""
	}
	text = text[i:]
	iterations := strings.Index(text, ",i=4096")
	if iterations < 0 {
		return ""
	}
	return text[:iterations+len(",i=4096")]
}

func (s *saslScript) proof() string {
	challenge := s.challenge()
	nonce, _, _ := strings.Cut(challenge, ",")
	without := "c=biws," + nonce
	stored, _ := sasl.SHA256.Keys(bobsSalted)
	mac := func(key []byte, text string) []byte {
		m := hmac.New(sha256.New, key)
		m.Write([]byte(text))
		return m.Sum(nil)
	}
	key, signature := mac(bobsSalted, "Client Key"), mac(stored, "n=bob,r=rOpr,"+challenge+","+without)
	for i := range key {
		key[i] ^= signature[i]
	}
	return without + ",p=" + base64.StdEncoding.EncodeToString(key)
}

// play takes one step; rest is the script that has not been played, of which garbage takes some.
func (s *saslScript) play(step byte, rest []byte) (used int) {
	switch step % steps {
	case stepVersions:
		s.write(encodeRequest(kmsg.NewPtrApiVersionsRequest(), 1))
	case stepHandshakePlain:
		s.write(encodeRequest(saslHandshakeRequest(1, "PLAIN"), 1))
	case stepHandshakePlainV0:
		s.write(encodeRequest(saslHandshakeRequest(0, "PLAIN"), 1))
	case stepHandshakeScram:
		s.write(encodeRequest(saslHandshakeRequest(1, "SCRAM-SHA-256"), 1))
	case stepHandshakeScramV0:
		s.write(encodeRequest(saslHandshakeRequest(0, "SCRAM-SHA-256"), 1))
	case stepHandshakeUnknown:
		s.write(encodeRequest(saslHandshakeRequest(int16(len(rest)%2), "GSSAPI"), 1))
	case stepAnn, stepRawAnn:
		s.shown["ann"] = true
		s.token(step%steps == stepRawAnn, annsToken)
	case stepEve:
		s.shown["eve"] = true
		s.token(false, evesToken)
	case stepWrong, stepRawWrong:
		s.token(step%steps == stepRawWrong, "\x00ann\x00wrong")
	case stepScramFirst, stepRawScramFirst:
		s.token(step%steps == stepRawScramFirst, "n,,n=bob,r=rOpr")
	case stepScramProof, stepRawScramProof:
		s.shown["bob"] = true
		s.token(step%steps == stepRawScramProof, s.proof())
	case stepScramWrong:
		s.token(false, strings.Replace(s.proof(), ",p=", ",p=AAAA", 1))
	case stepHeartbeat:
		s.write(encodeRequest(heartbeat("a"), 1))
	case stepWait:
		time.Sleep(2 * time.Second)
	case stepWaitLong:
		time.Sleep(scriptSession + time.Second)
	case stepGarbage:
		used = min(len(rest), 12)
		s.write(rest[:used])
	}
	synctest.Wait()
	return used
}

// check holds what was served against what was shown.
func (s *saslScript) check() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, name := range s.served {
		if !s.shown[name] {
			s.t.Fatalf("served for %s, without the secret", name)
		}
		if name != s.served[0] {
			s.t.Fatalf("served for %s, and then for %s", s.served[0], s.served[i])
		}
	}
}

func playSASL(t *testing.T, script []byte) *saslScript {
	s := &saslScript{t: t, shown: map[string]bool{}}
	h := (&testHandler{}).on(heartbeatKey, func(r *Request) {
		s.mu.Lock()
		s.served = append(s.served, r.Conn.Principal().Name)
		s.mu.Unlock()
		r.Respond(r.Body.ResponseKind())
	})
	o := withSASL(func(s *SASL) { s.Mechanisms[0].MaxSession, s.Mechanisms[1].MaxSession = scriptSession, scriptSession })
	o.Log = zerolog.Nop()
	s.server = NewServer(h, o)
	ours, theirs := net.Pipe()
	s.client = ours
	if !s.server.limits.awaitSlot("PLAINTEXT", nil) {
		t.Fatal("no slot")
	}
	s.server.admit("PLAINTEXT", theirs)
	read := make(chan struct{})
	go func() {
		defer close(read)
		buf := make([]byte, 4096)
		for {
			n, err := ours.Read(buf)
			s.mu.Lock()
			s.answers = append(s.answers, buf[:n]...)
			s.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	last := time.Time{} // when a principal was proven last
	for i := 0; i < len(script) && i < 40; i++ {
		served := len(s.served)
		step := script[i] % steps
		i += s.play(script[i], script[i+1:])
		s.check()
		if step == stepAnn || step == stepRawAnn || step == stepEve || step == stepScramProof || step == stepRawScramProof {
			last = time.Now()
		}
		if len(s.served) > served && time.Since(last) > scriptSession {
			t.Fatalf("served %v after the last authentication", time.Since(last))
		}
	}
	ours.Close()
	<-read
	if err := s.server.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	for _, a := range s.server.o.Memory.Accounts() {
		if n := a.UsedBytes(); n != 0 {
			t.Fatalf("%d bytes of %s were not given back", n, a.Name())
		}
	}
	return s
}

// FuzzSASLSteps plays the steps of logging in, and in again, in any order and with garbage between them: the server
// serves a name only after the secret of just that name, no connection changes hands, and no session outlives its end.
func FuzzSASLSteps(f *testing.F) {
	f.Add([]byte{stepVersions, stepHandshakePlain, stepAnn, stepHeartbeat, stepWait, stepHandshakePlain, stepAnn, stepHeartbeat})
	f.Add([]byte{stepHandshakePlain, stepAnn, stepWait, stepHandshakePlain, stepEve, stepHeartbeat})
	f.Add([]byte{stepHandshakePlainV0, stepRawAnn, stepHeartbeat, stepWaitLong, stepHeartbeat})
	f.Add([]byte{stepHandshakeScram, stepScramFirst, stepScramProof, stepHeartbeat, stepWait, stepHandshakeScram, stepScramFirst, stepHeartbeat})
	f.Add([]byte{stepHandshakeScramV0, stepRawScramFirst, stepRawScramProof, stepHeartbeat})
	f.Add([]byte{stepHandshakeScram, stepScramFirst, stepScramWrong, stepHeartbeat})
	f.Add([]byte{stepHandshakePlain, stepAnn, stepWait, stepHandshakeScram, stepScramFirst, stepScramProof, stepHeartbeat})
	f.Add([]byte{stepHandshakePlain, stepAnn, stepHandshakePlain, stepWait, stepHandshakePlain, stepHandshakePlain, stepAnn})
	f.Fuzz(func(t *testing.T, script []byte) {
		synctest.Test(t, func(t *testing.T) { playSASL(t, script) })
	})
}

// The seeds of FuzzSASLSteps that are to lead somewhere do.
func TestSASLStepsGetIn(t *testing.T) {
	for _, script := range [][]byte{
		{stepHandshakePlainV0, stepRawAnn, stepHeartbeat},
		{stepHandshakeScram, stepScramFirst, stepScramProof, stepHeartbeat},
		{stepHandshakeScramV0, stepRawScramFirst, stepRawScramProof, stepHeartbeat},
	} {
		synctest.Test(t, func(t *testing.T) {
			if played := playSASL(t, script); len(played.served) == 0 {
				t.Errorf("%v is not served", script)
			}
		})
	}
}
