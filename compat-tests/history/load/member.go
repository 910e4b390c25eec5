package load

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"grete/internal/history"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	membersGroup   = "h-members"
	balancedGroup  = "h-balanced"
	sessionTimeout = 3 * time.Second
	commitTimeout  = 20 * time.Second
)

// classicMember's balancer is the client's.
func (r *run) classicMember(ctx context.Context, i int, rng *rand.Rand) {
	r.member(ctx, r.name("member", i), membersGroup, rng)
}

// balancedMember is of a group whose partitions the broker assigns (KIP-848).
func (r *run) balancedMember(ctx context.Context, i int, rng *rand.Rand) {
	r.member(ctx, r.name("balanced", i), balancedGroup, rng, kgo.ServerSideBalancer(), kgo.Balancers(kgo.RangeBalancer()))
}

// member consumes in a group and commits what it has polled; it crashes or leaves.
func (r *run) member(ctx context.Context, name, group string, rng *rand.Rand, opts ...kgo.Opt) {
	opts = append(append(opts, r.memberOpts(name, group)...), kgo.ConsumeTopics(r.topics()...), isolation(true), kgo.BlockRebalanceOnPoll())
	cl, link, err := r.client(joining, opts...)
	if err != nil {
		r.logf("%s: %v", name, err)
		return
	}
	defer cl.CloseAllowingRebalance()
	r.record(history.Op{Kind: history.Client, Client: name, Group: group, Committed: true})
	life, end := r.life(ctx, rng)
	defer end()
	for life.Err() == nil {
		if records := r.poll(life, cl, name); len(records) > 0 {
			r.commit(life, cl, name, group, records)
		}
		cl.AllowRebalance()
	}
	if ctx.Err() == nil && rng.IntN(2) == 0 {
		link.crash()
		r.record(history.Op{Kind: history.Crash, Client: name})
	}
}

// memberOpts record where an assignment starts: at what the group had committed.
func (r *run) memberOpts(name, group string) []kgo.Opt {
	asked := &offsetFetches{run: r}
	return []kgo.Opt{kgo.ConsumerGroup(group), kgo.SessionTimeout(sessionTimeout), kgo.HeartbeatInterval(500 * time.Millisecond),
		kgo.RebalanceTimeout(5 * time.Second), kgo.DisableAutoCommit(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.WithHooks(asked),
		kgo.FetchMaxWait(200 * time.Millisecond),
		kgo.AdjustFetchOffsetsFn(func(_ context.Context, offsets map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
			op := history.Op{Kind: history.Assign, Client: name, Group: group, BeganNs: asked.beganNs.Load()}
			for topic, parts := range offsets {
				for p, o := range parts {
					at := max(0, o.EpochOffset().Offset) // −2 is the start: nothing was committed
					op.Offsets = append(op.Offsets, history.Position{Partition: history.Partition{Topic: topic, ID: p}, Offset: at})
				}
			}
			r.record(op)
			return offsets, nil
		})}
}

// offsetFetches notes when the last OffsetFetch was asked.
type offsetFetches struct {
	run     *run
	beganNs atomic.Int64
}

var offsetFetchKey = kmsg.NewPtrOffsetFetchRequest().Key()

// OnBrokerWrite is kgo.HookBrokerWrite.
func (o *offsetFetches) OnBrokerWrite(_ kgo.BrokerMetadata, key int16, _ int, _, took time.Duration, _ error) {
	if key == offsetFetchKey {
		o.beganNs.Store(o.run.nowNs() - int64(took))
	}
}

func (r *run) commit(ctx context.Context, cl *kgo.Client, name, group string, records []*kgo.Record) {
	op := history.Op{Kind: history.Commit, Client: name, Group: group, Offsets: nextOf(records), BeganNs: r.nowNs(), Outcome: history.OK}
	ctx, cancel := context.WithTimeout(ctx, commitTimeout)
	defer cancel()
	if cl.CommitRecords(ctx, records...) != nil {
		op.Outcome = history.Unknown // a retry's refusal does not say that the first attempt failed
	}
	r.record(op)
}
