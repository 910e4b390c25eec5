package replicas

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster/metadata"
	"grete/cluster/replica"
	"grete/internal/clock"
	"grete/internal/vfs"
	"grete/logstore"
	"grete/protocol/batch"
)

const (
	topicName  = "t"
	nodes      = 3
	partitions = 2
	minISR     = 2
)

// world is one run.
type world struct {
	t        testing.TB
	seed     uint64
	mutation mutation
	slow     bool // disks take time, and at times lack space or descriptors for one file
	durable  bool // flush.messages=1: what is committed is fsynced, and any power may be lost
	pace     *vfs.Pace
	log      zerolog.Logger
	control  *control

	mu    sync.Mutex
	rng   *rand.Rand
	lives map[int32]*node // dead ones are absent
	disks map[int32]*vfs.Mem
	cuts  map[[2]int32]bool
	calm  bool    // nothing is lost or delayed any more
	asked []int32 // members of the last ISR that was asked for

	values int
	checks *checks
}

func newWorld(t testing.TB, seed uint64, m mutation) *world {
	w := &world{
		t: t, seed: seed, mutation: m, rng: rand.New(rand.NewPCG(seed, 1)), log: zerolog.Nop(),
		slow: seed%2 == 1, durable: seed%4 >= 2,
		pace:  vfs.NewPace(clock.System, rand.NewPCG(seed, 2), vfs.SlowDisk),
		lives: map[int32]*node{}, disks: map[int32]*vfs.Mem{}, cuts: map[[2]int32]bool{},
	}
	if os.Getenv("SIM_LOG") != "" {
		w.log = zerolog.New(os.Stderr)
	}
	w.control = &control{w: w, im: &metadata.Image{}}
	w.checks = newChecks(w)
	for id := range int32(nodes) {
		w.revive(id, vfs.NewMem())
	}
	id := metadata.UUID{15: 1}
	records := []metadata.Record{&metadata.TopicRecord{Name: topicName, ID: id}}
	for i := range int32(partitions) {
		all := []int32{i % nodes, (i + 1) % nodes, (i + 2) % nodes}
		records = append(records, &metadata.PartitionRecord{Index: i, TopicID: id, Partition: metadata.Partition{Replicas: all, ISR: all, Leader: i % nodes}})
	}
	two, one := fmt.Sprint(minISR), "1"
	records = append(records, &metadata.ConfigRecord{Type: metadata.TopicResource, Name: topicName, Config: "min.insync.replicas", Value: &two})
	if w.durable {
		records = append(records, &metadata.ConfigRecord{Type: metadata.TopicResource, Name: topicName, Config: "flush.messages", Value: &one})
	}
	w.control.mu.Lock()
	w.control.append(records...)
	w.control.mu.Unlock()
	return w
}

func (w *world) must(err error) {
	if err != nil {
		w.t.Errorf("seed %d: %v", w.seed, err)
		panic(err)
	}
}

func (w *world) intN(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rng.IntN(n)
}

// chance is true percent of the time, in troubled times.
func (w *world) chance(percent int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.calm && w.rng.IntN(100) < percent
}

// delay is mostly short and sometimes long.
func (w *world) delay() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.calm {
		return time.Millisecond
	}
	if w.rng.IntN(10) == 0 {
		return time.Duration(w.rng.IntN(400)) * time.Millisecond
	}
	return time.Duration(w.rng.IntN(5)) * time.Millisecond
}

func (w *world) node(id int32) *node {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lives[id]
}

func (w *world) alive() (out []*node) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id := range int32(nodes) {
		if n := w.lives[id]; n != nil {
			out = append(out, n)
		}
	}
	return out
}

func (w *world) isCut(a, b int32) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.calm && w.cuts[[2]int32{min(a, b), max(a, b)}]
}

func (w *world) revive(id int32, fs *vfs.Mem) {
	if w.slow {
		fs.SetPace(w.pace)
	}
	n := w.startNode(id, fs)
	w.mu.Lock()
	w.lives[id] = n
	w.mu.Unlock()
	select {
	case n.news <- struct{}{}:
	default:
	}
}

// crash ends a life; keepPercent of what was not fsynced survives.
func (w *world) crash(n *node, keepPercent int) {
	n.dead.Store(true)
	w.mu.Lock()
	delete(w.lives, n.id)
	w.disks[n.id] = n.fs.CrashClone(w.rng, keepPercent)
	w.mu.Unlock()
	w.checks.note(n)
	n.stop()
}

func (w *world) step() {
	n, dice := w.intN(nodes), w.intN(100)
	node := w.node(int32(n))
	w.log.Info().Int("dice", dice).Int("node", n).Msg("step")
	switch {
	case dice < 55:
		for range 1 + w.intN(4) {
			w.produce()
		}
	case dice < 65:
		w.control.elect(int32(w.intN(partitions)))
	case dice < 70: // A→B→A with nothing written between
		index := int32(w.intN(partitions))
		for range 3 {
			w.control.elect(index)
		}
	case dice < 76 && node != nil:
		w.crash(node, 100)
	case dice < 79 && node != nil && !w.soleInSync(node.id):
		w.crash(node, 25)
		if w.chance(50) { // back before anybody noticed
			w.revive(node.id, w.disks[node.id])
		} else {
			w.control.fence(node.id)
		}
	case dice < 84 && node != nil:
		w.control.fence(node.id) // and it does not know
	case dice < 92 && node == nil:
		w.revive(int32(n), w.disks[int32(n)])
	case dice < 92 && w.control.image().Broker(node.id).Fenced: // it was fenced alive, and finds out
		w.crash(node, 100)
		w.revive(node.id, w.disks[node.id])
	case dice < 94 && w.slow && node != nil:
		w.lack(node)
	case dice < 96:
		w.cut(int32(n), int32(w.intN(nodes+1))-1)
	default:
		w.mu.Lock()
		clear(w.cuts)
		w.mu.Unlock()
		for _, n := range w.alive() {
			n.files.Heal()
		}
	}
	time.Sleep(time.Duration(w.intN(60)) * time.Millisecond)
	if w.intN(20) == 0 {
		time.Sleep(3 * time.Second) // followers fall out of the ISR
	}
}

// derived are the files, by a part of their names, that a log makes again from others.
var derived = []string{".index", ".timeindex", ".snapshot", "leader-epoch-checkpoint", "recovery-point", "replication-offset", "log-start-offset"}

// lack has one kind of file of a node fail for want of space or descriptors until something heals it.
func (w *world) lack(n *node) {
	part, why := derived[w.intN(len(derived))], []error{syscall.ENOSPC, syscall.EMFILE}[w.intN(2)]
	w.log.Info().Int32("node", n.id).Str("file", part).Err(why).Msg("lack")
	n.files.Lack(part, why)
}

func (w *world) cut(a, b int32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cuts[[2]int32{min(a, b), max(a, b)}] = true
}

// soleInSync: the last copy of something may be this node's.
func (w *world) soleInSync(id int32) bool {
	for _, p := range w.control.image().Topic(topicName).Partitions {
		if len(p.ISR) == 1 && p.ISR[0] == id {
			return true
		}
	}
	return false
}

// produce writes to whoever believes that it leads.
func (w *world) produce() {
	index := int32(w.intN(partitions))
	for _, n := range w.alive() {
		p, err := n.replicas.Partition(topicName, index)
		if err != nil || !p.IsLeader() {
			continue
		}
		w.values++
		w.produceTo(n, p, fmt.Sprintf("value %d", w.values))
	}
}

func (w *world) produceTo(n *node, p *replica.Partition, value string) {
	raw, err := batch.Build(batch.BuildOptions{ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1},
		[]batch.Record{{TimestampMs: time.Now().UnixMilli(), Value: append([]byte(value), bytes.Repeat([]byte("."), w.intN(300))...)}})
	w.must(err)
	acks := replica.AckAll
	if w.intN(4) == 0 {
		acks = replica.AckLeader
	}
	a, err := p.Produce(replica.ProduceRequest{Records: raw, ProduceVersion: 9, Acks: acks})
	if err != nil {
		return
	}
	claimed := acks
	if w.mutation == acknowledgeEarly {
		acks = replica.AckLeader
	}
	p.AwaitAck(a, acks, func(err error) {
		if err == nil && claimed == replica.AckAll && !n.dead.Load() {
			w.checks.acked(p.Index, a.BaseOffset, value)
		}
	})
}

// tamper and the like are what mutations do to messages.
func (w *world) tamper(_ *node, req kmsg.Request) {
	f, ok := req.(*kmsg.FetchRequest)
	if !ok || w.mutation != skipDivergence {
		return
	}
	for i := range f.Topics {
		for j := range f.Topics[i].Partitions {
			f.Topics[i].Partitions[j].LastFetchedEpoch = -1
		}
	}
}

func (w *world) tamperAnswer(resp kmsg.Response) {
	f, ok := resp.(*kmsg.FetchResponse)
	if !ok || w.mutation != alterRecords || !w.chance(5) {
		return
	}
	for i := range f.Topics {
		for j := range f.Topics[i].Partitions {
			raw := f.Topics[i].Partitions[j].RecordBatches
			if b, _, err := batch.Next(raw); err == nil {
				b[len(b)-2] ^= 1 // the last byte of the last value
				binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli)))
			}
		}
	}
}

// mislead is what n is told of a decision.
func (w *world) mislead(n *node, records []metadata.Record) []metadata.Record {
	if w.mutation != twoLeaders || !w.chance(20) {
		return records
	}
	out := slices.Clone(records)
	for i, r := range out {
		if c, ok := r.(*metadata.PartitionChangeRecord); ok && c.Leader >= 0 {
			lie := *c
			lie.Leader = n.id
			out[i] = &lie
		}
	}
	return out
}

func (w *world) noteAsked(req *kmsg.AlterPartitionRequest) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked = nil
	for _, m := range req.Topics[0].Partitions[0].NewEpochISR {
		w.asked = append(w.asked, m.BrokerID)
	}
}

// loseAsked restarts, without its data, a broker that somebody wants in an ISR.
func (w *world) loseAsked() {
	w.mu.Lock()
	asked := w.asked
	w.asked = nil
	w.mu.Unlock()
	if len(asked) < 2 {
		return
	}
	if n := w.node(asked[len(asked)-1]); n != nil && !w.soleInSync(n.id) {
		w.crash(n, 0)
		w.revive(n.id, w.disks[n.id])
	}
}

// meddle is what mutations do to logs.
func (w *world) meddle() {
	if w.mutation == forgetBrokerEpochs {
		w.loseAsked()
	}
	for _, n := range w.alive() {
		for p := range n.replicas.Partitions() {
			log := p.Log()
			switch {
			case w.mutation == commitEarly && p.IsLeader() && w.chance(20):
				log.SetHighWatermark(log.EndOffset())
			case w.mutation == takeBack && log.HighWatermark() > 0 && w.chance(5):
				log.SetHighWatermark(log.HighWatermark() - 1)
			}
		}
	}
}

// heal ends all faults and waits until everything must be well.
func (w *world) heal() {
	w.mu.Lock()
	w.calm = true
	w.mu.Unlock()
	for id := range int32(nodes) {
		if n := w.node(id); n == nil {
			w.revive(id, w.disks[id])
		} else if n.files.Heal(); w.control.image().Broker(id).Fenced {
			w.crash(n, 100)
			w.revive(id, w.disks[id])
		}
	}
	time.Sleep(20 * time.Second)
	w.produce()
	time.Sleep(5 * time.Second)
}

// run plays steps until something is wrong.
func (w *world) run(steps int) string {
	defer func() {
		for _, n := range w.alive() {
			n.stop()
		}
	}()
	time.Sleep(time.Second)
	for i := range steps {
		w.step()
		w.meddle()
		if w.rest(); w.busy() {
			continue // a trouble of the next step meets what the disks are at
		}
		w.log.Info().Msg(w.checks.describe(0) + " | " + w.checks.describe(1))
		if wrong := w.still(w.checks.check); wrong != "" {
			return fmt.Sprintf("step %d: %s", i, wrong)
		}
	}
	w.heal()
	for w.rest(); w.busy(); w.rest() {
		time.Sleep(time.Millisecond)
	}
	if wrong := w.still(w.checks.check); wrong != "" {
		return "healed: " + wrong
	}
	return w.still(w.checks.healed)
}

// still lets disks take no time during look, which then happens in one moment.
func (w *world) still(look func() string) string {
	for _, n := range w.alive() {
		n.fs.SetPace(nil)
	}
	defer func() {
		for _, n := range w.alive() {
			if w.slow {
				n.fs.SetPace(w.pace)
			}
		}
	}()
	return look()
}

// rest returns when nothing happens before time passes.
func (w *world) rest() { synctest.Wait() }

// busy says whether a broker may be in the middle of something, for a disk takes its time. Of the times that it may be,
// one in three is waited out.
func (w *world) busy() bool {
	for range 1 + w.intN(3)/2*1000 {
		under := 0
		for _, n := range w.alive() {
			under += n.fs.Busy()
		}
		if under == 0 {
			return false
		}
		time.Sleep(time.Millisecond)
		w.rest()
	}
	return true
}

func logOf(n *node, index int32) *logstore.Log {
	return n.store.Log(logstore.ID{Topic: topicName, Partition: index})
}
