package protocol

import (
	"encoding/binary"
	"unicode/utf8"
)

// rewriter copies a body that a scan has passed, and makes it what Kafka reads of it where decoding would read
// something else: strings that are not UTF-8, and known tagged fields that are not as long as they say.
type rewriter struct{ src, out []byte }

func rewriteRequest(s *requestSchema, version int16, body []byte) []byte {
	w := rewriter{src: body, out: make([]byte, 0, len(body)+len(body)/8)}
	w.structure(s.shape(version))
	return append(w.out, w.src...)
}

// copy takes n bytes over as they are.
func (w *rewriter) copy(n int) {
	w.out, w.src = append(w.out, w.src[:n]...), w.src[n:]
}

func (w *rewriter) structure(sh *shape) {
	for i := range sh.fields {
		w.value(&sh.fields[i], sh.flexible)
	}
	if sh.flexible {
		w.tagSection(sh.tags)
	}
}

func (w *rewriter) value(f *shapeField, flexible bool) {
	if !f.array {
		w.element(f, flexible)
		return
	}
	elem := *f
	elem.array, elem.nullable = false, false
	n := w.length(flexible, 4)
	w.putLength(n, flexible, 4)
	for range n {
		w.element(&elem, flexible)
	}
}

func (w *rewriter) element(f *shapeField, flexible bool) {
	switch f.kind {
	case kindFixed:
		w.copy(f.wire)
	case kindString:
		n := w.length(flexible, 2)
		text := w.src[:max(n, 0)]
		w.src = w.src[len(text):]
		if n >= 0 && !utf8.Valid(text) {
			text = javaText(text)
			n = len(text)
		}
		w.putLength(n, flexible, 2)
		w.out = append(w.out, text...)
	case kindBytes:
		n := w.length(flexible, 4)
		w.putLength(n, flexible, 4)
		w.copy(max(n, 0))
	case kindStruct:
		if f.nullable {
			absent := int8(w.src[0]) < 0
			w.copy(1)
			if absent {
				return
			}
		}
		w.structure(f.elem)
	}
}

// length reads what scanner.length reads.
func (w *rewriter) length(flexible bool, sizeBytes int) int {
	c := scanner{src: w.src}
	n := c.length(flexible, sizeBytes)
	w.src = c.src
	return n
}

func (w *rewriter) putLength(n int, flexible bool, sizeBytes int) {
	switch {
	case flexible:
		w.out = binary.AppendUvarint(w.out, uint64(n+1))
	case sizeBytes == 2:
		w.out = binary.BigEndian.AppendUint16(w.out, uint16(n))
	default:
		w.out = binary.BigEndian.AppendUint32(w.out, uint32(n))
	}
}

func (w *rewriter) tagSection(known []shapeField) {
	n := w.uvarint()
	w.out = binary.AppendUvarint(w.out, uint64(n))
	for range n {
		tag, size := w.uvarint(), w.uvarint()
		w.out = binary.AppendUvarint(w.out, uint64(tag))
		f := findTag(known, tag)
		if f == nil {
			w.out = binary.AppendUvarint(w.out, uint64(size))
			w.copy(int(size))
			continue
		}
		inner := rewriter{src: w.src}
		inner.value(f, true)
		w.src = inner.src
		w.out = binary.AppendUvarint(w.out, uint64(len(inner.out)))
		w.out = append(w.out, inner.out...)
	}
}

func (w *rewriter) uvarint() uint32 {
	c := scanner{src: w.src}
	v := c.uvarint()
	w.src = c.src
	return v
}

// javaText is text as Java decodes it: U+FFFD stands for each run of bytes that begins a character and does not end it,
// for each surrogate, and for each other byte that is out of place.
func javaText(text []byte) []byte {
	out := make([]byte, 0, len(text)+2*utf8.UTFMax)
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		if r == utf8.RuneError && size == 1 {
			size = malformedBytes(text)
		}
		out = utf8.AppendRune(out, r)
		text = text[size:]
	}
	return out
}

// malformedBytes is how many bytes at the front of text one U+FFFD stands for.
func malformedBytes(text []byte) int {
	lead := text[0]
	want, low, high := 1, byte(0x80), byte(0xbf) // bytes of the character, bounds of its second
	switch {
	case lead >= 0xc2 && lead <= 0xdf:
		want = 2
	case lead >= 0xe0 && lead <= 0xef:
		want = 3
		if lead == 0xe0 {
			low = 0xa0
		}
	case lead >= 0xf0 && lead <= 0xf4:
		want = 4
		if lead == 0xf0 {
			low = 0x90
		} else if lead == 0xf4 {
			high = 0x8f
		}
	}
	n := 1
	for ; n < min(want, len(text)) && text[n] >= low && text[n] <= high; n++ {
		low, high = 0x80, 0xbf
	}
	return n
}
