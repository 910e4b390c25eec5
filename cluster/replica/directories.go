package replica

import (
	"context"
	"slices"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster/metadata"
	"grete/internal/clock"
	"grete/internal/sched"
	"grete/logstore"
)

// AssignDirs tells the controller where this broker has replicas, and returns once this broker's image has what came of
// it.
type AssignDirs func(ctx context.Context, req *kmsg.AssignReplicasToDirsRequest) (*kmsg.AssignReplicasToDirsResponse, error)

// directoryToTell is the directory that the metadata should have for this replica, if it has another. A replica that is
// damaged is lost as long as others in sync have its records: then it leaves the ISR, and another one leads. A follower
// that takes no more records leaves the ISR, too.
func (p *Partition) directoryToTell() (id metadata.UUID, tell bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.state.Load()
	counts := len(s.isr) > 1 && slices.Contains(s.isr, p.nodeID)
	full := p.lacks >= tellAfter || logstore.Heals(s.offline)
	switch {
	case counts && full && p.damage == nil && s.leader != p.nodeID:
		return metadata.FullDir, true
	case s.log == nil || s.offline != nil:
		return id, false
	}
	id = s.log.DirectoryID()
	if counts && p.damage != nil {
		id = metadata.LostDir
	}
	return id, id != metadata.MigratingDir && id != s.directory
}

// assigner tells the controller about directories (Kafka's AssignmentsManager): one request at a time, with all that
// gathered meanwhile. It queues a partition at most once.
type assigner struct {
	nodeID      int32
	brokerEpoch func() int64
	assign      AssignDirs
	clock       clock.Clock
	log         zerolog.Logger

	mu     sched.Mutex
	queued map[*Partition]bool
	wake   chan struct{} // holds one
	task   task
}

func newAssigner(o Options) *assigner {
	return &assigner{
		nodeID: o.NodeID, brokerEpoch: o.Replication.BrokerEpoch, assign: o.Replication.Assign, clock: o.Clock, log: o.Log,
		queued: map[*Partition]bool{}, wake: make(chan struct{}, 1),
	}
}

func (a *assigner) start() { a.task.start(a.run) }
func (a *assigner) stop()  { a.task.stop() }

// submit has the controller told about p, if there is something to tell by then.
func (a *assigner) submit(p *Partition) {
	if _, tell := p.directoryToTell(); !tell || a.assign == nil {
		return
	}
	a.mu.Lock()
	a.queued[p] = true
	a.mu.Unlock()
	poke(a.wake)
}

func (a *assigner) take() map[*Partition]metadata.UUID {
	a.mu.Lock()
	queued := a.queued
	a.queued = map[*Partition]bool{}
	a.mu.Unlock()
	out := map[*Partition]metadata.UUID{}
	for p := range queued {
		if id, tell := p.directoryToTell(); tell {
			out[p] = id
		}
	}
	return out
}

func (a *assigner) run(ctx context.Context) {
	for await(ctx, a.wake) {
		dirs := a.take()
		if len(dirs) == 0 || a.send(ctx, dirs) {
			continue
		}
		for p := range dirs {
			a.submit(p)
		}
		_ = clock.Pause(ctx, a.clock, retryAssignAfter)
	}
}

const retryAssignAfter = 500 * time.Millisecond

// send reports whether nothing has to be told again.
func (a *assigner) send(ctx context.Context, dirs map[*Partition]metadata.UUID) bool {
	resp, err := a.assign(ctx, a.request(dirs))
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err != nil {
		a.log.Info().Err(err).Int("partitions", len(dirs)).Msg("the controller did not take note of directories; telling again")
	}
	return err == nil
}

func (a *assigner) request(dirs map[*Partition]metadata.UUID) *kmsg.AssignReplicasToDirsRequest {
	req := kmsg.NewPtrAssignReplicasToDirsRequest()
	req.BrokerID, req.BrokerEpoch = a.nodeID, a.brokerEpoch()
	for p, id := range dirs {
		d := in(&req.Directories, func(d *kmsg.AssignReplicasToDirsRequestDirectory) bool { return d.ID == id })
		d.ID = id
		t := in(&d.Topics, func(t *kmsg.AssignReplicasToDirsRequestDirectoryTopic) bool { return t.TopicID == p.TopicID })
		t.TopicID = p.TopicID
		t.Partitions = append(t.Partitions, kmsg.AssignReplicasToDirsRequestDirectoryTopicPartition{Partition: p.Index})
	}
	return req
}

// in finds an element, or appends one.
func in[T any](list *[]T, is func(*T) bool) *T {
	for i := range *list {
		if is(&(*list)[i]) {
			return &(*list)[i]
		}
	}
	*list = append(*list, *new(T))
	return &(*list)[len(*list)-1]
}
