package batch

import (
	"bytes"
	"fmt"
	"sync"
	"testing"
)

func text() []byte {
	var b []byte
	for i := range 4000 {
		b = fmt.Appendf(b, "line %d of a text in which much, but not all, repeats: %x\n", i, i*i)
	}
	return b
}

// TestLevels: every level of Kafka's ranges works, those beyond are taken for the nearest, and the best is better
// than the fastest.
func TestLevels(t *testing.T) {
	records := text()
	for _, c := range []struct {
		codec         Codec
		fastest, best int
		levels        []int
	}{
		{Gzip, 1, 9, []int{-1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 99, -99}},
		{Lz4, 9, 17, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 17, 99, -99}},
		{Zstd, 1, 22, []int{-131072, -5, 0, 1, 3, 6, 9, 15, 19, 22, 99}},
	} {
		sizes := map[int]int{}
		for _, level := range c.levels {
			compressed, err := appendCompressed([]byte("before"), Compression{c.codec, level}, records)
			if err != nil {
				t.Fatalf("%s level %d: %v", c.codec.name(), level, err)
			}
			payload, kept := bytes.CutPrefix(compressed, []byte("before"))
			if got, err := decompress(c.codec, payload); !kept || err != nil || !bytes.Equal(got, records) {
				t.Errorf("%s level %d: what came back differs: %v", c.codec.name(), level, err)
			}
			sizes[level] = len(payload)
		}
		if sizes[c.best] >= sizes[c.fastest] {
			t.Errorf("%s: %d bytes at level %d, %d at %d", c.codec.name(), sizes[c.best], c.best, sizes[c.fastest], c.fastest)
		}
	}
}

// TestCodecsConcurrently: pooled encoders and decoders are not shared by two users at once.
func TestCodecsConcurrently(t *testing.T) {
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			records := bytes.Repeat([]byte{byte('a' + worker), 'x', byte(worker)}, 20_000)
			for i := range 10 {
				codec := allCodecs[1+(worker+i)%4]
				compressed, err := appendCompressed(nil, Compression{Codec: codec}, records)
				if err != nil {
					t.Errorf("%s: %v", codec.name(), err)
					return
				}
				if got, err := decompress(codec, compressed); err != nil || !bytes.Equal(got, records) {
					t.Errorf("%s: what came back differs: %v", codec.name(), err)
				}
			}
		})
	}
	wg.Wait()
}
