package protocol

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// One link per node however many call at once, and none after Close.
func TestLinksAreSharedAndEnd(t *testing.T) {
	l := NewLinks(func(id int32) (string, bool) { return "", false }, ClientOptions{})
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			if _, err := l.Call(context.Background(), int32(i%2), kmsg.NewPtrApiVersionsRequest()); !errors.Is(err, ErrNoAddress) {
				t.Errorf("no address: %v", err)
			}
		})
	}
	wg.Wait()
	if len(l.byID) != 2 {
		t.Errorf("%d links to two nodes", len(l.byID))
	}
	first := l.byID[0]
	l.Close()
	for id := range int32(3) {
		if _, err := l.Call(context.Background(), id, kmsg.NewPtrApiVersionsRequest()); !errors.Is(err, ErrLinkClosed) {
			t.Errorf("node %d after Close: %v", id, err)
		}
	}
	if _, err := first.Call(context.Background(), kmsg.NewPtrApiVersionsRequest()); !errors.Is(err, ErrLinkClosed) {
		t.Errorf("a link after Close: %v", err)
	}
}
