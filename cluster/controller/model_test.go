package controller

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster/metadata"
)

// The model plays brokers that register, stop cleanly or lose the end of their logs, are fenced, lead on what they know
// though it is out of date, replicate and change ISRs, against the controller's decisions, while replicas are
// reassigned and elections asked for. What has been committed must be in the log of every leader, of every member of an
// ISR and of every eligible replica, unless an election was told to be unclean.

const modelBrokers = 5

// world is the cluster of one seed, with one partition.
type world struct {
	*stage
	rng     *rand.Rand
	brokers map[int32]*modelBroker
	// committed is the history since the last unclean election, which took office at era.
	committed []int
	era       int32
	leaders   map[int32]int32 // by leader epoch
	value     int
	rules     modelRules
	lost      int
	asked     []int32 // the ISR that a leader asks for, while that is decided
	fault     error
}

// modelRules are broken one at a time, to see that the checks notice.
type modelRules struct{ lieAboutStops, hideEpochs bool }

// modelBroker is a broker's replica, and what it knows.
type modelBroker struct {
	id      int32
	run     byte
	epoch   int64 // of its registration, -1 while it is down
	stopped int64 // the epoch under which it stopped cleanly, -1
	log     []int
	known   *metadata.Image
	leading *leading
}

// leading is what a leader knows of its followers, at one leader epoch.
type leading struct {
	epoch      int32
	epochStart int
	hw         int
	fetched    map[int32]int
	epochs     map[int32]int64
	proposed   []int32
}

func newWorld(seed uint64, rules modelRules) *world {
	w := &world{stage: newStage(), rng: rand.New(rand.NewPCG(seed, 1)), brokers: map[int32]*modelBroker{}, leaders: map[int32]int32{}, rules: rules}
	w.stage.rand = w.rng
	for id := int32(1); id <= modelBrokers; id++ {
		w.brokers[id] = &modelBroker{id: id, epoch: -1, stopped: -1, known: w.image}
		w.restart(w.brokers[id])
	}
	w.run("static min.insync.replicas=2")
	w.run("feature " + elrVersionFeature + " 1")
	w.run("create t assign=0:1,2,3")
	return w
}

func (w *world) partition() *metadata.Partition { return &w.image.Topic("t").Partitions[0] }

// known is the partition as b knows it.
func (b *modelBroker) partition() *metadata.Partition {
	if t := b.known.Topic("t"); t != nil {
		return &t.Partitions[0]
	}
	return &metadata.Partition{Leader: noBroker}
}

// ask has a request decided and applied.
func (w *world) ask(req kmsg.Request) kmsg.Response {
	records, resp, err := w.view().decide(req)
	if err != nil {
		panic(err)
	}
	w.commit(records)
	return resp
}

// commit applies records, one change of the partition at most. An unclean election may lose what the new leader lacks.
func (w *world) commit(records []metadata.Record) {
	was := &metadata.Partition{}
	if t := w.image.Topic("t"); t != nil {
		was = &t.Partitions[0]
	}
	w.apply(records)
	for _, r := range records {
		c, is := r.(*metadata.PartitionChangeRecord)
		if is && c.Leader >= 0 && !slices.Contains(slices.Concat(was.ISR, was.ELR, w.asked), c.Leader) {
			if !slices.Equal(was.LastKnownELR, []int32{c.Leader}) || !slices.Contains(w.partition().Replicas, c.Leader) {
				w.fault = fmt.Errorf("broker %d is elected out of %+v", c.Leader, *was)
			}
			has := commonPrefix(w.committed, w.brokers[c.Leader].log)
			w.lost += len(w.committed) - has
			w.committed, w.era = w.committed[:has:has], w.partition().LeaderEpoch
		}
	}
}

func commonPrefix(a, b []int) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// restart registers a new run of a broker that is down, and unfences it.
func (w *world) restart(b *modelBroker) {
	if old := w.image.Broker(b.id); old != nil && !old.Fenced {
		w.commit(w.view().fence(old)) // its session is over
	}
	b.run++
	r := kmsg.NewPtrBrokerRegistrationRequest()
	r.Version, r.BrokerID, r.ClusterID = r.MaxVersion(), b.id, "cluster"
	r.IncarnationID, r.LogDirs, r.PreviousBrokerEpoch = [16]byte{0: 1, 1: byte(b.id), 2: b.run}, [][16]byte{{15: byte(100 + b.id)}}, b.stopped
	if old := w.image.Broker(b.id); old != nil && w.rules.lieAboutStops {
		r.PreviousBrokerEpoch = old.Epoch
	}
	r.Features = []kmsg.BrokerRegistrationRequestFeature{
		{Name: metadataVersionFeature, MinSupportedVersion: 7, MaxSupportedVersion: 33}, {Name: elrVersionFeature, MaxSupportedVersion: 1},
	}
	b.epoch = w.ask(r).(*kmsg.BrokerRegistrationResponse).BrokerEpoch
	b.stopped, b.leading = -1, nil
	w.heartbeat(b, false)
}

func (w *world) heartbeat(b *modelBroker, shutdown bool) {
	r := kmsg.NewPtrBrokerHeartbeatRequest()
	r.BrokerID, r.BrokerEpoch, r.CurrentMetadataOffset, r.WantShutdown = b.id, b.epoch, w.image.Offset(), shutdown
	w.ask(r)
}

// stop ends a broker: cleanly, or with a random part of its log lost, as a power failure would.
func (w *world) stop(b *modelBroker, cleanly bool) {
	if cleanly {
		w.heartbeat(b, true)
		b.stopped = b.epoch
	} else if w.rng.IntN(2) == 0 {
		b.log = slices.Clone(b.log[:w.rng.IntN(len(b.log)+1)])
	}
	b.epoch, b.leading = -1, nil
}

// learn has a broker apply the image: a new leadership begins, a replica that is no more is deleted.
func (w *world) learn(b *modelBroker) {
	b.known = w.image
	p := b.partition()
	if !slices.Contains(p.Replicas, b.id) {
		b.log, b.leading = nil, nil
		return
	}
	switch {
	case p.Leader != b.id:
		b.leading = nil
	case b.leading == nil || b.leading.epoch != p.LeaderEpoch:
		b.leading = &leading{epoch: p.LeaderEpoch, epochStart: len(b.log), fetched: map[int32]int{}, epochs: map[int32]int64{}}
	default:
		b.leading.proposed = nil
	}
}

// follow has f fetch from l, if both know the same leadership: it truncates, tells how far it is, and appends.
func (w *world) follow(f, l *modelBroker) {
	fp, lp := f.partition(), l.partition()
	if l.leading == nil || f.epoch < 0 || fp.Leader != l.id || fp.LeaderEpoch != lp.LeaderEpoch || !slices.Contains(lp.Replicas, f.id) {
		return
	}
	at := commonPrefix(f.log, l.log)
	f.log = slices.Clone(f.log[:at])
	l.leading.fetched[f.id], l.leading.epochs[f.id] = at, f.epoch
	more := l.log[at:]
	f.log = append(f.log, more[:min(len(more), w.rng.IntN(4))]...)
}

// advance moves a leader's high watermark over the ISR that it knows and the one that it has proposed.
func (w *world) advance(l *modelBroker) error {
	p := l.partition()
	minISR, _ := strconv.Atoi(l.known.Configs(metadata.TopicResource, "t")[minISRConfig])
	if minISR == 0 {
		minISR = 2
	}
	if len(p.ISR) < min(minISR, len(p.Replicas)) {
		return nil
	}
	hw := len(l.log)
	for _, id := range append(slices.Clone(p.ISR), l.leading.proposed...) {
		if id != l.id {
			hw = min(hw, l.leading.fetched[id])
		}
	}
	l.leading.hw = max(l.leading.hw, hw)
	if p.LeaderEpoch < w.era {
		return nil // before an unclean election
	}
	mine := l.log[:l.leading.hw]
	if n := commonPrefix(mine, w.committed); n < len(mine) && n < len(w.committed) {
		return fmt.Errorf("leader %d of epoch %d commits %v, %v was committed", l.id, p.LeaderEpoch, mine, w.committed)
	}
	if len(mine) > len(w.committed) {
		w.committed = slices.Clone(mine)
	}
	return nil
}

// alterISR has a leader ask for a follower to join or to leave.
func (w *world) alterISR(l *modelBroker) {
	p, known := l.partition(), l.leading
	f := p.Replicas[w.rng.IntN(len(p.Replicas))]
	if f == l.id || known.proposed != nil {
		return
	}
	isr := without(p.ISR, f)
	if len(isr) < len(p.ISR) && w.rng.IntN(4) > 0 {
		return // followers are slow now and then
	}
	if !slices.Contains(p.ISR, f) {
		if end, fetches := known.fetched[f]; !fetches || end < known.hw || end < known.epochStart {
			return
		}
		isr = append(isr, f)
	}
	r := kmsg.NewPtrAlterPartitionRequest()
	r.Version, r.BrokerID, r.BrokerEpoch = 3, l.id, l.epoch
	change := kmsg.NewAlterPartitionRequestTopicPartition()
	change.LeaderEpoch, change.PartitionEpoch = p.LeaderEpoch, p.PartitionEpoch
	for _, id := range isr {
		epoch, fetches := known.epochs[id]
		if !fetches || w.rules.hideEpochs {
			epoch = -1
		}
		change.NewEpochISR = append(change.NewEpochISR, kmsg.AlterPartitionRequestTopicPartitionNewEpochISR{BrokerID: id, BrokerEpoch: epoch})
	}
	known.proposed = isr
	t := kmsg.NewAlterPartitionRequestTopic()
	t.TopicID, t.Partitions = l.known.Topic("t").ID, append(t.Partitions, change)
	r.Topics = append(r.Topics, t)
	w.asked = isr
	w.ask(r)
	w.asked = nil
}

// step does one thing at random.
func (w *world) step() error {
	b := w.brokers[1+w.rng.Int32N(modelBrokers)]
	if b.epoch < 0 {
		if w.rng.IntN(3) == 0 {
			w.restart(b)
		}
		return nil
	}
	switch n := w.rng.IntN(100); {
	case n < 2:
		w.stop(b, w.rng.IntN(2) == 0)
	case n < 3:
		if r := w.image.Broker(b.id); !r.Fenced {
			w.commit(w.view().fence(r))
		}
	case n < 12:
		if w.image.Broker(b.id).Epoch == b.epoch {
			w.heartbeat(b, false)
		}
	case n < 13:
		w.reassign()
	case n < 14:
		w.run(fmt.Sprintf("incr topic:t set:min.insync.replicas=%d", 1+w.rng.IntN(3)))
	case n < 16:
		w.run("elect preferred t:0")
	case n < 40:
		w.learn(b)
	case n < 70:
		if l := w.brokers[b.partition().Leader]; l != nil && l != b {
			w.follow(b, l)
		}
	case b.leading == nil:
	case n < 80:
		w.value++
		b.log = append(b.log, w.value)
	case n < 92:
		return w.advance(b)
	default:
		w.alterISR(b)
	}
	return nil
}

func (w *world) reassign() {
	if reassigning(w.partition()) && w.rng.IntN(2) == 0 {
		w.run("reassign t:0=cancel")
		return
	}
	var ids []int32
	for _, i := range w.rng.Perm(modelBrokers)[:1+w.rng.IntN(4)] {
		ids = append(ids, int32(i+1))
	}
	p := kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
	p.Replicas = ids
	r := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	r.Topics = append(r.Topics, kmsg.AlterPartitionAssignmentsRequestTopic{Topic: "t", Partitions: []kmsg.AlterPartitionAssignmentsRequestTopicPartition{p}})
	w.ask(r)
}

// check is run after each step.
func (w *world) check() error {
	p := w.partition()
	if w.fault != nil {
		return w.fault
	}
	if leader, had := w.leaders[p.LeaderEpoch]; had && leader != p.Leader {
		return fmt.Errorf("epoch %d had leader %d, and has %d", p.LeaderEpoch, leader, p.Leader)
	}
	w.leaders[p.LeaderEpoch] = p.Leader
	if p.Leader != noBroker && (!slices.Contains(p.ISR, p.Leader) || !w.view().active(p.Leader)) {
		return fmt.Errorf("leader %d is not in sync, or not in service", p.Leader)
	}
	for _, list := range [][]int32{p.ISR, p.ELR, p.Adding, p.Removing} {
		if !containsAll(p.Replicas, list) || len(slices.Compact(slices.Sorted(slices.Values(list)))) != len(list) {
			return fmt.Errorf("%v of replicas %v", list, p.Replicas)
		}
	}
	if len(p.Directories) != len(p.Replicas) || slices.ContainsFunc(p.ISR, func(id int32) bool { return slices.Contains(p.ELR, id) }) {
		return errors.New("directories, or who is eligible, do not fit")
	}
	for _, id := range slices.Concat(p.ISR, p.ELR) {
		b := w.brokers[id]
		if registered := w.image.Broker(id).Epoch; b.epoch != registered && b.stopped != registered {
			continue // it has died, which the controller hears when it comes back
		}
		if commonPrefix(b.log, w.committed) < len(w.committed) {
			return fmt.Errorf("broker %d has %v, committed is %v", id, b.log, w.committed)
		}
	}
	return nil
}

// play runs a seed to its end, or to the first check that fails.
func play(seed uint64, steps int, rules modelRules) (w *world, err error) {
	w = newWorld(seed, rules)
	for n := range steps {
		err := w.step()
		if err == nil {
			err = w.check()
		}
		if err != nil {
			return w, fmt.Errorf("seed %d, step %d: %w\n%+v", seed, n, err, *w.partition())
		}
	}
	return w, nil
}

// TestModel plays MODEL_SEEDS seeds, 100 unless told.
func TestModel(t *testing.T) {
	seeds := uint64(100)
	if n, err := strconv.ParseUint(os.Getenv("MODEL_SEEDS"), 10, 64); err == nil {
		seeds = n
	}
	committed, lost := 0, 0
	for seed := range seeds {
		w, err := play(seed, 2000, modelRules{})
		if err != nil {
			t.Fatal(err)
		}
		committed, lost = committed+len(w.committed), lost+w.lost
	}
	t.Logf("%d committed, %d lost in unclean elections", committed, lost)
	if committed < int(seeds)*5 {
		t.Errorf("only %d values were committed", committed)
	}
}

func TestModelFindsBrokenRules(t *testing.T) {
	for name, rules := range map[string]modelRules{"stops that only seem clean": {lieAboutStops: true}, "ISRs without broker epochs": {hideEpochs: true}} {
		found := false
		for seed := uint64(0); seed < 300 && !found; seed++ {
			_, err := play(seed, 2000, rules)
			found = err != nil
		}
		if !found {
			t.Errorf("%s: nothing noticed", name)
		}
	}
}
