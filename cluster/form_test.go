package cluster

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"grete/internal/clock"
	"grete/protocol"
)

// electorate is nodes that ask each other without a network.
type electorate struct {
	mu    sync.Mutex
	nodes map[int32]*Knowledge // nil: does not answer
	drawn int
}

func (e *electorate) ask(id int32) func(context.Context, int32, *protocol.FormRequest) (*protocol.FormResponse, error) {
	return func(_ context.Context, voter int32, req *protocol.FormRequest) (*protocol.FormResponse, error) {
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.nodes[voter] == nil {
			return nil, errors.New("no answer")
		}
		return e.nodes[voter].Answer(req), nil
	}
}

func (e *electorate) form(ctx context.Context, id int32, known string) (string, error) {
	return Form(ctx, FormOptions{
		NodeID: id, ClusterID: known, Voters: []int32{1, 2, 3}, Ask: e.ask(id), Clock: clock.System, Log: zerolog.Nop(),
		NewID: func() string {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.drawn++
			return "drawn"
		},
	})
}

func newElectorate(ids ...int32) *electorate {
	e := &electorate{nodes: map[int32]*Knowledge{}}
	for _, id := range ids {
		e.nodes[id] = NewKnowledge(id, []int32{1, 2, 3}, func(int32) bool { return false })
	}
	return e
}

// Three empty nodes agree on one id, drawn once, and not before all are there.
func TestFormDrawsOnce(t *testing.T) {
	e := newElectorate(1, 2)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	ids := make([]string, 4)
	begin := func(id int32) {
		wg.Go(func() {
			got, err := e.form(ctx, id, "")
			if err != nil {
				t.Error(err)
			}
			e.mu.Lock()
			defer e.mu.Unlock()
			ids[id] = got
			e.nodes[id].Set(got)
		})
	}
	begin(1)
	begin(2)
	time.Sleep(2 * askEvery)
	e.mu.Lock()
	if e.drawn > 0 {
		t.Error("drawn without the third")
	}
	e.nodes[3] = NewKnowledge(3, []int32{1, 2, 3}, func(int32) bool { return false })
	e.mu.Unlock()
	begin(3)
	wg.Wait()
	if e.drawn != 1 || ids[1] != "drawn" || ids[2] != "drawn" || ids[3] != "drawn" {
		t.Errorf("drawn %d times: %q", e.drawn, ids)
	}
}

func TestFormRefuses(t *testing.T) {
	for _, tt := range []struct {
		name, known string
		prepare     func(e *electorate)
		want        string
		err         error
	}{
		{"joins", "", func(e *electorate) { e.nodes[2].Set("c") }, "c", nil},
		{"goes on alone", "c", func(e *electorate) { clear(e.nodes) }, "c", nil},
		{"other data", "mine", func(e *electorate) { e.nodes[2].Set("theirs") }, "", ErrOtherCluster},
		{"split voters", "", func(e *electorate) { e.nodes[2].Set("a"); e.nodes[3].Set("b") }, "", ErrOtherCluster},
		{"emptied", "", func(e *electorate) {
			e.nodes[2] = NewKnowledge(2, nil, func(id int32) bool { return id == 1 })
			e.nodes[2].Set("c")
		}, "", ErrEmptied},
		{"wrong node", "", func(e *electorate) { e.nodes[2] = e.nodes[3] }, "", ErrWrongNode},
		{"other voters", "", func(e *electorate) { e.nodes[2] = NewKnowledge(2, []int32{2, 3}, func(int32) bool { return false }) }, "", context.DeadlineExceeded},
	} {
		e := newElectorate(2, 3)
		tt.prepare(e)
		ctx, cancel := context.WithTimeout(context.Background(), 3*askEvery)
		id, err := e.form(ctx, 1, tt.known)
		cancel()
		if id != tt.want || !errors.Is(err, tt.err) || e.drawn > 0 {
			t.Errorf("%s: %q, %v, drawn %d times", tt.name, id, err, e.drawn)
		}
	}
}
