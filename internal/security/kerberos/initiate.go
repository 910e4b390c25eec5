package kerberos

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/jcmturner/gokrb5/v8/iana"
	"github.com/jcmturner/gokrb5/v8/iana/keyusage"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"
)

// Ticket is a service's ticket with what goes with it.
type Ticket struct {
	Client  Principal
	Ends    time.Time
	Message messages.Ticket
	Key     types.EncryptionKey // of the session
}

// Initiator is the client's side of one authentication. It wants the service to prove itself.
type Initiator struct {
	context Context
	auth    types.Authenticator
	session types.EncryptionKey
	types   Enctypes
}

// Begin makes the first token.
func (t *Ticket) Begin(now time.Time, random func(p []byte), allowed Enctypes) (*Initiator, []byte, error) {
	subkey := types.EncryptionKey{KeyType: t.Key.KeyType, KeyValue: make([]byte, len(t.Key.KeyValue))}
	random(subkey.KeyValue)
	var number [4]byte
	random(number[:])
	sequence := binary.BigEndian.Uint32(number[:]) >> 2 // some take it for a signed number
	checksum := make([]byte, gssChecksumBytes)
	binary.LittleEndian.PutUint32(checksum, gssBindingBytes)
	binary.LittleEndian.PutUint32(checksum[4+gssBindingBytes:], gssMutual|gssReplay|gssSequence|gssIntegrity)
	now = now.UTC()
	auth := types.Authenticator{
		AVNO: iana.PVNO, CRealm: t.Client.Realm, CName: t.Client.wire(), Cksum: types.Checksum{CksumType: gssChecksumType, Checksum: checksum},
		CTime: now.Truncate(time.Second), Cusec: now.Nanosecond() / int(time.Microsecond), SubKey: subkey, SeqNumber: int64(sequence),
	}
	req, err := messages.NewAPReq(t.Message, t.Key, auth)
	if err != nil {
		return nil, nil, err
	}
	types.SetFlag(&req.APOptions, apMutualRequired)
	raw, err := req.Marshal()
	if err != nil {
		return nil, nil, err
	}
	i := &Initiator{auth: auth, session: t.Key, types: allowed, context: Context{Client: t.Client, key: subkey, sequence: uint64(sequence)}}
	return i, frameToken(tokenAPReq, raw), nil
}

// Prove takes the service's answer, after which both sides know each other.
func (i *Initiator) Prove(token []byte) (*Context, error) {
	raw, err := unframeToken(token, tokenAPRep)
	if err != nil {
		return nil, err
	}
	if err := guarded(func() error { return i.prove(raw) }); err != nil {
		return nil, fmt.Errorf("AP-REP: %w", err)
	}
	return &i.context, nil
}

func (i *Initiator) prove(raw []byte) error {
	var rep messages.APRep
	if err := rep.Unmarshal(raw); err != nil {
		return errors.New("it cannot be decoded")
	}
	plain, err := decrypt(rep.EncPart, i.session, keyusage.AP_REP_ENCPART)
	if err != nil {
		return err
	}
	var part messages.EncAPRepPart
	if err := part.Unmarshal(plain); err != nil {
		return errors.New("its secret part cannot be decoded")
	}
	if !part.CTime.Equal(i.auth.CTime) || part.Cusec != i.auth.Cusec {
		return errors.New("it is the answer to another request")
	}
	if len(part.Subkey.KeyValue) == 0 {
		return nil
	}
	i.context.key, i.context.acceptorSubkey = part.Subkey, true
	return i.types.checkKey(part.Subkey)
}
