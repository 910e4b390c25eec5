package kerberos

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/jcmturner/gofork/encoding/asn1"
	"github.com/jcmturner/gokrb5/v8/asn1tools"
	"github.com/jcmturner/gokrb5/v8/crypto"
	"github.com/jcmturner/gokrb5/v8/iana"
	"github.com/jcmturner/gokrb5/v8/iana/asnAppTag"
	"github.com/jcmturner/gokrb5/v8/iana/keyusage"
	"github.com/jcmturner/gokrb5/v8/iana/msgtype"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"
)

// Acceptor is a service that clients have tickets for.
type Acceptor struct {
	Keys    func() *Keys
	Types   Enctypes
	Skew    time.Duration // how far a client's clock may be from ours
	Replays *Replays
	Now     func() time.Time
	Random  func(p []byte)
}

// Flags of a ticket and of a request (RFC 4120, 5.3, 5.5.1), by their bit.
const (
	apUseSessionKey   = 1
	apMutualRequired  = 2
	ticketInvalid     = 7
	ticketPolicyCheck = 12
)

// The checksum of an authenticator has flags of GSS-API (RFC 4121, 4.1.1).
const (
	gssChecksumType  = 0x8003
	gssChecksumBytes = 24
	gssBindingBytes  = 16

	gssMutual    = 2
	gssReplay    = 4
	gssSequence  = 8
	gssIntegrity = 32
)

// Accept takes a client's first token. answer is nil where the client does not ask that we prove ourselves.
func (a *Acceptor) Accept(token []byte) (c *Context, answer []byte, err error) {
	inner, err := unframeToken(token, tokenAPReq)
	if err != nil {
		return nil, nil, err
	}
	err = guarded(func() error {
		c, answer, err = a.accept(inner)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	return c, answer, nil
}

func (a *Acceptor) accept(raw []byte) (*Context, []byte, error) {
	var req messages.APReq
	if err := req.Unmarshal(raw); err != nil {
		return nil, nil, errors.New("the AP-REQ cannot be decoded")
	}
	if req.PVNO != iana.PVNO || req.APOptions.At(apUseSessionKey) != 0 || len(req.Ticket.SName.NameString) == 0 {
		return nil, nil, errors.New("an AP-REQ of a kind that is not taken")
	}
	ticket, err := a.openTicket(&req.Ticket)
	if err != nil {
		return nil, nil, fmt.Errorf("ticket: %w", err)
	}
	auth, err := a.openAuthenticator(&req, ticket)
	if err != nil {
		return nil, nil, fmt.Errorf("authenticator: %w", err)
	}
	c := &Context{Client: Principal{ticket.CName.NameString, ticket.CRealm}, key: ticket.Key, accepts: true, sequence: uint64(uint32(auth.SeqNumber))}
	if err := c.Client.check(); err != nil {
		return nil, nil, err
	}
	if len(auth.SubKey.KeyValue) > 0 {
		c.key = auth.SubKey
	}
	if binary.LittleEndian.Uint32(auth.Cksum.Checksum[4+gssBindingBytes:])&gssMutual == 0 {
		return c, nil, nil
	}
	answer, err := a.prove(c, auth, ticket.Key)
	return c, answer, err
}

// openTicket decrypts a ticket and says whether it is good now, for this service.
func (a *Acceptor) openTicket(t *messages.Ticket) (*messages.EncTicketPart, error) {
	keys, now := a.Keys(), a.Now()
	if !keys.Principal.is(t.SName, t.Realm) {
		return nil, fmt.Errorf("it is for %.128q, not for %s", Principal{t.SName.NameString, t.Realm}.String(), keys.Principal)
	}
	plain, err := keys.open(t.EncPart, keyusage.KDC_REP_TICKET)
	if err != nil {
		return nil, err
	}
	part := &messages.EncTicketPart{}
	if err := part.Unmarshal(plain); err != nil {
		return nil, errors.New("its secret part cannot be decoded")
	}
	start := part.StartTime
	if start.IsZero() {
		start = part.AuthTime
	}
	switch {
	case part.Flags.At(ticketInvalid) != 0:
		return nil, errors.New("it is marked invalid")
	case start.After(now.Add(a.Skew)):
		return nil, fmt.Errorf("it is not valid before %v", start)
	case now.After(part.EndTime.Add(a.Skew)):
		return nil, fmt.Errorf("it has expired at %v", part.EndTime)
	case part.CRealm != t.Realm && len(part.Transited.Contents) > 0 && part.Flags.At(ticketPolicyCheck) == 0:
		return nil, errors.New("its client comes over other realms, and no KDC has checked the way")
	}
	return part, a.Types.checkKey(part.Key)
}

// openAuthenticator decrypts what proves that the client has the ticket's key, now and not before.
func (a *Acceptor) openAuthenticator(req *messages.APReq, ticket *messages.EncTicketPart) (*types.Authenticator, error) {
	plain, err := decrypt(req.EncryptedAuthenticator, ticket.Key, keyusage.AP_REQ_AUTHENTICATOR)
	if err != nil {
		return nil, err
	}
	auth, now := &types.Authenticator{}, a.Now()
	if err := auth.Unmarshal(plain); err != nil {
		return nil, errors.New("it cannot be decoded")
	}
	at := auth.CTime.Add(time.Duration(auth.Cusec) * time.Microsecond)
	sum := auth.Cksum
	switch {
	case !auth.CName.Equal(ticket.CName) || auth.CRealm != ticket.CRealm:
		return nil, errors.New("it is another client's than the ticket")
	case at.Sub(now).Abs() > a.Skew:
		return nil, fmt.Errorf("the client's clock is %v from ours", at.Sub(now))
	case sum.CksumType != gssChecksumType || len(sum.Checksum) < gssChecksumBytes || binary.LittleEndian.Uint32(sum.Checksum) != gssBindingBytes:
		return nil, errors.New("it has no checksum of GSS-API")
	}
	if len(auth.SubKey.KeyValue) > 0 {
		if err := a.Types.checkKey(auth.SubKey); err != nil {
			return nil, err
		}
	}
	return auth, a.Replays.use(req.EncryptedAuthenticator.Cipher, now, 2*a.Skew)
}

// prove makes the AP-REP: the client's time, which only the service can have read. It brings a key of our choice, so
// that what the client sends next is worth nothing in another exchange.
func (a *Acceptor) prove(c *Context, auth *types.Authenticator, session types.EncryptionKey) ([]byte, error) {
	subkey := types.EncryptionKey{KeyType: session.KeyType, KeyValue: make([]byte, len(session.KeyValue))}
	a.Random(subkey.KeyValue)
	var number [4]byte
	a.Random(number[:])
	c.sequence = uint64(binary.BigEndian.Uint32(number[:]) >> 2) // some take it for a signed number
	part := messages.EncAPRepPart{CTime: auth.CTime, Cusec: auth.Cusec, Subkey: subkey, SequenceNumber: int64(c.sequence)}
	plain, err := asn1.Marshal(part)
	if err != nil {
		return nil, err
	}
	sealed, err := crypto.GetEncryptedData(asn1tools.AddASNAppTag(plain, asnAppTag.EncAPRepPart), session, keyusage.AP_REP_ENCPART, 0)
	if err != nil {
		return nil, err
	}
	rep, err := asn1.Marshal(messages.APRep{PVNO: iana.PVNO, MsgType: msgtype.KRB_AP_REP, EncPart: sealed})
	if err != nil {
		return nil, err
	}
	c.key, c.acceptorSubkey = subkey, true
	return frameToken(tokenAPRep, asn1tools.AddASNAppTag(rep, asnAppTag.APREP)), nil
}
