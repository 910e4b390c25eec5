package protocol

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"unicode/utf8"
)

// Decoding bounds. kmsg allocates an array before it has seen its elements, so a body is walked by its schema first
// and refused when its decoded form would take more than decodeFactor times its own size and decodeSlackBytes.
const (
	decodeFactor     = 6
	decodeSlackBytes = 64 << 10
	// maxTags is how many tagged fields Kafka accepts in one section.
	maxTags = 10_000
	// An unknown tag costs tagDecodedBytes in kmsg's map of them, and the map itself tagMapBytes.
	tagDecodedBytes = 96
	tagMapBytes     = 320
)

var (
	// ErrMalformed means bytes that are not the message they claim to be.
	ErrMalformed = errors.New("malformed message")
	// ErrTooLarge means a request whose decoded form would be out of proportion to its bytes.
	ErrTooLarge = errors.New("request decodes to too much memory")
	// ErrFrameTooLarge means a frame length over socket.request.max.bytes.
	ErrFrameTooLarge = errors.New("frame length over socket.request.max.bytes")
	// ErrUnsupported means a key or version that is not served.
	ErrUnsupported = errors.New("unsupported api key or version")
)

// RequestError says which request was refused; it wraps one of the sentinels.
type RequestError struct {
	Key, Version int16
	Field        string // where the body went wrong, if known
	Err          error
}

func (e *RequestError) Error() string {
	if e.Field == "" {
		return fmt.Sprintf("api key %d version %d: %v", e.Key, e.Version, e.Err)
	}
	return fmt.Sprintf("api key %d version %d, field %s: %v", e.Key, e.Version, e.Field, e.Err)
}

func (e *RequestError) Unwrap() error { return e.Err }

// scanner walks a body. After the first error src is empty and everything else is a no-op.
type scanner struct {
	src     []byte
	decoded int // estimate of the decoded form so far
	limit   int
	aliases bool // the decoded form will point into src
	rewrite bool // Kafka reads something else of src than is decoded: rewriteRequest
	field   string
	err     error
}

// scanned is what a scan has found: an estimate of the decoded form, whether that will point into the body, and whether
// Kafka reads something else of the body than would be decoded (rewriteRequest).
type scanned struct {
	decodedBytes     int
	aliases, rewrite bool
}

// rewrittenFactor times its body is what a rewritten one takes at most: of each byte that is out of place come three.
const rewrittenFactor = 3

// scanRequest checks that body holds a request of that schema at that version whose decoded form is in proportion.
// Trailing bytes are accepted, as by Kafka.
func scanRequest(s *requestSchema, version int16, body []byte) (scanned, error) {
	sh := s.shape(version)
	c := scanner{src: body, limit: decodeFactor*len(body) + decodeSlackBytes}
	c.structure(sh)
	if c.err != nil {
		return scanned{}, &RequestError{Key: s.key, Version: version, Field: c.field, Err: c.err}
	}
	if c.rewrite {
		c.decoded += rewrittenFactor * len(body)
	}
	return scanned{c.decoded, c.aliases, c.rewrite}, nil
}

func (c *scanner) fail(err error) {
	if c.err == nil {
		c.err, c.src = err, nil
	}
}

func (c *scanner) skip(n int) {
	if n < 0 || n > len(c.src) {
		c.fail(ErrMalformed)
		return
	}
	c.src = c.src[n:]
}

// grow adds n elements of size bytes to the estimate.
func (c *scanner) grow(n, sizeBytes int) {
	c.decoded += n * sizeBytes
	if c.decoded > c.limit {
		c.fail(ErrTooLarge)
	}
}

func (c *scanner) structure(sh *shape) {
	for i := range sh.fields {
		if c.value(&sh.fields[i], sh.flexible); c.err != nil {
			return
		}
	}
	if sh.flexible {
		c.tagSection(sh.tags)
	}
}

func (c *scanner) value(f *shapeField, flexible bool) {
	switch {
	case f.array:
		c.array(f, flexible)
	case f.kind == kindFixed:
		c.skip(f.wire)
	default:
		c.element(f, flexible)
	}
	if c.err != nil && c.field == "" {
		c.field = f.name
	}
}

func (c *scanner) array(f *shapeField, flexible bool) {
	n := c.length(flexible, 4)
	if n < 0 {
		c.null(f)
		return
	}
	if n > len(c.src) { // every element has at least one byte
		c.fail(ErrMalformed)
		return
	}
	c.grow(n, f.decoded)
	if wire := f.fixedWire(); wire > 0 {
		c.skip(n * wire)
		return
	}
	elem := *f
	elem.array, elem.nullable = false, false
	for ; n > 0 && c.err == nil; n-- {
		c.element(&elem, flexible)
	}
}

// element walks one string, byte string or struct; the struct's own size is counted by who allocates it.
func (c *scanner) element(f *shapeField, flexible bool) {
	switch f.kind {
	case kindString:
		n := c.length(flexible, 2)
		if n > math.MaxInt16 {
			c.fail(ErrMalformed)
		} else if n < 0 {
			c.null(f)
		} else {
			c.grow(1, n+stringHeaderBytes*boolInt(f.nullable))
			c.rewrite = c.rewrite || n <= len(c.src) && !utf8.Valid(c.src[:n])
			c.skip(n)
		}
	case kindBytes:
		n := c.length(flexible, 4)
		if n < 0 {
			c.null(f)
			return
		}
		c.aliases = c.aliases || n > 0
		c.skip(n)
	case kindStruct:
		if f.nullable && c.marker() < 0 {
			return
		}
		c.structure(f.elem)
	}
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// null accepts an absent value where the schema does; elements of arrays are never null.
func (c *scanner) null(f *shapeField) {
	if !f.nullable {
		c.fail(ErrMalformed)
	}
}

// marker reads the byte before a nullable struct, -1 for an absent one.
func (c *scanner) marker() int8 {
	if len(c.src) == 0 {
		c.fail(ErrMalformed)
		return -1
	}
	m := int8(c.src[0])
	c.src = c.src[1:]
	return m
}

// length reads a length of sizeBytes, or a compact one; negative means null.
func (c *scanner) length(flexible bool, sizeBytes int) int {
	if flexible {
		return int(int32(c.uvarint())) - 1
	}
	if len(c.src) < sizeBytes {
		c.fail(ErrMalformed)
		return 0
	}
	var n int
	if sizeBytes == 2 {
		n = int(int16(binary.BigEndian.Uint16(c.src)))
	} else {
		n = int(int32(binary.BigEndian.Uint32(c.src)))
	}
	c.src = c.src[sizeBytes:]
	return n
}

// uvarint reads an unsigned varint of at most five bytes (ByteUtils.readUnsignedVarint). After an error it returns 1,
// as a length: empty.
func (c *scanner) uvarint() uint32 {
	if len(c.src) > 0 && c.src[0] < 0x80 {
		v := c.src[0]
		c.src = c.src[1:]
		return uint32(v)
	}
	v, n := binary.Uvarint(c.src)
	if n <= 0 || n > 5 {
		c.fail(ErrMalformed)
		return 1
	}
	c.src = c.src[n:]
	return uint32(v)
}

// tagSection walks tagged fields. They may repeat and need no order, as with Kafka. A known one need not be as long as
// it says.
func (c *scanner) tagSection(known []shapeField) {
	n := c.uvarint()
	if n > maxTags {
		c.fail(ErrMalformed)
	}
	for unknown := false; n > 0 && c.err == nil; n-- {
		tag, size := c.uvarint(), int(c.uvarint())
		if f := findTag(known, tag); f != nil && c.err == nil {
			before := len(c.src)
			c.value(f, true)
			c.rewrite = c.rewrite || before-len(c.src) != size
			continue
		}
		if size > len(c.src) || c.err != nil {
			c.fail(ErrMalformed)
			return
		}
		if !unknown {
			unknown = true
			c.grow(1, tagMapBytes)
		}
		c.aliases = true
		c.grow(1, tagDecodedBytes)
		c.skip(size)
	}
}

func findTag(known []shapeField, tag uint32) *shapeField {
	for i := range known {
		if known[i].tag == tag {
			return &known[i]
		}
	}
	return nil
}
