package coordinator

import (
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"grete/coordinator/logtest"
)

func TestListReadsEveryShard(t *testing.T) {
	b := newBench(t)
	list := func() (values []string, err error) {
		done := make(chan struct{})
		read := func(l *ledger, _ *Tx) []string { return []string{l.values["k"]} }
		List(b.rt, read, func(got []string, e error) { values, err = got, e; close(done) })
		<-done
		return values, err
	}
	other := &logtest.Log{}
	b.rt.BecomeLeader(7, 1, other)
	b.await(7)
	for partition, value := range map[int32]string{0: "first", 7: "second"} {
		b.rt.Submit(partition, Op[*ledger]{
			Run:    func(_ *ledger, tx *Tx) { tx.Append([]byte("k"), []byte(value)) },
			Refuse: func(err error) { t.Error(err) },
		})
	}
	if got, err := list(); err != nil || !slices.Equal(got, []string{"first", "second"}) {
		t.Fatalf("%v, %v", got, err)
	}

	slow := &slowLog{Log: b.log, release: make(chan struct{})}
	b.rt.BecomeLeader(2, 1, slow)
	if got, err := list(); got != nil || Code(err) != kerr.CoordinatorLoadInProgress.Code {
		t.Fatalf("while a shard loads: %v, %v", got, err)
	}
	b.rt.Resign(2, 1)
	close(slow.release)

	b.rt.Resign(7, 1)
	if got, err := list(); err != nil || !slices.Equal(got, []string{"first"}) {
		t.Fatalf("after a resignation: %v, %v", got, err)
	}
	b.rt.Resign(0, 1)
	if got, err := list(); err != nil || got != nil {
		t.Fatalf("without shards: %v, %v", got, err)
	}
}
