package handlers

import (
	"context"
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/coordinator/txn"
	"grete/internal/clock"
)

// A broker that does not answer gathers a bounded number of markers; what comes beyond is refused at once, and when the
// broker is back it is taken again.
func TestWaitingMarkersAreBounded(t *testing.T) {
	asked, answer := make(chan struct{}), make(chan struct{})
	others := Others{Timeout: 1 << 40, Call: func(context.Context, int32, kmsg.Request) (kmsg.Response, error) {
		asked <- struct{}{}
		<-answer
		return kmsg.NewPtrWriteTxnMarkersResponse(), nil
	}}
	r := NewRemoteMarkers(clock.System, others)
	const each = 1000
	results := make(chan error, 2*maxWaitingMarkers/each)
	send := func() {
		r.send(7, &markerSend{partitions: make([]txn.Partition, each), done: func(errs []error) { results <- errs[each-1] }})
	}
	send()
	<-asked // the queue is empty again
	for range maxWaitingMarkers / each {
		send()
	}
	if len(results) > 0 {
		t.Fatal(<-results)
	}
	send()
	if err := <-results; !errors.Is(err, errMarkersFull) {
		t.Fatalf("one too many: %v", err)
	}
	close(answer)
	<-asked
	for range 1 + maxWaitingMarkers/each {
		if err := <-results; !errors.Is(err, errNoMarkerAnswer) {
			t.Fatal(err)
		}
	}
	send()
	<-asked
	if err := <-results; !errors.Is(err, errNoMarkerAnswer) {
		t.Fatal(err)
	}
	r.Close()
}
