package kerberos

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"
	"time"

	"github.com/jcmturner/gofork/encoding/asn1"
	"github.com/jcmturner/gokrb5/v8/asn1tools"
	"github.com/jcmturner/gokrb5/v8/crypto"
	"github.com/jcmturner/gokrb5/v8/iana/asnAppTag"
	"github.com/jcmturner/gokrb5/v8/iana/etypeID"
	"github.com/jcmturner/gokrb5/v8/iana/keyusage"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"
)

// Both sides know each other, and what one wraps the other unwraps.
func TestAccept(t *testing.T) {
	f := newFixture(t)
	i, token := request(t, f.good(t), now)
	accepted, answer, err := f.Accept(token)
	if err != nil {
		t.Fatal(err)
	}
	begun, err := i.Prove(answer)
	if err != nil {
		t.Fatal(err)
	}
	if got := accepted.Client.String(); got != "ann@R" {
		t.Error(got)
	}
	for _, way := range [][2]*Context{{accepted, begun}, {begun, accepted}} {
		wrapped, err := way[0].Wrap([]byte("payload"))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := way[1].Unwrap(wrapped); err != nil || string(got) != "payload" {
			t.Errorf("%q, %v", got, err)
		}
		if _, err := way[0].Unwrap(wrapped); err == nil {
			t.Error("a token comes back to its sender, and is taken")
		}
	}
}

// unasked makes the first token of a client that does not want the service to prove itself; change may spoil the
// authenticator.
func unasked(t testing.TB, ticket *Ticket, change func(*types.Authenticator)) []byte {
	t.Helper()
	auth := types.Authenticator{AVNO: 5, CRealm: ticket.Client.Realm, CName: ticket.Client.wire(), CTime: now.Truncate(time.Second), Cusec: 5, SeqNumber: 77,
		Cksum: types.Checksum{CksumType: gssChecksumType, Checksum: append([]byte{16, 0, 0, 0}, make([]byte, 20)...)}}
	change(&auth)
	req, err := messages.NewAPReq(ticket.Message, ticket.Key, auth)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := req.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return frameToken(tokenAPReq, raw)
}

// Without mutual authentication the key is the session's, and the acceptor's numbers begin where the client's do.
func TestAcceptUnasked(t *testing.T) {
	f := newFixture(t)
	ticket := f.good(t)
	c, answer, err := f.Accept(unasked(t, ticket, func(*types.Authenticator) {}))
	if err != nil || answer != nil {
		t.Fatal(answer, err)
	}
	token, err := c.Wrap([]byte{1})
	if err != nil || binary.BigEndian.Uint64(token[8:]) != 77 {
		t.Errorf("%x, %v", token, err)
	}
	if got, err := (&Context{key: ticket.Key}).Unwrap(token); err != nil || !bytes.Equal(got, []byte{1}) {
		t.Errorf("%x, %v", got, err)
	}
}

func TestAcceptRefuses(t *testing.T) {
	f := newFixture(t)
	plain := func(ticket *Ticket) []byte { _, token := request(t, ticket, now); return token }
	at := func(d time.Duration) []byte { _, token := request(t, f.good(t), now.Add(d)); return token }
	spoilt := func(change func(*types.Authenticator)) []byte { return unasked(t, f.good(t), change) }
	used := plain(f.good(t))
	if _, _, err := f.Accept(used); err != nil {
		t.Fatal(err)
	}
	otherKey := f.good(t)
	otherKey.Key = f.good(t).Key
	wrongVersion := f.good(t)
	wrongVersion.Message.EncPart.KVNO = 9
	changed := f.good(t)
	changed.Message.EncPart.Cipher = bytes.Clone(changed.Message.EncPart.Cipher)
	changed.Message.EncPart.Cipher[40] ^= 1
	for name, c := range map[string]struct {
		token []byte
		want  string
	}{
		"wrong service":        {plain(f.ticket(t, ann, Principal{[]string{"other", "a.example"}, "R"}, now, now.Add(time.Hour))), `it is for "other/a.example@R", not for kafka/a.example@R`},
		"wrong realm":          {plain(f.ticket(t, ann, Principal{service.Components, "Q"}, now, now.Add(time.Hour))), `it is for "kafka/a.example@Q"`},
		"expired":              {plain(f.ticket(t, ann, service, now.Add(-time.Hour), now.Add(-skew-2*time.Second))), "it has expired"},
		"not yet valid":        {plain(f.ticket(t, ann, service, now.Add(skew+2*time.Second), now.Add(time.Hour))), "it is not valid before"},
		"clock behind":         {at(-skew - time.Second), "the client's clock is -5m1"},
		"clock ahead":          {at(skew + time.Second), "the client's clock is 5m"},
		"replayed":             {used, errReplay.Error()},
		"another session key":  {plain(otherKey), "authenticator: the key does not fit"},
		"no such key":          {plain(wrongVersion), "the keytab has no key of version 9"},
		"changed ticket":       {plain(changed), "ticket: the key does not fit"},
		"another client":       {spoilt(func(a *types.Authenticator) { a.CName = types.PrincipalName{NameType: 1, NameString: []string{"bob"}} }), "another client's"},
		"another client realm": {spoilt(func(a *types.Authenticator) { a.CRealm = "Q" }), "another client's"},
		"no checksum":          {spoilt(func(a *types.Authenticator) { a.Cksum = types.Checksum{CksumType: 7, Checksum: make([]byte, 24)} }), "no checksum of GSS-API"},
		"short checksum":       {spoilt(func(a *types.Authenticator) { a.Cksum.Checksum = a.Cksum.Checksum[:23] }), "no checksum of GSS-API"},
		"weak subkey": {spoilt(func(a *types.Authenticator) {
			a.SubKey = types.EncryptionKey{KeyType: etypeID.RC4_HMAC, KeyValue: make([]byte, 16)}
		}), "is not taken"},
		"short subkey":   {spoilt(func(a *types.Authenticator) { a.SubKey = types.EncryptionKey{KeyType: 18, KeyValue: make([]byte, 5)} }), "has 5 bytes"},
		"ambiguous name": {plain(f.ticket(t, Principal{[]string{"a/b"}, "R"}, service, now, now.Add(time.Hour))), "is no name of a principal"},
		"nothing":        {nil, "no token of GSS-API"},
		"no framing":     {used[20:], "no token of GSS-API"},
		"another type":   {frameToken(tokenAPRep, []byte{1}), "a token of type 0x0200"},
		"empty":          {frameToken(tokenAPReq, nil), "cannot be decoded"},
		"AP-REQ without a name": {frameToken(tokenAPReq, mustMarshal(t, messages.APReq{PVNO: 5, MsgType: 14, APOptions: types.NewKrbFlags(), Ticket: messages.Ticket{TktVNO: 5, Realm: "R"},
			EncryptedAuthenticator: types.EncryptedData{EType: 18, Cipher: []byte{1}}})), "a kind that is not taken"},
	} {
		if _, _, err := f.Accept(c.token); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func mustMarshal(t testing.TB, req messages.APReq) []byte {
	raw, err := req.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// Each shorter token, and each with one bit changed, is refused without a panic.
func TestAcceptDamaged(t *testing.T) {
	f := newFixture(t)
	_, token := request(t, f.good(t), now)
	for n := range token {
		if _, _, err := f.Accept(token[:n]); err == nil {
			t.Errorf("%d of %d bytes are taken", n, len(token))
		}
		reframed := frameToken(tokenAPReq, token[min(17, n):n]) // the framing right, what is in it cut
		if _, _, err := f.Accept(reframed); err == nil {
			t.Errorf("%d of %d bytes in a frame are taken", n, len(token))
		}
	}
	for i := range token {
		changed := bytes.Clone(token)
		changed[i] ^= 1 << (i % 8)
		if c, _, err := f.Accept(changed); err == nil && c.Client.String() != "ann@R" {
			t.Errorf("byte %d changed: %v", i, c.Client)
		}
		f.Replays = NewReplays()
	}
}

// A ticket over other realms needs a KDC's word for the way.
func TestTransited(t *testing.T) {
	f := newFixture(t)
	far := f.ticket(t, Principal{[]string{"ann"}, "Q"}, service, now.Add(-time.Minute), now.Add(time.Hour))
	for _, c := range []struct {
		way     string
		checked bool
		want    string
	}{{"", false, ""}, {"X.EXAMPLE", true, ""}, {"X.EXAMPLE", false, "no KDC has checked the way"}} {
		plain, err := f.keys.open(far.Message.EncPart, keyusage.KDC_REP_TICKET)
		if err != nil {
			t.Fatal(err)
		}
		var part messages.EncTicketPart
		if err := part.Unmarshal(plain); err != nil {
			t.Fatal(err)
		}
		part.Transited.Contents = []byte(c.way)
		if c.checked {
			types.SetFlag(&part.Flags, ticketPolicyCheck)
		}
		raw, err := asn1.Marshal(part)
		if err != nil {
			t.Fatal(err)
		}
		key, version, err := f.keys.keytab.GetEncryptionKey(service.wire(), service.Realm, 0, etypeID.AES256_CTS_HMAC_SHA1_96)
		if err != nil {
			t.Fatal(err)
		}
		changed := *far
		if changed.Message.EncPart, err = crypto.GetEncryptedData(asn1tools.AddASNAppTag(raw, asnAppTag.EncTicketPart), key, keyusage.KDC_REP_TICKET, version); err != nil {
			t.Fatal(err)
		}
		_, token := request(t, &changed, now)
		_, _, err = f.Accept(token)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// The number of authenticators that are remembered is bounded, and they are for as long as they would be taken.
func TestReplays(t *testing.T) {
	r := NewReplays()
	r.max = 3
	use := func(name string, at time.Duration) error { return r.use([]byte(name), now.Add(at), 2*skew) }
	for _, step := range []struct {
		name string
		at   time.Duration
		want error
	}{
		{"a", 0, nil}, {"a", 0, errReplay}, {"b", time.Second, nil}, {"c", time.Second, nil}, {"d", time.Second, errManyLogins}, {"a", 2 * skew, errReplay},
		{"d", 2*skew + 1, nil}, {"d", 2*skew + 1, errReplay}, {"e", 2*skew + 1, errManyLogins},
	} {
		if err := use(step.name, step.at); err != step.want {
			t.Errorf("%+v: %v", step, err)
		}
	}
	if len(r.seen) != len(r.queue) {
		t.Error(len(r.seen), len(r.queue))
	}
}

func TestUnwrapRefuses(t *testing.T) {
	f := newFixture(t)
	key := f.good(t).Key
	sender, receiver := &Context{key: key}, &Context{key: key, accepts: true}
	good, err := sender.Wrap([]byte{1, 0, 0, 0})
	if err != nil {
		t.Fatal(err)
	}
	rotated := append(bytes.Clone(good[:16]), rotatedBack(good[16:], len(good)-16-5)...)
	binary.BigEndian.PutUint16(rotated[6:], 5)
	if got, err := receiver.Unwrap(rotated); err != nil || !bytes.Equal(got, []byte{1, 0, 0, 0}) {
		t.Errorf("rotated: %x, %v", got, err)
	}
	for n := range good {
		if _, err := receiver.Unwrap(good[:n]); err == nil {
			t.Errorf("%d of %d bytes are taken", n, len(good))
		}
	}
	for i := range good {
		changed := bytes.Clone(good)
		changed[i] ^= 0x10
		if _, err := receiver.Unwrap(changed); err == nil && i != 6 && i != 7 { // a rotation by all the bytes is none
			t.Errorf("byte %d changed, and taken", i)
		}
	}
	if _, err := (&Context{key: f.good(t).Key, accepts: true}).Unwrap(good); err == nil {
		t.Error("a token under another key is taken")
	}
	sealed := bytes.Clone(good)
	sealed[2] |= flagSealed
	if _, err := receiver.Unwrap(sealed); err == nil || !strings.Contains(err.Error(), "encrypted") {
		t.Error(err)
	}
}

// An answer to another request, and one under another key, prove nothing.
func TestProveRefuses(t *testing.T) {
	f := newFixture(t)
	ticket := f.good(t)
	i, _ := request(t, ticket, now)
	_, other := request(t, ticket, now.Add(time.Microsecond))
	_, answer, err := f.Accept(other)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := i.Prove(answer); err == nil || !strings.Contains(err.Error(), "the answer to another request") {
		t.Error(err)
	}
	j, token := request(t, f.good(t), now)
	_, answer, err = f.Accept(token)
	if err != nil {
		t.Fatal(err)
	}
	j.session = ticket.Key
	if _, err := j.Prove(answer); err == nil || !strings.Contains(err.Error(), "the key does not fit") {
		t.Error(err)
	}
	for n := range answer {
		if _, err := i.Prove(answer[:n]); err == nil {
			t.Error(n)
		}
	}
}
