//go:build race

package protocol

// poison overwrites a buffer that went back to its pool, so that tests under the race detector find whoever still reads
// it.
func poison(b []byte) {
	for i := range b[:min(len(b), smallClassBytes)] {
		b[i] = 0xDB
	}
}
