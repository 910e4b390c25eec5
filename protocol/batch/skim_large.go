package batch

// largeRecord passes over a record that is larger than the window: it reads what lies between key, value and headers
// and lets their contents go by. After the first error the rest is a no-op.
type largeRecord struct {
	r    *recordReader
	left int // bytes of the record
	err  error
}

// skimLarge parses a record of that size but for its contents, with the answers of recordView.parse.
func (r *recordReader) skimLarge(size int, v *recordView) error {
	l := largeRecord{r: r, left: size}
	l.discard(1) // attributes
	*v = recordView{timestampDelta: l.varlong(), offsetDelta: l.varint()}
	v.keySize = l.sized()
	v.valueSize = l.sized()
	v.headerCount = l.varint()
	if l.err == nil && (v.headerCount < 0 || int(v.headerCount) > l.left) {
		l.fail(errHeaderCount)
	}
	for i := int32(0); i < v.headerCount && l.err == nil; i++ {
		if l.sized() < 0 {
			l.fail(errHeaderKey)
		}
		l.sized()
	}
	if l.left != 0 {
		l.fail(errRecordSize)
	}
	return l.err
}

func (l *largeRecord) fail(err error) {
	if l.err == nil {
		l.err, l.left = err, 0
	}
}

// sized passes over a length and that many bytes; -1 is null.
func (l *largeRecord) sized() int {
	size := int(l.varint())
	if size < 0 {
		return -1
	}
	l.discard(size)
	return size
}

// discard passes over n bytes of the record.
func (l *largeRecord) discard(n int) {
	if n > l.left {
		l.fail(errRecordSize)
	}
	for l.err == nil && n > 0 {
		have := min(n, len(l.r.buf)-l.r.pos)
		l.r.pos += have
		l.left -= have
		if n -= have; n > 0 {
			if err := l.r.fill(); err != nil {
				l.fail(err)
			}
		}
	}
}

func (l *largeRecord) varint() int32 {
	for l.err == nil {
		v, next := readVarint(l.window(), 0)
		if l.advance(next) {
			return v
		}
	}
	return 0
}

func (l *largeRecord) varlong() int64 {
	for l.err == nil {
		v, next := readVarlong(l.window(), 0)
		if l.advance(next) {
			return v
		}
	}
	return 0
}

// window is what is there of the record.
func (l *largeRecord) window() []byte {
	return l.r.buf[l.r.pos:min(l.r.pos+l.left, len(l.r.buf))]
}

// advance passes over an integer that was read up to next; false when more bytes are needed, or it was no integer.
func (l *largeRecord) advance(next int) bool {
	switch {
	case next >= 0:
		l.r.pos += next
		l.left -= next
		return true
	case next == varintLong:
		l.fail(errVarint)
	case len(l.window()) == l.left:
		l.fail(errRecordSize)
	default:
		if err := l.r.fill(); err != nil {
			l.fail(err)
		}
	}
	return false
}
