package handlers

import "testing"

func TestLookup(t *testing.T) {
	var l lookup[int]
	for i := range 100 {
		if at, seen := l.add(i * 3); seen || at != i {
			t.Fatalf("add(%d) = %d, %v at first sight", i*3, at, seen)
		}
		for j := range i + 1 {
			if at, seen := l.add(j * 3); !seen || at != j {
				t.Fatalf("add(%d) = %d, %v after %d keys", j*3, at, seen, i+1)
			}
		}
	}
	if _, seen := l.find(1); seen {
		t.Fatal("found what was not added")
	}
}
