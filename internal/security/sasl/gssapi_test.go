package sasl

import (
	"bytes"
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"github.com/jcmturner/gokrb5/v8/iana/etypeID"
	"github.com/jcmturner/gokrb5/v8/keytab"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"

	"grete/internal/security/kerberos"
)

// gssapiFixture is a service, and tickets for it that no KDC has made.
type gssapiFixture struct {
	server *GSSAPIServer
	keytab *keytab.Keytab
	types  kerberos.Enctypes
	now    time.Time
}

func fillRandom(p []byte) { _, _ = rand.Read(p) }

func newGSSAPI(t *testing.T) *gssapiFixture {
	t.Helper()
	f := &gssapiFixture{keytab: keytab.New(), types: kerberos.Enctypes{etypeID.AES256_CTS_HMAC_SHA1_96}, now: time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)}
	if err := f.keytab.AddEntry("kafka/a", "R", "secret", time.Unix(1, 0), 1, etypeID.AES256_CTS_HMAC_SHA1_96); err != nil {
		t.Fatal(err)
	}
	file, err := f.keytab.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	keys, err := kerberos.ReadKeys(file, kerberos.Principal{Components: []string{"kafka", "a"}, Realm: "R"}, f.types)
	if err != nil {
		t.Fatal(err)
	}
	rules, err := kerberos.ParseRules([]string{"RULE:[1:$1]"}, "R")
	if err != nil {
		t.Fatal(err)
	}
	f.server = &GSSAPIServer{Rules: rules, Acceptor: &kerberos.Acceptor{Keys: func() *kerberos.Keys { return keys }, Types: f.types, Skew: time.Minute, Replays: kerberos.NewReplays(),
		Now: func() time.Time { return f.now }, Random: fillRandom}}
	return f
}

// begin begins at the service as a client; first is the token.
func (f *gssapiFixture) begin(t *testing.T, client ...string) (i *kerberos.Initiator, first []byte) {
	t.Helper()
	name := func(of ...string) types.PrincipalName { return types.PrincipalName{NameType: 1, NameString: of} }
	from, until := f.now.Add(-time.Minute), f.now.Add(time.Hour)
	message, key, err := messages.NewTicket(name(client...), "R", name("kafka", "a"), "R", types.NewKrbFlags(), f.keytab, etypeID.AES256_CTS_HMAC_SHA1_96, 1, from, from, until, until)
	if err != nil {
		t.Fatal(err)
	}
	ticket := &kerberos.Ticket{Client: kerberos.Principal{Components: client, Realm: "R"}, Ends: until, Message: message, Key: key}
	i, first, err = ticket.Begin(f.now, fillRandom, f.types)
	if err != nil {
		t.Fatal(err)
	}
	return i, first
}

// The client of a node and the server get along.
func TestGSSAPI(t *testing.T) {
	f := newGSSAPI(t)
	i, first := f.begin(t, "ann")
	client, server := &gssapiClient{initiator: i, first: first}, f.server.Begin()
	var challenge []byte
	for steps := 0; ; steps++ {
		token, done, err := client.Next(challenge)
		if err != nil {
			t.Fatal(err)
		}
		if done {
			if steps != 3 || server.Result() != (Result{Name: "ann"}) || server.Claimed() != "ann@R" {
				t.Error(steps, server.Result(), server.Claimed())
			}
			return
		}
		if challenge, done, err = server.Next(token); err != nil || done != (steps == 2) {
			t.Fatal(steps, done, err)
		}
	}
}

// What the client may answer to the offer of a layer. Kafka 4.4 does not mind whom it asks to act as: the name is the
// ticket's.
func TestGSSAPIChoice(t *testing.T) {
	for _, c := range []struct {
		choice []byte
		client []string
		want   string
	}{
		{[]byte{1, 0, 0, 0}, []string{"ann"}, ""},
		{[]byte{3, 0, 16, 0}, []string{"ann"}, ""},
		{[]byte("\x01\x00\x00\x00bob"), []string{"ann"}, ""},
		{[]byte("\x01\x00\x00\x00ann@R"), []string{"ann"}, ""},
		{[]byte{2, 0, 16, 0}, []string{"ann"}, "the client wants security layer 2"},
		{[]byte{4, 0, 16, 0}, []string{"ann"}, "the client wants security layer 4"},
		{[]byte{1, 0}, []string{"ann"}, "too short"},
		{nil, []string{"ann"}, "too short"},
		{[]byte{1, 0, 0, 0}, []string{"ann", "admin"}, "no rule"},
	} {
		f := newGSSAPI(t)
		i, first := f.begin(t, c.client...)
		server := f.server.Begin()
		answer, _, err := server.Next(first)
		if err != nil {
			t.Fatal(err)
		}
		context, err := i.Prove(answer)
		if err != nil {
			t.Fatal(err)
		}
		wrapped, _, err := server.Next(nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := context.Unwrap(wrapped); err != nil || !bytes.Equal(got, []byte{1, 1, 0, 0}) {
			t.Errorf("the offer is %x, %v", got, err)
		}
		token, err := context.Wrap(c.choice)
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = server.Next(token)
		if c.want == "" && (err != nil || server.Result().Name != "ann") || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || server.Result().Name != "") {
			t.Errorf("%q of %v: %v, %v", c.choice, c.client, err, server.Result())
		}
	}
}

// Tokens that come where others are due, and the same exchange once more.
func TestGSSAPIRefuses(t *testing.T) {
	f := newGSSAPI(t)
	i, first := f.begin(t, "ann")
	server := f.server.Begin()
	answer, _, err := server.Next(first)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := server.Next([]byte{1}); err == nil || !strings.Contains(err.Error(), "a token where none is due") {
		t.Error(err)
	}
	if _, _, err := f.server.Begin().Next(first); err == nil || !strings.Contains(err.Error(), "used before") {
		t.Error(err)
	}
	if _, _, err := f.server.Begin().Next(nil); err == nil {
		t.Error("nothing is taken")
	}
	if _, _, err := server.Next(nil); err != nil {
		t.Fatal(err)
	}
	if _, _, err := server.Next([]byte("hello")); err == nil {
		t.Error("a choice that is not wrapped is taken")
	}
	// A server that offers layers alone, or in a token of its own making, is none for us.
	client := &gssapiClient{initiator: i}
	if _, _, err := client.Next(answer); err != nil {
		t.Fatal(err)
	}
	if _, _, err := client.Next([]byte{1, 0, 0, 0}); err == nil {
		t.Error("an offer that is not wrapped is taken")
	}
}
