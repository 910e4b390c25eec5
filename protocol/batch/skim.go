package batch

// skim checks the records at the front of an uncompressed payload that are of the plainest kind, which nearly all are:
// timely, without headers, every integer of at most two bytes. It stops at the first that is not, leaving it and all
// errors to recordView, whose answers it never differs from: it only accepts, and only what recordView would.
//
// This loop is what a produce costs above its checksum, so it is written for speed.
func (c *recordCheck) skim(records []byte, count int32) (skimmed int32, at int) {
	p, baseMs, maxMs := c.policy, c.batch.BaseTimestamp(), c.maxMs
	for skimmed < count {
		size, pos := twoByteVarint(records, at)
		end := pos + int(size)
		if pos == 0 || size < 0 || end > len(records) {
			break
		}
		timestampDelta, pos := twoByteVarint(records, pos+1) // after the attributes
		if pos == 0 {
			break
		}
		if _, pos = twoByteVarint(records, pos); pos == 0 { // offset delta
			break
		}
		keySize, pos := twoByteVarint(records, pos)
		if pos == 0 || (p.Compacted && keySize < 0) {
			break
		}
		valueSize, pos := twoByteVarint(records, pos+int(max(keySize, 0)))
		if pos == 0 {
			break
		}
		if pos += int(max(valueSize, 0)); pos != end-1 || records[pos] != 0 { // one byte is left: no headers
			break
		}
		ms := baseMs + int64(timestampDelta)
		if p.Timestamp == CreateTime && ms != NoTimestamp && !p.timely(ms) {
			break
		}
		maxMs = max(maxMs, ms)
		skimmed, at = skimmed+1, end
	}
	c.maxMs = maxMs
	return skimmed, at
}

// twoByteVarint reads a value of one or two bytes; next is 0 when it is longer, or too near the end to tell.
func twoByteVarint(b []byte, at int) (v int32, next int) {
	if uint(at+1) >= uint(len(b)) {
		return 0, 0
	}
	u := int32(b[at])
	next = at + 1
	if u >= 0x80 {
		u = u&0x7f | int32(b[next])<<7
		next++
		if u >= 1<<14 {
			return 0, 0
		}
	}
	return u>>1 ^ -(u & 1), next
}
