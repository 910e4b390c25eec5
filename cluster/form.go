// Package cluster brings the nodes of a cluster together before there is a metadata quorum: which cluster it is, and
// who begins it.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"grete/internal/clock"
	"grete/internal/uuid"
	"grete/protocol"
)

// Refusals of Form; their text names nodes and clusters.
var (
	// ErrOtherCluster: this node's data, or two of the seeds, belong to different clusters.
	ErrOtherCluster = errors.New("different clusters")
	// ErrWrongNode: another node answers at a node's address, or two nodes have one id.
	ErrWrongNode = errors.New("wrong node")
	// ErrOtherExpect: the cluster that was found was begun by another number of nodes than this one was told.
	ErrOtherExpect = errors.New("gossip.expect differs")
)

const (
	askEvery   = 200 * time.Millisecond
	askTimeout = time.Second
	// repeatEvery is how often it is said again what a node waits for.
	repeatEvery = 30 * time.Second
)

// AnyNode is the id of a seed of whom only the address is known.
const AnyNode = int32(-1)

// Never is how many nodes begin a cluster where none is to be begun.
const Never = math.MaxInt

// Seed is where a node may be found.
type Seed struct {
	NodeID  int32 // AnyNode: not known
	Address string
}

// Addresses are those of seeds, sorted.
func Addresses(seeds []Seed) []string {
	var out []string
	for _, s := range seeds {
		out = append(out, s.Address)
	}
	slices.Sort(out)
	return out
}

// FormOptions describe a node that looks for its cluster.
type FormOptions struct {
	NodeID      int32
	Incarnation uuid.UUID // of this run: tells this node's own answer from that of another of the same id
	ClusterID   string    // in its directories; "" when they are empty
	// Seeds are the nodes that may know, as far as they are known now. The first of them begins the cluster, if nobody
	// knows one.
	Seeds func() []Seed
	// Needed is how many of the seeds must be there, and have the same seeds, before a cluster is begun, the first
	// included. Never: this node begins none.
	Needed int
	// Ask sends a request to a controller listener.
	Ask   func(ctx context.Context, address string, req *protocol.FormRequest) (*protocol.FormResponse, error)
	NewID func() string
	// Unjoined are gossip's seeds that have not let this node in, nil where there is no gossip.
	Unjoined func() []Unjoined
	// Waiting is told what this node waits for and why, at every round.
	Waiting func(what, why string)
	// Own is what this node answers others meanwhile.
	Own   *Knowledge
	Clock clock.Clock
	Log   zerolog.Logger
}

// Form returns the id of the cluster that the seeds know. A node that knows it only asks, once, whether somebody
// contradicts. Otherwise it waits until a seed knows; or, when enough are there and none does, the first of them draws
// it: then begins is true, and the cluster is this node alone until others join. They learn it when that node's
// Knowledge has it, which must not be before it is on disk.
func Form(ctx context.Context, o FormOptions) (clusterID string, begins bool, err error) {
	f := former{o}
	waiting, said := "", time.Time{}
	for {
		r := f.askAll(ctx)
		id, err := r.judge(o)
		if err != nil || id != "" {
			return id, false, err
		}
		if r.first && r.consenting+1 >= o.Needed && o.Own.begin(r.seeds) {
			return o.NewID(), true, nil
		}
		text, now := r.wanting(o), o.Clock.Now()
		if o.Waiting != nil {
			o.Waiting("waiting for other nodes to form a cluster", text)
		}
		if text != waiting || now.Sub(said) >= repeatEvery {
			waiting, said = text, now
			o.Log.Info().Str("nodes", text).Msg("waiting for other nodes to form a cluster")
		}
		if err := clock.Pause(ctx, o.Clock, askEvery); err != nil {
			return "", false, fmt.Errorf("no cluster was formed; %s: %w", waiting, err)
		}
	}
}

type former struct{ o FormOptions }

// round is what the seeds have answered.
type round struct {
	answers    map[Seed]*protocol.FormResponse // of others
	first      bool                            // this node is the first seed
	consenting int
	seeds      []string
	missing    []string
	differing  []string // were started with other seeds
	expecting  []string // were started with another gossip.expect
}

// askAll asks every seed at the same time. Its own answer tells the node which seed it is; another's at its own
// address, that its id is taken.
func (f *former) askAll(ctx context.Context) *round {
	ctx, cancel := clock.WithTimeout(ctx, f.o.Clock, askTimeout)
	defer cancel()
	seeds := f.o.Seeds()
	var mu sync.Mutex
	var asking sync.WaitGroup
	r := &round{answers: map[Seed]*protocol.FormResponse{}, seeds: Addresses(seeds)}
	asked := r.seeds
	if len(asked) < f.o.Needed {
		asked = nil // nobody is to consent to what is not to begin
	}
	for i, seed := range seeds {
		asking.Go(func() {
			answer, err := f.o.Ask(ctx, seed.Address, &protocol.FormRequest{NodeID: f.o.NodeID, Seeds: asked})
			mu.Lock()
			defer mu.Unlock()
			own := seed.NodeID == f.o.NodeID
			switch {
			case own && err != nil, err == nil && answer.Incarnation == f.o.Incarnation:
				r.first = r.first || i == 0
			case err != nil:
				r.missing = append(r.missing, seed.Address)
			default:
				r.take(seed, answer, f.o.Own.Expect)
			}
		})
	}
	asking.Wait()
	return r
}

func (r *round) take(seed Seed, answer *protocol.FormResponse, expect int32) {
	r.answers[seed] = answer
	switch {
	case expect != 0 && answer.Expect != 0 && answer.Expect != expect:
		r.expecting = append(r.expecting, fmt.Sprintf("gossip.expect is %d here and %d on node %d", expect, answer.Expect, answer.NodeID))
	case answer.Consent:
		r.consenting++
	case answer.ClusterID == "":
		r.differing = append(r.differing, seed.Address)
	}
}

// judge returns the id that somebody knows, "" when nobody does.
func (r *round) judge(o FormOptions) (id string, err error) {
	id = o.ClusterID
	for seed, a := range r.answers {
		switch {
		case a.NodeID == o.NodeID:
			return "", fmt.Errorf("%w: the node at %s has this one's node.id %d", ErrWrongNode, seed.Address, a.NodeID)
		case seed.NodeID != AnyNode && a.NodeID != seed.NodeID:
			return "", fmt.Errorf("%w: node %d answers at the address of node %d, %s", ErrWrongNode, a.NodeID, seed.NodeID, seed.Address)
		case a.ClusterID == "":
		case id == "":
			id = a.ClusterID
		case id != a.ClusterID:
			return "", fmt.Errorf("%w: node %d belongs to %s, this node's data or another node to %s", ErrOtherCluster, a.NodeID, a.ClusterID, id)
		}
	}
	if o.ClusterID == "" && id != "" && o.Own.Expect != 0 {
		return id, r.agree(o.Own.Expect)
	}
	return id, nil
}

// agree refuses a new node that expects another number of nodes than all that know the cluster and say how many they
// expected.
func (r *round) agree(expect int32) (err error) {
	for _, a := range r.answers {
		switch {
		case a.ClusterID == "" || a.Expect == 0:
		case a.Expect == expect:
			return nil
		default:
			err = fmt.Errorf("%w: %d here and %d on node %d, which is of cluster %s already; a node that follows a cluster needs none", ErrOtherExpect, expect, a.Expect, a.NodeID, a.ClusterID)
		}
	}
	return err
}

// wanting says what there is to wait for.
func (r *round) wanting(o FormOptions) string {
	slices.Sort(r.missing)
	slices.Sort(r.differing)
	slices.Sort(r.expecting)
	parts := slices.Clone(r.expecting)
	if len(r.missing) > 0 {
		parts = append(parts, "no answer from "+strings.Join(r.missing, ", "))
	}
	if len(r.differing) > 0 && len(r.seeds) >= o.Needed {
		parts = append(parts, "other nodes are named in the configuration of "+strings.Join(r.differing, ", "))
	}
	var unjoined []Unjoined
	if o.Unjoined != nil {
		unjoined = o.Unjoined()
	}
	for _, u := range unjoined {
		parts = append(parts, u.Seed+": "+u.Why)
	}
	switch {
	case o.Needed == Never:
		parts = slices.Insert(parts, 0, r.noCluster(unjoined))
	case len(r.seeds) < o.Needed:
		parts = slices.Insert(parts, 0, fmt.Sprintf("%d of %d are found", len(r.seeds), o.Needed))
	case len(parts) == 0:
		return "the first of the nodes is to begin"
	}
	return strings.Join(parts, "; ")
}

// noCluster is for a node that begins none. How one is begun is no advice where somebody is there.
func (r *round) noCluster(unjoined []Unjoined) string {
	switch {
	case len(r.answers) > 0:
		return "no node that was found knows a cluster yet"
	case len(r.missing) > 0 || slices.ContainsFunc(unjoined, func(u Unjoined) bool { return u.Answers }):
		return "no node that knows a cluster was found"
	}
	return "no other node was found; gossip.expect begins a cluster"
}
