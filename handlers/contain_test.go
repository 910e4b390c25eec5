package handlers

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/protocol"
)

// lockedBuffer is written by the server while the test reads it.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// A handler that fails costs its connection, not the broker.
func TestFailedHandlerClosesItsConnection(t *testing.T) {
	const listTransactions = 66
	was := clientAPIs.rows[listTransactions]
	failing := *was
	failing.Handle = func(*Broker, context.Context, *protocol.Request) {
		var missing *kmsg.MetadataResponse
		_ = missing.Topics[0]
	}
	var log lockedBuffer
	r := newRig(t, withBroker(func(b *Broker) { b.Log = zerolog.New(&log) }))
	clientAPIs.rows[listTransactions] = &failing
	defer func() { clientAPIs.rows[listTransactions] = was }()
	other := r.dial()
	w := r.dial()
	w.send(kmsg.NewPtrListTransactionsRequest())
	w.expectClose()
	metadata := kmsg.NewPtrMetadataRequest()
	other.receive(metadata, other.send(metadata))
	if text := log.String(); !strings.Contains(text, "TestFailedHandlerClosesItsConnection") || !strings.Contains(text, "nil pointer") {
		t.Errorf("the log has no stack: %s", text)
	}
}

// What keeps state across requests is not trusted after a panic.
func TestOnlyARequestsOwnPanicIsContained(t *testing.T) {
	for name, want := range map[string]bool{
		"grete/handlers.Fetch": true, "grete/handlers.(*fetch).read": true, "grete/protocol.(*Conn).serve": true,
		"grete/protocol/batch.Validate": true, "github.com/twmb/franz-go/pkg/kmsg.(*FetchRequest).ReadFrom": true, "runtime.gopanic": true,
		"grete/cluster/replica.(*Partition).Produce": false, "grete/logstore.(*Log).Append": false,
		"grete/coordinator/group.(*Service).Join": false, "grete/cluster/controller.(*Node).Do": false,
	} {
		if got := ofRequestAlone([]string{"runtime.gopanic", name, "grete/handlers.(*Broker).Serve"}); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
