package kerberos

import (
	"encoding/binary"
	"errors"

	"github.com/jcmturner/gokrb5/v8/crypto"
	"github.com/jcmturner/gokrb5/v8/iana/keyusage"
	"github.com/jcmturner/gokrb5/v8/types"
)

// Wrap tokens without encryption (RFC 4121, 4.2.6.2): a header, the payload and a checksum over both.
const (
	wrapHeaderBytes = 16
	wrapFiller      = 0xff

	flagFromAcceptor   = 1
	flagSealed         = 2
	flagAcceptorSubkey = 4
)

// Context is what two sides share once they know each other.
type Context struct {
	Client Principal

	key            types.EncryptionKey
	acceptorSubkey bool // key is one that the acceptor has chosen
	accepts        bool // this is the acceptor's side
	sequence       uint64
}

// usage is the use of the key by one side.
func usage(acceptor bool) uint32 {
	if acceptor {
		return keyusage.GSSAPI_ACCEPTOR_SEAL
	}
	return keyusage.GSSAPI_INITIATOR_SEAL
}

// flags are those of tokens of one side.
func (c *Context) flags(acceptor bool) (flags byte) {
	if acceptor {
		flags |= flagFromAcceptor
	}
	if c.acceptorSubkey {
		flags |= flagAcceptorSubkey
	}
	return flags
}

// Wrap makes the token of a payload.
func (c *Context) Wrap(payload []byte) ([]byte, error) {
	header := []byte{5, 4, c.flags(c.accepts), wrapFiller, 0, 0, 0, 0}
	header = binary.BigEndian.AppendUint64(header, c.sequence)
	c.sequence++
	sum, err := c.checksum(payload, header, c.accepts)
	if err != nil {
		return nil, err
	}
	binary.BigEndian.PutUint16(header[4:], uint16(len(sum)))
	return append(append(header, payload...), sum...), nil
}

// checksum is over the payload and the header, of which EC and RRC count as zero.
func (c *Context) checksum(payload, header []byte, acceptor bool) ([]byte, error) {
	t, err := crypto.GetEtype(c.key.KeyType)
	if err != nil {
		return nil, err
	}
	return t.GetChecksumHash(c.key.KeyValue, append(append([]byte{}, payload...), header...), usage(acceptor))
}

// Unwrap returns the payload of a token of the other side. A SASL exchange has one in each direction, so that
// sequence numbers say nothing.
func (c *Context) Unwrap(token []byte) ([]byte, error) {
	switch {
	case len(token) < wrapHeaderBytes:
		return nil, errors.New("the Wrap token is shorter than its header")
	case token[0] != 5 || token[1] != 4 || token[3] != wrapFiller:
		return nil, errors.New("no Wrap token")
	case token[2]&flagSealed != 0:
		return nil, errors.New("the Wrap token is encrypted")
	case token[2] != c.flags(!c.accepts):
		return nil, errors.New("the flags of the Wrap token are not those of the other side")
	}
	header := append([]byte{}, token[:wrapHeaderBytes]...)
	body := token[wrapHeaderBytes:]
	checksumBytes, rotation := int(binary.BigEndian.Uint16(header[4:])), int(binary.BigEndian.Uint16(header[6:]))
	if checksumBytes > len(body) {
		return nil, errors.New("the Wrap token is shorter than its checksum")
	}
	clear(header[4:8])
	body = rotatedBack(body, rotation)
	payload, sum := body[:len(body)-checksumBytes], body[len(body)-checksumBytes:]
	t, err := crypto.GetEtype(c.key.KeyType)
	if err != nil {
		return nil, err
	}
	if !t.VerifyChecksum(c.key.KeyValue, append(append([]byte{}, payload...), header...), sum, usage(!c.accepts)) {
		return nil, errors.New("the checksum of the Wrap token is wrong")
	}
	return payload, nil
}

// rotatedBack undoes a rotation to the right (RRC).
func rotatedBack(b []byte, by int) []byte {
	if len(b) == 0 || by%len(b) == 0 {
		return b
	}
	by %= len(b)
	return append(append([]byte{}, b[by:]...), b[:by]...)
}
