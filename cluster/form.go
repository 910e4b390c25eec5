// Package cluster brings the nodes of a cluster together before there is a metadata quorum: which cluster it is, and who votes.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"grete/internal/clock"
	"grete/protocol"
)

// Refusals of Form; their text names nodes and clusters.
var (
	// ErrOtherCluster: this node's data, or two of the voters, belong to different clusters.
	ErrOtherCluster = errors.New("different clusters")
	// ErrEmptied: the cluster knows this voter, whose directories are empty. With a vote forgotten it could help to elect two
	// leaders.
	ErrEmptied = errors.New("the data of a voter is gone")
	// ErrWrongNode: another node answers at a voter's address.
	ErrWrongNode = errors.New("wrong node")
)

const (
	askEvery   = 200 * time.Millisecond
	askTimeout = time.Second
)

// FormOptions describe a node that looks for its cluster.
type FormOptions struct {
	NodeID    int32
	ClusterID string  // in its directories; "" when they are empty
	Voters    []int32 // this node among them, or not
	// Ask sends a request to a voter's controller listener.
	Ask   func(ctx context.Context, voter int32, req *protocol.FormRequest) (*protocol.FormResponse, error)
	NewID func() string
	Clock clock.Clock
	Log   zerolog.Logger
}

// Form returns the id of the cluster that the voters make. A node that knows it only asks, once, whether somebody contradicts. Otherwise it
// waits until a voter knows; or, when all are there and none does, the one with the lowest id draws it. The others learn it when that node's
// Knowledge has it, which must not be before it is on disk.
func Form(ctx context.Context, o FormOptions) (clusterID string, err error) {
	f := former{o}
	waiting := ""
	for {
		answers, missing := f.askAll(ctx)
		id, err := f.judge(answers)
		if err != nil || id != "" {
			return id, err
		}
		if len(missing) == 0 && f.mayDraw(answers) {
			return o.NewID(), nil
		}
		if text := strings.Join(missing, ", "); text != "" && text != waiting {
			waiting = text
			o.Log.Info().Str("missing", text).Msg("waiting for the other voters to form a cluster")
		}
		if err := clock.Pause(ctx, o.Clock, askEvery); err != nil {
			return "", fmt.Errorf("no cluster was formed: %w", err)
		}
	}
}

type former struct{ o FormOptions }

// askAll asks every other voter at the same time.
func (f *former) askAll(ctx context.Context) (answers map[int32]*protocol.FormResponse, missing []string) {
	ctx, cancel := clock.WithTimeout(ctx, f.o.Clock, askTimeout)
	defer cancel()
	var mu sync.Mutex
	var asking sync.WaitGroup
	answers = map[int32]*protocol.FormResponse{}
	for _, voter := range f.o.Voters {
		if voter == f.o.NodeID {
			continue
		}
		asking.Go(func() {
			answer, err := f.o.Ask(ctx, voter, &protocol.FormRequest{NodeID: f.o.NodeID, Voters: f.o.Voters})
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				missing = append(missing, fmt.Sprint(voter))
				return
			}
			answers[voter] = answer
		})
	}
	asking.Wait()
	slices.Sort(missing)
	return answers, missing
}

// judge returns the id that somebody knows, "" when nobody does.
func (f *former) judge(answers map[int32]*protocol.FormResponse) (id string, err error) {
	id = f.o.ClusterID
	for voter, a := range answers {
		switch {
		case a.NodeID != voter:
			return "", fmt.Errorf("%w: node %d answers at the address of node %d", ErrWrongNode, a.NodeID, voter)
		case a.ClusterID == "":
		case id == "":
			id = a.ClusterID
		case id != a.ClusterID:
			return "", fmt.Errorf("%w: node %d belongs to %s, this node's data or another voter to %s", ErrOtherCluster, voter, a.ClusterID, id)
		}
		if f.o.ClusterID == "" && a.Known && slices.Contains(f.o.Voters, f.o.NodeID) {
			return "", fmt.Errorf("%w: cluster %s knows node %d, but its directories are empty; bring them back, or remove the node from the "+
				"voters first", ErrEmptied, a.ClusterID, f.o.NodeID)
		}
	}
	return id, nil
}

// mayDraw: all voters are here, consent, and this one comes first.
func (f *former) mayDraw(answers map[int32]*protocol.FormResponse) bool {
	for _, a := range answers {
		if !a.Consent {
			return false
		}
	}
	return f.o.NodeID == slices.Min(f.o.Voters)
}

// Knowledge is what a node answers to those that look for their cluster.
type Knowledge struct {
	nodeID int32
	// known says whether the cluster has registered a node.
	known func(id int32) bool

	mu        sync.Mutex
	clusterID string
	voters    []int32
}

// NewKnowledge is that of a node that knows nothing yet but the voters that it was started with.
func NewKnowledge(nodeID int32, voters []int32, known func(id int32) bool) *Knowledge {
	return &Knowledge{nodeID: nodeID, voters: slices.Sorted(slices.Values(voters)), known: known}
}

// Set tells the cluster's id, once it is on this node's disk.
func (k *Knowledge) Set(clusterID string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.clusterID = clusterID
}

// ClusterID is what Set told.
func (k *Knowledge) ClusterID() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.clusterID
}

// Answer consents to a cluster of the same voters while there is none.
func (k *Knowledge) Answer(req *protocol.FormRequest) *protocol.FormResponse {
	k.mu.Lock()
	defer k.mu.Unlock()
	same := slices.Equal(slices.Sorted(slices.Values(req.Voters)), k.voters)
	return &protocol.FormResponse{
		NodeID: k.nodeID, ClusterID: k.clusterID, Voters: k.voters, Known: k.known(req.NodeID),
		Consent: k.clusterID == "" && same,
	}
}
