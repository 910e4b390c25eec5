package protocol

import (
	"math/bits"
	"sync"
)

// Pooled buffers come in classes of 2^k bytes up to smallClassBytes, and of 2^k + classSlackBytes above, so that a
// batch of a round size fits with its headers. Larger ones than maxPooledBytes are left to the garbage collector, which
// also bounds the pools: what two collections did not use is gone.
const (
	minClassBits    = 9
	maxClassBits    = 23
	smallClassBytes = 4 << 10
	classSlackBytes = 1 << 10
	maxPooledBytes  = 1<<maxClassBits + classSlackBytes
)

// buffer is a pooled byte slice; b has the class's whole length.
type buffer struct {
	b     []byte
	class int // index into bufferPools; -1 when not pooled
}

var bufferPools [maxClassBits - minClassBits + 1]sync.Pool

// classFor returns the smallest class that holds n bytes.
func classFor(n int) int {
	if n <= smallClassBytes {
		return max(bits.Len(uint(max(n, 1)-1))-minClassBits, 0)
	}
	return bits.Len(uint(max(n-classSlackBytes, smallClassBytes+1)-1)) - minClassBits
}

func classBytes(class int) int {
	n := 1 << (class + minClassBits)
	if n > smallClassBytes {
		n += classSlackBytes
	}
	return n
}

// getBuffer returns a buffer of at least n bytes.
func getBuffer(n int) *buffer {
	if n > maxPooledBytes {
		return &buffer{b: make([]byte, n), class: -1}
	}
	class := classFor(n)
	if b, ok := bufferPools[class].Get().(*buffer); ok {
		return b
	}
	return &buffer{b: make([]byte, classBytes(class)), class: class}
}

// put gives b back; nobody may use it afterwards. A nil buffer is allowed.
func (b *buffer) put() {
	if b == nil || b.class < 0 {
		return
	}
	poison(b.b)
	bufferPools[b.class].Put(b)
}

// adopt returns a buffer around bytes that grew out of b by append; b is given back when they no longer share memory.
func (b *buffer) adopt(grown []byte) (*buffer, []byte) {
	if cap(grown) == cap(b.b) {
		return b, grown
	}
	b.put()
	return &buffer{b: grown[:cap(grown)], class: -1}, grown
}
