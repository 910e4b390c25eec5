package protocol

import (
	"encoding/binary"
	"errors"
	"math"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	lengthBytes    = 4
	minHeaderBytes = 2 + 2 + 4 // key, version, correlation id
	apiVersionsKey = 18
	// apiVersionsFlexible is the first version of ApiVersions with a flexible header, which unknown versions have too.
	apiVersionsFlexible = 3
)

// errHTTP is a frame length that is the start of an HTTP request line.
var errHTTP = errors.New("an HTTP request was sent to a Kafka listener")

// httpMethods are the frame lengths that HTTP clients would announce.
var httpMethods = func() map[uint32]bool {
	m := map[uint32]bool{}
	for _, method := range []string{"GET ", "POST", "PUT ", "HEAD", "DELE", "OPTI", "CONN", "TRAC", "PATC", "PRI "} {
		m[binary.BigEndian.Uint32([]byte(method))] = true
	}
	return m
}()

// frameLength reads and checks the length that begins a frame.
func frameLength(b []byte, maxBytes int) (int, error) {
	n := binary.BigEndian.Uint32(b)
	switch {
	case httpMethods[n]:
		return 0, errHTTP
	case int64(n) > int64(maxBytes): // negative lengths too
		return 0, ErrFrameTooLarge
	case n < minHeaderBytes:
		return 0, ErrMalformed
	}
	return int(n), nil
}

// tokenLength reads and checks the length that begins a token of SASL, which may be empty.
func tokenLength(b []byte, maxBytes int) (int, error) {
	n := binary.BigEndian.Uint32(b)
	if int64(n) > int64(maxBytes) {
		return 0, ErrFrameTooLarge
	}
	return int(n), nil
}

// header is a request header: version 1, or version 2 of flexible requests, which adds tags. The client id is never
// compact. (Version 0 was ControlledShutdown's alone, which Kafka 4 no longer has.)
type header struct {
	key, version  int16
	correlationID int32
}

// parseFixedHeader reads what all versions of the header share; frame has at least minHeaderBytes.
func parseFixedHeader(frame []byte) (h header, rest []byte) {
	h.key = int16(binary.BigEndian.Uint16(frame))
	h.version = int16(binary.BigEndian.Uint16(frame[2:]))
	h.correlationID = int32(binary.BigEndian.Uint32(frame[4:]))
	return h, frame[minHeaderBytes:]
}

// parseClientID reads a nullable string with a two-byte length. The string is a copy, except where it equals last,
// which is returned then: a connection says the same every time.
func parseClientID(b []byte, last *string) (id *string, rest []byte, err error) {
	if len(b) < 2 {
		return nil, nil, ErrMalformed
	}
	n := int(int16(binary.BigEndian.Uint16(b)))
	b = b[2:]
	if n < 0 {
		return nil, b, nil
	}
	if n > len(b) {
		return nil, nil, ErrMalformed
	}
	if last == nil || *last != string(b[:n]) {
		s := string(b[:n])
		last = &s
	}
	return last, b[n:], nil
}

// skipHeaderTags passes over the tags of a version 2 header.
func skipHeaderTags(b []byte) (rest []byte, err error) {
	c := scanner{src: b, limit: math.MaxInt} // nothing of them is kept
	c.tagSection(nil)
	return c.src, c.err
}

// appendResponseHeader reserves the length and appends the header: version 0, or version 1 (with tags, none) for
// flexible versions; ApiVersions always has version 0, as its client does not know yet what we speak.
func appendResponseHeader(dst []byte, key int16, correlationID int32, flexible bool) []byte {
	dst = append(dst, 0, 0, 0, 0)
	dst = binary.BigEndian.AppendUint32(dst, uint32(correlationID))
	if flexible && key != apiVersionsKey {
		dst = append(dst, 0)
	}
	return dst
}

// decodeBody scans and decodes a body; aliases says whether the result points into it.
func decodeBody(s *requestSchema, version int16, body []byte) (req kmsg.Request, aliases bool, err error) {
	scanned, err := scanRequest(s, version, body)
	if err != nil {
		return nil, false, err
	}
	req, err = decodeScanned(s, version, body, scanned)
	return req, scanned.aliases, err
}

// decodeScanned decodes a body that scanRequest has accepted.
func decodeScanned(s *requestSchema, version int16, body []byte, scanned scanned) (kmsg.Request, error) {
	if scanned.rewrite {
		body = rewriteRequest(s, version, body)
	}
	req := newRequest(s.key)
	req.SetVersion(version)
	if err := req.ReadFrom(body); err != nil {
		return nil, &RequestError{Key: s.key, Version: version, Err: errors.Join(ErrMalformed, err)}
	}
	return req, nil
}

// DecodeRequest decodes a body that came within another request, as bounded as one from a socket. What it returns may
// alias body.
func DecodeRequest(key, version int16, body []byte) (kmsg.Request, error) {
	schema := requestSchemas()[key]
	if schema == nil || !schema.versions.has(version) || version > newRequest(key).MaxVersion() {
		return nil, &RequestError{Key: key, Version: version, Err: ErrUnsupported}
	}
	req, _, err := decodeBody(schema, version, body)
	return req, err
}
