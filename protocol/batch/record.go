package batch

// recordView is a record in place. tail is everything after the offset delta: key, value and headers as encoded.
type recordView struct {
	timestampDelta int64
	offsetDelta    int32
	headerCount    int32
	keySize        int    // -1 is null
	valueSize      int    // -1 is null
	sizeBytes      int    // of the record, decompressed
	key, value     []byte // nil is null; nil, too, like headers and tail, of a large record that was skimmed
	headers        []byte // encoded, after their count
	tail           []byte
}

// parse reads body, checking every length against it, headers too. It does not allocate.
func (v *recordView) parse(body []byte) error {
	if len(body) == 0 {
		return errRecordSize
	}
	var at int
	if v.timestampDelta, at = readVarlong(body, 1); at < 0 { // byte 0 is attributes, of which none is used
		return varintError(at)
	}
	if v.offsetDelta, at = readVarint(body, at); at < 0 {
		return varintError(at)
	}
	v.tail = body[at:]
	var err error
	if v.key, at, err = readBytes(body, at); err != nil {
		return err
	}
	if v.value, at, err = readBytes(body, at); err != nil {
		return err
	}
	if v.headerCount, at = readVarint(body, at); at < 0 {
		return varintError(at)
	}
	v.keySize, v.valueSize = sizeOrNull(v.key), sizeOrNull(v.value)
	v.headers = body[at:]
	if v.headerCount == 0 && len(v.headers) == 0 {
		return nil
	}
	return v.checkHeaders()
}

func sizeOrNull(b []byte) int {
	if b == nil {
		return -1
	}
	return len(b)
}

func varintError(at int) error {
	if at == varintLong {
		return errVarint
	}
	return errRecordSize
}

// readBytes reads a length and that many bytes; a negative length is null.
func readBytes(body []byte, at int) (data []byte, next int, err error) {
	size, at := readVarint(body, at)
	switch {
	case at < 0:
		return nil, 0, varintError(at)
	case size < 0:
		return nil, at, nil
	case int(size) > len(body)-at:
		return nil, 0, errRecordSize
	}
	next = at + int(size)
	return body[at:next:next], next, nil
}

// checkHeaders walks the headers, which must fill the rest of the body exactly.
func (v *recordView) checkHeaders() error {
	if v.headerCount < 0 || int(v.headerCount) > len(v.headers) {
		return errHeaderCount
	}
	at := 0
	for range v.headerCount {
		_, _, next, err := readHeader(v.headers, at)
		if err != nil {
			return err
		}
		at = next
	}
	if at != len(v.headers) {
		return errRecordSize
	}
	return nil
}

func readHeader(headers []byte, at int) (key, value []byte, next int, err error) {
	if key, at, err = readBytes(headers, at); err != nil {
		return nil, nil, 0, err
	}
	if key == nil {
		return nil, nil, 0, errHeaderKey
	}
	value, next, err = readBytes(headers, at)
	return key, value, next, err
}

// appendHeaders decodes the headers of a parsed record to dst.
func (v *recordView) appendHeaders(dst []Header) []Header {
	at := 0
	for range v.headerCount {
		key, value, next, err := readHeader(v.headers, at)
		if err != nil {
			return dst // cannot be: parse has walked them
		}
		dst = append(dst, Header{Key: string(key), Value: value})
		at = next
	}
	return dst
}
