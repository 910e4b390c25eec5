package kerberos

import (
	"crypto/rand"
	"testing"
	"time"

	"github.com/jcmturner/gokrb5/v8/iana/etypeID"
	"github.com/jcmturner/gokrb5/v8/keytab"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"
)

// Names of the tests' service and client, and the time at which they meet.
var (
	service = Principal{[]string{"kafka", "a.example"}, "R"}
	ann     = Principal{[]string{"ann"}, "R"}
	now     = time.Date(2026, 12, 1, 0, 0, 0, 123456000, time.UTC)
)

const skew = 5 * time.Minute

func random(p []byte) { _, _ = rand.Read(p) }

// keytabOf is a file with a key of each principal, of one type.
func keytabOf(t testing.TB, enctype int32, principals ...Principal) []byte {
	t.Helper()
	kt := keytab.New()
	for _, p := range principals {
		if err := kt.AddEntry(p.Name(), p.Realm, "secret", time.Unix(1, 0), 3, enctype); err != nil {
			t.Fatal(err)
		}
	}
	raw, err := kt.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// fixture is a service, and what it takes to make tickets for it without a KDC.
type fixture struct {
	*Acceptor
	keys *Keys
	at   time.Time // of the service
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	keys, err := ReadKeys(keytabOf(t, etypeID.AES256_CTS_HMAC_SHA1_96, service, Principal{[]string{"other", "a.example"}, "R"}, Principal{service.Components, "Q"}), service, strongTypes)
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{keys: keys, at: now}
	f.Acceptor = &Acceptor{
		Keys: func() *Keys { return f.keys }, Types: strongTypes, Skew: skew, Replays: NewReplays(), Now: func() time.Time { return f.at }, Random: random,
	}
	return f
}

// ticket makes one as a KDC does.
func (f *fixture) ticket(t testing.TB, client, of Principal, from, until time.Time) *Ticket {
	t.Helper()
	message, key, err := messages.NewTicket(client.wire(), client.Realm, of.wire(), of.Realm, types.NewKrbFlags(), f.keys.keytab, etypeID.AES256_CTS_HMAC_SHA1_96, 3, from, from, until, until)
	if err != nil {
		t.Fatal(err)
	}
	return &Ticket{Client: client, Ends: until, Message: message, Key: key}
}

// good is a ticket of ann's that is good now.
func (f *fixture) good(t testing.TB) *Ticket {
	return f.ticket(t, ann, service, now.Add(-time.Hour), now.Add(time.Hour))
}

// request is a client's first token at a time.
func request(t testing.TB, ticket *Ticket, at time.Time) (*Initiator, []byte) {
	t.Helper()
	i, token, err := ticket.Begin(at, random, strongTypes)
	if err != nil {
		t.Fatal(err)
	}
	return i, token
}
