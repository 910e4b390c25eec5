package kerberos

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
)

// Types of tokens of the mechanism (RFC 4121, 4.1).
const (
	tokenAPReq = 0x0100
	tokenAPRep = 0x0200
	tokenError = 0x0300
)

// mechanismOID is Kerberos 5's object identifier, 1.2.840.113554.1.2.2, in DER.
var mechanismOID = []byte{6, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x12, 1, 2, 2}

const (
	applicationTag = 0x60 // of the framing of RFC 2743, 3.1
	maxTokenBytes  = 1 << 20
)

// frameToken puts the framing of GSS-API around a token of Kerberos.
func frameToken(kind uint16, inner []byte) []byte {
	body := len(mechanismOID) + 2 + len(inner)
	out := append([]byte{applicationTag}, derLength(body)...)
	out = append(out, mechanismOID...)
	return append(binary.BigEndian.AppendUint16(out, kind), inner...)
}

func derLength(n int) []byte {
	if n < 0x80 {
		return []byte{byte(n)}
	}
	raw := bytes.TrimLeft(binary.BigEndian.AppendUint32(nil, uint32(n)), "\x00")
	return append([]byte{0x80 | byte(len(raw))}, raw...)
}

// unframeToken takes the framing off, and wants a token of that kind.
func unframeToken(token []byte, kind uint16) ([]byte, error) {
	switch {
	case len(token) > maxTokenBytes:
		return nil, fmt.Errorf("the token is longer than %d bytes", maxTokenBytes)
	case len(token) < 2 || token[0] != applicationTag:
		return nil, errors.New("no token of GSS-API")
	}
	body, err := derBody(token[1:])
	if err != nil {
		return nil, err
	}
	rest, ok := bytes.CutPrefix(body, mechanismOID)
	if !ok {
		return nil, errors.New("the mechanism of the token is not Kerberos 5")
	}
	if len(rest) < 2 {
		return nil, errors.New("the token ends before its type")
	}
	if got := binary.BigEndian.Uint16(rest); got != kind {
		return nil, fmt.Errorf("a token of type %#04x where %#04x is due", got, kind)
	}
	return rest[2:], nil
}

// derBody is what follows a length in DER, which must be all that there is.
func derBody(b []byte) ([]byte, error) {
	errLength := errors.New("the length of the token is not that of its bytes")
	n, head := int(b[0]), 1
	if n >= 0x80 {
		digits := n & 0x7f
		if digits == 0 || digits > 4 || len(b) < 1+digits {
			return nil, errLength
		}
		n, head = 0, 1+digits
		for _, c := range b[1:head] {
			n = n<<8 | int(c)
		}
		if !bytes.Equal(b[:head], derLength(n)) {
			return nil, errLength
		}
	}
	if n != len(b)-head {
		return nil, errLength
	}
	return b[head:], nil
}
