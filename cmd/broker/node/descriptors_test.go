package node

import "testing"

func TestDescriptorsAreShared(t *testing.T) {
	for _, limit := range []uint64{1, 20, 64, 200, 1024, 20_000, 1 << 20, 1<<64 - 1} {
		d := shareDescriptors(limit)
		if d.files < 1 || d.connections < 1 || d.files > maxOpenFiles {
			t.Errorf("%d: %+v", limit, d)
		}
		if limit >= 64 && uint64(d.files+d.connections) > limit-minSpareDescriptors/2 {
			t.Errorf("%d: %+v leaves too few", limit, d)
		}
	}
	if d := shareDescriptors(20_000); d.files != maxOpenFiles || d.connections < 15_000 {
		t.Errorf("%+v", d)
	}
}
