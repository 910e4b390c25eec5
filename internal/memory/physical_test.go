package memory

import "testing"

func TestPhysicalBytes(t *testing.T) {
	n, ok := PhysicalBytes()
	if !ok || n < 64<<20 || n > 1<<46 {
		t.Fatalf("the machine has %d bytes of memory (%v)", n, ok)
	}
}
