package cluster

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"grete/internal/clock"
	"grete/internal/uuid"
	"grete/protocol"
)

// electorate is nodes that ask each other without a network; their addresses are "1", "2" and "3".
type electorate struct {
	mu    sync.Mutex
	nodes map[string]*Knowledge // nil: does not answer
	drawn int
	seeds []Seed

	// of the node that looks for its cluster
	expect int32
	log    zerolog.Logger
	change func(o *FormOptions)
}

func (e *electorate) ask(_ context.Context, address string, req *protocol.FormRequest) (*protocol.FormResponse, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.nodes[address] == nil {
		return nil, errors.New("no answer")
	}
	return e.nodes[address].Answer(req), nil
}

func (e *electorate) form(ctx context.Context, id int32, known string) (string, bool, error) {
	own := NewKnowledge(id, incarnation(id), func() []Seed { return e.seeds }, clock.System)
	own.Expect = e.expect
	o := FormOptions{
		NodeID: id, Incarnation: incarnation(id), ClusterID: known, Seeds: func() []Seed { return e.seeds }, Needed: 2, Ask: e.ask, Own: own,
		Clock: clock.System, Log: e.log,
		NewID: func() string {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.drawn++
			return "drawn"
		},
	}
	if e.change != nil {
		e.change(&o)
	}
	return Form(ctx, o)
}

func incarnation(id int32) uuid.UUID { return uuid.UUID{1, byte(id)} }

func address(id int32) string { return string(rune('0' + id)) }

var voters = []Seed{{1, "1"}, {2, "2"}, {3, "3"}}

var unnamed = []Seed{{AnyNode, "1"}, {AnyNode, "2"}, {AnyNode, "3"}}

func newElectorate(seeds []Seed, ids ...int32) *electorate {
	e := &electorate{nodes: map[string]*Knowledge{}, seeds: seeds, log: zerolog.Nop()}
	for _, id := range ids {
		e.nodes[address(id)] = NewKnowledge(id, incarnation(id), func() []Seed { return seeds }, clock.System)
	}
	return e
}

// The first of the nodes draws the id, once, when most are there; the others take it, those that come later too.
// Whether ids or only addresses are known makes no difference.
func TestFormDrawsOnce(t *testing.T) {
	for _, seeds := range [][]Seed{voters, unnamed} {
		e := newElectorate(seeds, 2, 3)
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		var wg sync.WaitGroup
		ids, begins := make([]string, 4), make([]bool, 4)
		begin := func(id int32) {
			wg.Go(func() {
				got, first, err := e.form(ctx, id, "")
				if err != nil {
					t.Error(err)
				}
				e.mu.Lock()
				defer e.mu.Unlock()
				ids[id], begins[id] = got, first
				if e.nodes[address(id)] != nil {
					e.nodes[address(id)].Set(got)
				}
			})
		}
		begin(2)
		begin(3)
		time.Sleep(2 * askEvery)
		e.mu.Lock()
		if e.drawn > 0 {
			t.Error("drawn without the first")
		}
		e.nodes["3"] = nil
		e.nodes["1"] = NewKnowledge(1, incarnation(1), func() []Seed { return seeds }, clock.System)
		e.mu.Unlock()
		begin(1)
		wg.Wait()
		cancel()
		if e.drawn != 1 || ids[1] != "drawn" || ids[2] != "drawn" || ids[3] != "drawn" || !begins[1] || begins[2] || begins[3] {
			t.Errorf("drawn %d times: %q, %v", e.drawn, ids, begins)
		}
	}
}

func TestFormRefuses(t *testing.T) {
	for _, tt := range []struct {
		name, known string
		prepare     func(e *electorate)
		want        string
		err         error
	}{
		{"joins", "", func(e *electorate) { e.nodes["2"].Set("c") }, "c", nil},
		{"goes on alone", "c", func(e *electorate) { clear(e.nodes) }, "c", nil},
		{"other data", "mine", func(e *electorate) { e.nodes["2"].Set("theirs") }, "", ErrOtherCluster},
		{"split voters", "", func(e *electorate) { e.nodes["2"].Set("a"); e.nodes["3"].Set("b") }, "", ErrOtherCluster},
		{"wrong node", "", func(e *electorate) { e.nodes["2"] = e.nodes["3"] }, "", ErrWrongNode},
		{"same id", "", func(e *electorate) {
			e.seeds = unnamed
			e.nodes["2"] = NewKnowledge(1, incarnation(2), func() []Seed { return nil }, clock.System)
		}, "", ErrWrongNode},
		{"twin at its own address", "", func(e *electorate) {
			e.nodes["1"] = NewKnowledge(1, incarnation(9), func() []Seed { return voters }, clock.System)
			e.nodes["1"].Set("c")
		}, "", ErrWrongNode},
		{"other expect, nobody says", "", func(e *electorate) { e.expect = 5; e.nodes["2"].Set("c") }, "c", nil},
		{"other expect", "", func(e *electorate) { e.expect = 5; e.nodes["2"].Set("c"); e.nodes["2"].Expect = 3 }, "c", ErrOtherExpect},
		{"other expect of one", "", func(e *electorate) {
			e.expect = 3
			for id, expect := range map[string]int32{"2": 3, "3": 5} {
				e.nodes[id].Set("c")
				e.nodes[id].Expect = expect
			}
		}, "c", nil},
		{"other expect, known", "c", func(e *electorate) { e.expect = 5; e.nodes["2"].Set("c"); e.nodes["2"].Expect = 3 }, "c", nil},
		{"other expect while forming", "", func(e *electorate) { e.expect = 3; e.nodes["2"].Expect = 5; e.nodes["3"] = nil }, "", context.DeadlineExceeded},
		{"too few", "", func(e *electorate) { clear(e.nodes) }, "", context.DeadlineExceeded},
		{"other nodes", "", func(e *electorate) {
			e.nodes["2"] = NewKnowledge(2, incarnation(2), func() []Seed { return voters[1:] }, clock.System)
			e.nodes["3"] = nil
		}, "", context.DeadlineExceeded},
	} {
		e := newElectorate(voters, 2, 3)
		tt.prepare(e)
		ctx, cancel := context.WithTimeout(context.Background(), 3*askEvery)
		id, begins, err := e.form(ctx, 1, tt.known)
		cancel()
		if id != tt.want || !errors.Is(err, tt.err) || begins || e.drawn > 0 {
			t.Errorf("%s: %q, %v, drawn %d times", tt.name, id, err, e.drawn)
		}
	}
}

// What a node waits for is said at once and every half minute, with the seeds of gossip that are silent; how a cluster
// is begun, to whom found nobody.
func TestFormSaysWhatItWaitsFor(t *testing.T) {
	const advice = "gossip.expect begins a cluster"
	refused := Unjoined{"b:7946", "no answer: connection refused", false}
	foreign := Unjoined{"c:7946", "it answers, but not with this node's gossip.key", true}
	for _, tt := range []struct {
		ids      []int32
		needed   int
		unjoined []Unjoined
		prepare  func(e *electorate)
		want     string
	}{
		{nil, Never, nil, func(e *electorate) { e.seeds = voters[:1] }, "no other node was found; " + advice},
		{nil, Never, []Unjoined{refused}, func(e *electorate) { e.seeds = voters[:1] }, "no other node was found; " + advice + "; b:7946: no answer: connection refused"},
		{nil, Never, []Unjoined{foreign}, func(e *electorate) { e.seeds = voters[:1] }, "no node that knows a cluster was found; c:7946: it answers, but not with this node's gossip.key"},
		{[]int32{2}, Never, nil, func(e *electorate) { e.seeds = voters[:2] }, "no node that was found knows a cluster yet"},
		{[]int32{2}, 3, []Unjoined{refused}, func(e *electorate) { e.seeds = voters[:2] }, "2 of 3 are found; b:7946: no answer: connection refused"},
		{[]int32{2}, 2, nil, func(e *electorate) { e.seeds = voters[:2]; e.expect = 2; e.nodes["2"].Expect = 3 }, "gossip.expect is 2 here and 3 on node 2"},
	} {
		synctest.Test(t, func(t *testing.T) {
			log := &lines{}
			e := newElectorate(voters, tt.ids...)
			tt.prepare(e)
			e.log = zerolog.New(log)
			e.change = func(o *FormOptions) {
				o.Needed, o.Unjoined = tt.needed, func() []Unjoined { return tt.unjoined }
			}
			ctx, cancel := context.WithTimeout(t.Context(), 2*repeatEvery+time.Second)
			defer cancel()
			if _, _, err := e.form(ctx, 1, ""); !strings.Contains(err.Error(), "no cluster was formed; "+tt.want+": ") {
				t.Error(err)
			}
			if n := strings.Count(log.text.String(), `"nodes":"`+tt.want+`"`); n != 3 {
				t.Errorf("%q is said %d times: %s", tt.want, n, log.text.String())
			}
		})
	}
}

// Nodes that know different seeds for a moment do not begin two clusters: a consent binds as long as somebody may rely
// on it.
func TestConsentBinds(t *testing.T) {
	manual := clock.NewManual(time.Unix(0, 0))
	seeds := []Seed{{1, "1"}, {2, "2"}, {3, "3"}}
	k := NewKnowledge(2, incarnation(2), func() []Seed { return seeds }, manual)
	consents := func(want bool, to ...string) {
		t.Helper()
		if got := k.Answer(&protocol.FormRequest{NodeID: 9, Seeds: to}).Consent; got != want {
			t.Errorf("consents to %v: %v", to, got)
		}
	}
	consents(true, "3", "1", "2")
	seeds = []Seed{{2, "2"}, {3, "3"}, {4, "4"}}
	consents(false, "1", "2", "3")
	consents(false, "2", "3", "4")
	if k.begin([]string{"2", "3", "4"}) {
		t.Error("it begins although it has consented to another's beginning")
	}
	manual.Advance(promiseLasts)
	consents(true, "2", "3", "4")
	if !k.begin([]string{"2", "3", "4"}) {
		t.Error("it does not begin")
	}
	manual.Advance(promiseLasts)
	consents(false, "2", "3", "4")
	if !k.begin([]string{"2", "3", "4"}) {
		t.Error("it has begun")
	}
}
