package uuid

import "testing"

func TestUUID(t *testing.T) {
	if got := (UUID{15: 1}).String(); got != "AAAAAAAAAAAAAAAAAAAAAQ" {
		t.Error(got)
	}
	sample := UUID{0: 0xff, 7: 0x80, 15: 3}
	if u, err := Parse(sample.String()); err != nil || u != sample {
		t.Error(u, err)
	}
	for _, bad := range []string{"", "AAAA", "AAAAAAAAAAAAAAAAAAAAA!", "AAAAAAAAAAAAAAAAAAAAAAAAAA"} {
		if _, err := Parse(bad); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
	fills := 0
	u := New(func(p []byte) {
		fills++
		for i := range p {
			p[i] = 0xfb - byte(fills) // the first fill, 0xfa…, starts with '-'… or not: the loop decides
		}
	})
	if u[6]>>4 != 4 || u[8]>>6 != 2 || u.Reserved() || u.String()[0] == '-' || fills < 2 {
		t.Errorf("%v after %d fills", u, fills)
	}
	if !(UUID{15: 99}).Reserved() || (UUID{15: 100}).Reserved() || (UUID{0: 1}).Reserved() {
		t.Error("the reserved ids are 0 to 99")
	}
}
