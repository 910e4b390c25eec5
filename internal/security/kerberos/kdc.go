package kerberos

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"time"

	"github.com/jcmturner/gokrb5/v8/credentials"
	"github.com/jcmturner/gokrb5/v8/crypto"
	"github.com/jcmturner/gokrb5/v8/iana/errorcode"
	"github.com/jcmturner/gokrb5/v8/iana/keyusage"
	"github.com/jcmturner/gokrb5/v8/iana/nametype"
	"github.com/jcmturner/gokrb5/v8/iana/patype"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/types"

	"grete/internal/clock"
)

const (
	// kdcTimeout is how long one KDC may take, before the next is asked; maxReplyBytes bounds its answer.
	kdcTimeout    = 5 * time.Second
	maxReplyBytes = 1 << 20
	// maxReferrals bounds the realms on the way to a service.
	maxReferrals = 5
	// grantingService is the name of a KDC's service, whose host is a realm.
	grantingService = "krbtgt"
)

// Refusal is the error of a KDC that does not want to give a ticket. Other errors are of the network.
type Refusal struct {
	text string
	code int32
}

func (r *Refusal) Error() string { return r.text }

// KDC asks the servers of realms, by TCP.
type KDC struct {
	Conf  *Conf
	Dial  func(ctx context.Context, address string) (net.Conn, error)
	Clock clock.Clock
}

// granting is a ticket for tickets.
type granting struct {
	ticket messages.Ticket
	key    types.EncryptionKey
	ends   time.Time
}

// exchange sends a message to the first server of a realm that answers. A message of error is a *messages.KRBError.
func (k *KDC) exchange(ctx context.Context, realm string, message []byte) ([]byte, error) {
	_, servers, err := k.Conf.file.GetKDCs(realm, true)
	if err != nil {
		return nil, err
	}
	var errs []error
	for i := 1; i <= len(servers); i++ {
		reply, err := k.ask(ctx, servers[i], message)
		if err != nil {
			errs = append(errs, fmt.Errorf("KDC %s: %w", servers[i], err))
			continue
		}
		var refused messages.KRBError
		if refused.Unmarshal(reply) == nil {
			return nil, &refused
		}
		return reply, nil
	}
	return nil, errors.Join(errs...)
}

func (k *KDC) ask(ctx context.Context, address string, message []byte) ([]byte, error) {
	ctx, cancel := clock.WithTimeout(ctx, k.Clock, kdcTimeout)
	defer cancel()
	c, err := k.Dial(ctx, address)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	if _, err := c.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(message))), message...)); err != nil {
		return nil, err
	}
	var length [4]byte
	if _, err := io.ReadFull(c, length[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(length[:])
	if n == 0 || n > maxReplyBytes {
		return nil, fmt.Errorf("an answer of %d bytes", n)
	}
	reply := make([]byte, n)
	_, err = io.ReadFull(c, reply)
	return reply, err
}

// refusal makes a KDC's message of error one that is worth reading.
func refusal(err error) error {
	if refused, ok := errors.AsType[*messages.KRBError](err); ok {
		return &Refusal{errorcode.Lookup(refused.ErrorCode), refused.ErrorCode}
	}
	return err
}

// logIn gets a principal's ticket for tickets by its keys (AS exchange).
func (k *KDC) logIn(ctx context.Context, keys *Keys) (g *granting, err error) {
	err = guarded(func() error {
		g, err = k.logInBy(ctx, keys)
		return err
	})
	return g, refusal(err)
}

func (k *KDC) logInBy(ctx context.Context, keys *Keys) (*granting, error) {
	p := keys.Principal
	req, err := messages.NewASReqForTGT(p.Realm, k.Conf.file, p.wire())
	if err != nil {
		return nil, err
	}
	req.ReqBody.EType = keys.usable().within(req.ReqBody.EType)
	reply, err := k.requestTGT(ctx, p.Realm, &req)
	if refused, ok := errors.AsType[*messages.KRBError](err); ok && refused.ErrorCode == errorcode.KDC_ERR_PREAUTH_REQUIRED {
		if err := keys.preauthenticate(&req, refused); err != nil {
			return nil, err
		}
		reply, err = k.requestTGT(ctx, p.Realm, &req)
	}
	if err != nil {
		return nil, err
	}
	var rep messages.ASRep
	if err := rep.Unmarshal(reply); err != nil {
		return nil, errors.New("the KDC's answer cannot be decoded")
	}
	if ok, err := rep.Verify(k.Conf.file, credentials.NewFromPrincipalName(p.wire(), p.Realm).WithKeytab(keys.keytab), req); !ok {
		return nil, &Refusal{text: fmt.Sprintf("the KDC's answer is not valid, or the keytab does not fit: %v", err)}
	}
	return newGranting(&rep.KDCRepFields), nil
}

func (k *KDC) requestTGT(ctx context.Context, realm string, req *messages.ASReq) ([]byte, error) {
	raw, err := req.Marshal()
	if err != nil {
		return nil, err
	}
	return k.exchange(ctx, realm, raw)
}

func newGranting(rep *messages.KDCRepFields) *granting {
	part := &rep.DecryptedEncPart
	return &granting{ticket: rep.Ticket, key: part.Key, ends: part.EndTime}
}

// usable are the types that the principal has keys of, the best first.
func (k *Keys) usable() Enctypes {
	var out Enctypes
	for _, t := range k.types {
		if _, _, err := k.keytab.GetEncryptionKey(k.Principal.wire(), k.Principal.Realm, 0, t); err == nil {
			out = append(out, t)
		}
	}
	return out
}

// preauthenticate adds the time under a key to a request, of the first type that the KDC names and we have.
func (k *Keys) preauthenticate(req *messages.ASReq, why *messages.KRBError) error {
	t := req.ReqBody.EType[0]
	var hints types.PADataSequence
	if hints.Unmarshal(why.EData) == nil {
		for _, h := range hints {
			if h.PADataType != patype.PA_ETYPE_INFO2 {
				continue
			}
			if infos, err := h.GetETypeInfo2(); err == nil {
				t = k.firstOf(infos, t)
			}
		}
	}
	key, version, err := k.keytab.GetEncryptionKey(k.Principal.wire(), k.Principal.Realm, 0, t)
	if err != nil {
		return err
	}
	now, err := types.GetPAEncTSEncAsnMarshalled()
	if err != nil {
		return err
	}
	sealed, err := crypto.GetEncryptedData(now, key, keyusage.AS_REQ_PA_ENC_TIMESTAMP, version)
	if err != nil {
		return err
	}
	raw, err := sealed.Marshal()
	req.PAData = append(req.PAData, types.PAData{PADataType: patype.PA_ENC_TIMESTAMP, PADataValue: raw})
	return err
}

func (k *Keys) firstOf(infos types.ETypeInfo2, otherwise int32) int32 {
	usable := k.usable()
	for _, info := range infos {
		if usable.check(info.EType) == nil {
			return info.EType
		}
	}
	return otherwise
}

// ticketFor gets a ticket for a service on a host (TGS exchange), over the realms that KDCs refer to.
func (k *KDC) ticketFor(ctx context.Context, client Principal, g *granting, service, host string) (t *Ticket, err error) {
	err = guarded(func() error {
		t, err = k.ticketBy(ctx, client, g, []string{service, host})
		return err
	})
	return t, refusal(err)
}

func (k *KDC) ticketBy(ctx context.Context, client Principal, g *granting, service []string) (*Ticket, error) {
	realm, want := client.Realm, service
	if of := k.Conf.file.ResolveRealm(service[1]); of != "" && of != realm { // domain_realm
		want = []string{grantingService, of}
	}
	for range maxReferrals {
		rep, err := k.requestTicket(ctx, client, g, realm, types.PrincipalName{NameType: nametype.KRB_NT_SRV_INST, NameString: want})
		if err != nil {
			return nil, err
		}
		part, name := &rep.DecryptedEncPart, rep.Ticket.SName.NameString
		switch {
		case !part.SName.Equal(rep.Ticket.SName):
			return nil, errors.New("the KDC gave a ticket for another service")
		case slices.Equal(name, service):
			return &Ticket{Client: client, Ends: part.EndTime, Message: rep.Ticket, Key: part.Key}, k.Conf.Enctypes().checkKey(part.Key)
		case len(name) != 2 || name[0] != grantingService:
			return nil, errors.New("the KDC gave a ticket for another service")
		}
		g, realm, want = newGranting(&rep.KDCRepFields), name[1], service
	}
	return nil, fmt.Errorf("more than %d realms refer to each other", maxReferrals)
}

func (k *KDC) requestTicket(ctx context.Context, client Principal, g *granting, realm string, service types.PrincipalName) (*messages.TGSRep, error) {
	req, err := messages.NewTGSReq(client.wire(), realm, k.Conf.file, g.ticket, g.key, service, false)
	if err != nil {
		return nil, err
	}
	raw, err := req.Marshal()
	if err != nil {
		return nil, err
	}
	reply, err := k.exchange(ctx, realm, raw)
	if err != nil {
		return nil, err
	}
	rep := &messages.TGSRep{}
	if err := rep.Unmarshal(reply); err != nil {
		return nil, errors.New("the KDC's answer cannot be decoded")
	}
	if err := rep.DecryptEncPart(g.key); err != nil {
		return nil, errors.New("the KDC's answer is not under our key")
	}
	if ok, err := rep.Verify(k.Conf.file, req); !ok {
		return nil, err
	}
	return rep, nil
}
