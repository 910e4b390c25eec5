package sim

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"testing/synctest"
	"time"

	"grete/cluster/metadata"
	"grete/cmd/broker/node"
	"grete/internal/history"
	"grete/logstore"
	"grete/protocol/batch"
)

// entry is a batch of a log.
type entry struct {
	base, last int64
	epoch      int32
	hash       uint64 // of all its bytes
}

// copyOf is a replica as it was last seen, in one life.
type replicaLog struct {
	life    *life
	log     *logstore.Log
	entries []entry
	end, hw int64
	looks   int

	// of a compacted log: what was read last, how far it was committed before, and whether it was all
	rows   []row
	rowsHW int64
	whole  bool
}

// partitionID is a partition of one incarnation of a topic.
type partitionID struct {
	topic metadata.UUID
	index int32
}

// known is what is remembered of a partition: what was true once must be for ever.
type known struct {
	name      logstore.ID
	committed map[int64]entry // below some high watermark, by base offset
	highest   int64           // of the high watermarks so far
	leaders   map[int32]int32 // by epoch, of the metadata log
	unread    int32           // epochs below may have passed without a look
	isrs      []inSync        // the last ones that differ, of the metadata log
	reached   map[int32]int64 // ends that nodes' logs had, by node
	replicas  map[int32]*replicaLog
	acked     []acknowledged // to be found
	table     *table         // of a compacted log
}

// inSync is an ISR of a leadership.
type inSync struct {
	leader, epoch int32
	isr           []int32
}

func (a inSync) is(b inSync) bool {
	return a.leader == b.leader && a.epoch == b.epoch && slices.Equal(a.isr, b.isr)
}

// acknowledged is a value that a client was told is safe.
type acknowledged struct {
	offset int64
	value  string
}

// checks remembers, and compares.
type checks struct {
	w     *world
	seed  maphash.Seed
	image *metadata.Image // as the metadata log makes it
	next  int64           // offset of the metadata log that was read last, plus one
	parts map[partitionID]*known
	terms map[int32]int32 // leaders of the quorum, by epoch
}

const (
	rememberedISRs = 40
	wholeEvery     = 16 // looks at a log between two that read all of it
)

func newChecks(w *world) *checks {
	return &checks{
		w: w, seed: maphash.MakeSeed(), image: &metadata.Image{}, parts: map[partitionID]*known{}, terms: map[int32]int32{},
	}
}

var quorumLog = partitionID{metadata.MetadataTopicID, 0}

func (c *checks) part(id partitionID, name logstore.ID) *known {
	k := c.parts[id]
	if k == nil {
		k = &known{
			name: name, committed: map[int64]entry{}, leaders: map[int32]int32{}, reached: map[int32]int64{}, replicas: map[int32]*replicaLog{},
		}
		if compacted(name) {
			k.table = newTable()
		}
		c.parts[id] = k
	}
	return k
}

// member is a broker that runs.
type member struct {
	m *machine
	l *life
	node.Inside
}

func (c *checks) members() (out []member) {
	for _, m := range c.w.machines {
		if n := m.running(); n != nil {
			m.unseen = false
			out = append(out, member{m, m.now, n.Inside()})
		}
	}
	return out
}

// check returns what is wrong, beginning with the number of the invariant in FAULTS; everything stands still meanwhile.
func (c *checks) check() string {
	members, wrong, at := c.readAtOnce()
	if wrong != "" || !at {
		return wrong
	}
	for _, look := range []func([]member) string{c.readMetadata, c.leaderships} {
		if wrong := look(members); wrong != "" {
			return wrong
		}
	}
	for id, k := range c.parts {
		looks := []func(partitionID, *known) string{c.watermark, c.agreement, c.matching, c.inSync, c.found}
		if k.table != nil {
			looks = []func(partitionID, *known) string{c.watermark, c.compaction, c.found}
		}
		for _, look := range looks {
			if wrong := look(id, k); wrong != "" {
				return fmt.Sprintf("%s (%s: %s)", wrong, k.name, c.describe(id, k))
			}
		}
	}
	return ""
}

// readAtOnce reads all logs in one moment; not where a lock that some broker holds over a slow disk lets time pass.
// What cannot be read while a disk is at work, as in the middle of a truncation, is read again when it has gone on.
func (c *checks) readAtOnce() (members []member, wrong string, atOnce bool) {
	for range 50 {
		began := time.Now()
		members = c.members()
		wrong = c.readLogs(members)
		switch atOnce = time.Now().Equal(began); {
		case wrong != "" && c.w.busy():
			time.Sleep(c.w.stretch(100 * time.Millisecond))
		case atOnce:
			return members, wrong, true
		}
		synctest.Wait()
	}
	c.w.done.unlooked++
	return members, "", false
}

func (c *checks) describe(id partitionID, k *known) string {
	var b strings.Builder
	if t := c.image.TopicByID(id.topic); t != nil {
		p := t.Partitions[id.index]
		fmt.Fprintf(&b, "leader %d epoch %d isr %v replicas %v", p.Leader, p.LeaderEpoch, p.ISR, p.Replicas)
	}
	for _, m := range c.w.machines {
		if r := k.replicas[m.id]; r != nil {
			fmt.Fprintf(&b, "; n%d end %d hw %d epoch %d", m.id, r.end, r.hw, r.log.LatestEpoch())
		}
	}
	return b.String()
}

// describeName is describe for a failure that a client has found.
func (c *checks) describeName(p history.Partition) (text string) {
	for id, k := range c.parts {
		if k.name.Topic == p.Topic && k.name.Partition == p.ID {
			text += fmt.Sprintf("committed to %d; ", k.highest) + c.describe(id, k)
			for n, r := range k.replicas {
				text += fmt.Sprintf("; n%d now end %d hw %d", n, r.log.EndOffset(), r.log.HighWatermark())
			}
		}
	}
	return text
}

// anyHas says whether a log has the batch, whatever became of the answer.
func (c *checks) anyHas(b pending) bool {
	for _, m := range c.members() {
		log := m.Store.Log(logstore.ID{Topic: b.p.Topic, Partition: b.p.ID})
		if log == nil {
			continue
		}
		for at := log.StartOffset(); at < log.EndOffset(); {
			raw, err := readSome(log, at, log.EndOffset())
			if err != nil {
				break
			}
			for len(raw) > 0 {
				var of batch.Batch
				of, raw, _ = batch.Next(raw)
				at = of.LastOffset() + 1
				if of.ProducerID() == b.raw.ProducerID() && of.ProducerEpoch() == b.raw.ProducerEpoch() && of.BaseSequence() == b.raw.BaseSequence() {
					return true
				}
			}
		}
	}
	return false
}

// remember notes how far the logs of a life had come when it ended.
func (c *checks) remember(l *life) {
	if n := l.node.Load(); n != nil {
		for _, log := range n.Inside().Store.Logs() {
			k := c.part(partitionID{log.TopicID(), log.ID().Partition}, log.ID())
			k.reached[l.m.id] = max(k.reached[l.m.id], log.EndOffset())
		}
	}
}

// readLogs takes in what all logs hold.
func (c *checks) readLogs(members []member) string {
	for _, k := range c.parts {
		for id, r := range k.replicas {
			if !r.life.alive.Load() {
				delete(k.replicas, id)
			}
		}
	}
	for _, m := range members {
		seen := map[*known]bool{}
		for _, log := range m.Store.Logs() {
			k := c.part(partitionID{log.TopicID(), log.ID().Partition}, log.ID())
			seen[k] = true
			if err := c.readLog(m, k, log); err != nil {
				return fmt.Sprintf("13: n%d cannot read %s: %v", m.m.id, log.ID(), err)
			}
		}
		for _, k := range c.parts { // it may have been taken away
			if r := k.replicas[m.m.id]; r != nil && !seen[k] {
				delete(k.replicas, m.m.id)
			}
		}
	}
	return ""
}

// readLog reads on from what was committed, and now and then everything.
func (c *checks) readLog(m member, k *known, log *logstore.Log) error {
	r := k.replicas[m.m.id]
	if r == nil || r.life != m.l || r.log != log {
		r = &replicaLog{life: m.l, log: log}
		k.replicas[m.m.id] = r
	}
	r.looks++
	r.rows, r.rowsHW = nil, log.HighWatermark()
	keep := slices.IndexFunc(r.entries, func(e entry) bool { return e.last >= min(r.hw, log.HighWatermark()) })
	if keep < 0 {
		keep = len(r.entries)
	}
	if r.looks%wholeEvery == 0 {
		keep = 0
	}
	r.entries = r.entries[:keep]
	at := log.StartOffset() // a snapshot may have taken the place of what was read before
	r.entries = slices.DeleteFunc(r.entries, func(e entry) bool { return e.base < at })
	if keep = len(r.entries); keep > 0 {
		at = max(at, r.entries[keep-1].last+1)
	}
	r.whole = keep == 0
	for end := log.EndOffset(); at < end; {
		raw, err := readSome(log, at, end)
		if errors.Is(err, errNothing) && k.table != nil {
			break // the last batches are compacted away
		}
		if err != nil {
			return err
		}
		for len(raw) > 0 {
			b, rest, err := batch.Next(raw)
			if err != nil {
				return err
			}
			if k.table != nil {
				rows, err := c.rowsOf(b)
				if err != nil {
					return err
				}
				r.rows = append(r.rows, rows...)
			}
			if !b.ChecksumOK() {
				return fmt.Errorf("bad checksum at %d", b.BaseOffset())
			}
			r.entries = append(r.entries, entry{b.BaseOffset(), b.LastOffset(), b.PartitionLeaderEpoch(), maphash.Bytes(c.seed, b)})
			raw, at = rest, b.LastOffset()+1
		}
	}
	r.end = log.EndOffset()
	k.reached[m.m.id] = max(k.reached[m.m.id], r.end)
	return nil
}

var errNothing = errors.New("nothing")

func readSome(log *logstore.Log, from, end int64) ([]byte, error) {
	span, err := log.Read(from, logstore.ReadOptions{MaxBytes: 1 << 20, Bound: end, MinOneBatch: true})
	if err != nil {
		return nil, err
	}
	defer span.Release()
	raw, err := span.ReadAll()
	if err == nil && len(raw) == 0 {
		err = fmt.Errorf("%w at %d of %d", errNothing, from, end)
	}
	return raw, err
}

// readMetadata follows the committed metadata log, and holds its changes against invariant 2.
func (c *checks) readMetadata(members []member) string {
	var best *replicaLog
	for _, r := range c.parts[quorumLog].replicasOrNone() {
		if r.log.HighWatermark() > c.next && r.log.StartOffset() <= c.next && (best == nil || r.log.HighWatermark() > best.log.HighWatermark()) {
			best = r
		}
	}
	if best == nil {
		c.adopt(members)
		return ""
	}
	for end := best.log.HighWatermark(); c.next < end; {
		raw, err := readSome(best.log, c.next, end)
		if err != nil {
			return "11: the metadata log: " + err.Error()
		}
		for len(raw) > 0 {
			var b batch.Batch
			if b, raw, err = batch.Next(raw); err != nil {
				return "11: the metadata log: " + err.Error()
			}
			if wrong := c.applyBatch(b); wrong != "" {
				return wrong
			}
			c.next = b.LastOffset() + 1
		}
	}
	return ""
}

// adopt goes on from a broker's image where the log has given way to a snapshot before it was read, as in half an hour
// without a look. What was changed meanwhile is not known: former leaders of that time are taken for granted.
func (c *checks) adopt(members []member) {
	newest := c.image
	for _, m := range members {
		if m.Image.Offset() > newest.Offset() && m.Image.Offset() >= c.next {
			newest = m.Image
		}
	}
	if newest == c.image {
		return
	}
	c.image, c.next = newest, newest.Offset()+1
	c.w.done.adopted++
	for t := range newest.Topics() {
		for i, p := range t.Partitions {
			k := c.part(partitionID{t.ID, int32(i)}, logstore.ID{Topic: t.Name, Partition: int32(i)})
			k.leaders[p.LeaderEpoch], k.isrs, k.unread = p.Leader, nil, p.LeaderEpoch
		}
	}
}

func (k *known) replicasOrNone() map[int32]*replicaLog {
	if k == nil {
		return nil
	}
	return k.replicas
}

func (c *checks) applyBatch(b batch.Batch) string {
	if b.Control() {
		return ""
	}
	for r, err := range b.Records() {
		var record metadata.Record
		if err == nil {
			record, err = metadata.DecodeRecord(r.Value)
		}
		if err == nil {
			c.image, _, err = c.image.Apply([]metadata.Record{record}, r.Offset, b.PartitionLeaderEpoch())
		}
		if err != nil {
			return fmt.Sprintf("11: the metadata log at %d: %v", b.BaseOffset(), err)
		}
		if wrong := c.changed(record); wrong != "" {
			return fmt.Sprintf("%s, at %d of the metadata log", wrong, r.Offset)
		}
	}
	return ""
}

// changed is invariant 2 for one record.
func (c *checks) changed(r metadata.Record) string {
	var id partitionID
	switch r := r.(type) {
	case *metadata.PartitionRecord:
		id = partitionID{r.TopicID, r.Index}
	case *metadata.PartitionChangeRecord:
		id = partitionID{r.TopicID, r.Index}
	default:
		return ""
	}
	t := c.image.TopicByID(id.topic)
	p := t.Partitions[id.index]
	k := c.part(id, logstore.ID{Topic: t.Name, Partition: id.index})
	if p.Leader >= 0 && !slices.Contains(p.ISR, p.Leader) {
		return fmt.Sprintf("2: leader %d of %s is not in the ISR %v", p.Leader, k.name, p.ISR)
	}
	if was, ok := k.leaders[p.LeaderEpoch]; ok && was != p.Leader {
		return fmt.Sprintf("2: brokers %d and %d lead %s at epoch %d", was, p.Leader, k.name, p.LeaderEpoch)
	}
	k.leaders[p.LeaderEpoch] = p.Leader
	now := inSync{p.Leader, p.LeaderEpoch, p.ISR}
	k.isrs = append(slices.DeleteFunc(k.isrs, now.is), now) // a replica that comes and goes must not crowd out the others
	k.isrs = k.isrs[max(0, len(k.isrs)-rememberedISRs):]
	return ""
}

// leaderships: who leads, a partition or the quorum, was made leader by the log (invariants 2 and 12).
func (c *checks) leaderships(members []member) string {
	for _, m := range members {
		if l := m.Quorum; l.NodeID == m.m.id {
			if other, ok := c.terms[l.Epoch]; ok && other != m.m.id {
				return fmt.Sprintf("11: n%d and n%d lead the quorum at epoch %d", other, m.m.id, l.Epoch)
			}
			c.terms[l.Epoch] = m.m.id
		}
		for p := range m.Replicas.Partitions() {
			k := c.parts[partitionID{p.TopicID, p.Index}]
			if k == nil || !p.IsLeader() {
				continue
			}
			if made, ok := k.leaders[p.LeaderEpoch()]; !ok && p.LeaderEpoch() >= k.unread || ok && made != m.m.id {
				return fmt.Sprintf("2: n%d leads %s at epoch %d, where the metadata log has %d", m.m.id, k.name, p.LeaderEpoch(), made)
			}
		}
	}
	return ""
}

// watermark is invariant 4: never backwards in a life, and what is new below it had been reached by all of some ISR.
func (c *checks) watermark(id partitionID, k *known) string {
	for n, r := range k.replicas {
		hw := r.log.HighWatermark()
		if hw < r.hw {
			return fmt.Sprintf("4: the high watermark of n%d went from %d to %d", n, r.hw, hw)
		}
		if hw > r.end {
			return fmt.Sprintf("4: the high watermark of n%d is %d, its end %d", n, hw, r.end)
		}
		r.hw = hw
		if hw <= k.highest {
			continue
		}
		if id != quorumLog && !c.confirmed(k, hw, c.minISR(id)) {
			return fmt.Sprintf("4: the high watermark of n%d is %d, which no ISR has reached; reached: %v, ISRs: %v", n, hw, k.reached, k.isrs)
		}
		if id == quorumLog && c.copies(k, hw) <= len(c.w.machines)/2 {
			return fmt.Sprintf("11: n%d has committed %d with %d copies", n, hw, c.copies(k, hw))
		}
		k.highest = hw
	}
	return ""
}

func (c *checks) minISR(id partitionID) int {
	t := c.image.TopicByID(id.topic)
	if t == nil {
		return 0
	}
	least := 2
	return min(least, len(t.Partitions[id.index].Replicas))
}

// confirmed: some ISR of enough members has all come to end.
func (c *checks) confirmed(k *known, end int64, minISR int) bool {
	if len(k.isrs) == 0 {
		return true // a topic that is gone
	}
	return slices.ContainsFunc(k.isrs, func(s inSync) bool {
		short := func(n int32) bool { return !c.mayHave(k, n, end) }
		return len(s.isr) >= minISR && !slices.ContainsFunc(s.isr, short)
	})
}

// mayHave: n's log has been as long as that, or nobody could look.
func (c *checks) mayHave(k *known, n int32, end int64) bool {
	return k.reached[n] >= end || c.w.machines[n-1].unseen
}

func (c *checks) copies(k *known, end int64) (copies int) {
	for _, m := range c.w.machines {
		if c.mayHave(k, m.id, end) {
			copies++
		}
	}
	return copies
}

// agreement is the one value per offset of invariants 1, 6 and 11.
func (c *checks) agreement(_ partitionID, k *known) string {
	for n, r := range k.replicas {
		for _, e := range r.entries {
			if e.last >= r.hw {
				break
			}
			if was, ok := k.committed[e.base]; ok && was != e {
				return fmt.Sprintf("1: n%d has another batch at %d (epoch %d) than was committed there (epoch %d)", n, e.base, e.epoch, was.epoch)
			}
			k.committed[e.base] = e
		}
	}
	return ""
}

// matching is invariant 3: logs that have a batch of the same epoch at an offset are the same up to there.
func (c *checks) matching(_ partitionID, k *known) string {
	for a, x := range k.replicas {
		for b, y := range k.replicas {
			if a < b {
				if at := differ(x.entries, y.entries); at >= 0 {
					return fmt.Sprintf("3: n%d and n%d differ at %d and agree after it", a, b, at)
				}
			}
		}
	}
	return ""
}

// differ goes back from the ends; −1: they do not differ below a common epoch.
func differ(x, y []entry) int64 {
	i, j, same := len(x)-1, len(y)-1, false
	for i >= 0 && j >= 0 {
		switch p, q := x[i], y[j]; {
		case p.base > q.base:
			if same {
				return p.base
			}
			i--
		case p.base < q.base:
			if same {
				return q.base
			}
			j--
		default:
			same = same || p.epoch == q.epoch
			if same && p != q {
				return p.base
			}
			i, j = i-1, j-1
		}
	}
	return -1
}

// inSync are invariants 1 and 5: who is in the ISR has all that is committed.
func (c *checks) inSync(id partitionID, k *known) string {
	t := c.image.TopicByID(id.topic)
	if t == nil || int(id.index) >= len(t.Partitions) {
		return ""
	}
	for _, n := range t.Partitions[id.index].ISR {
		r := k.replicas[n]
		if r == nil {
			continue
		}
		if lacks := k.lacks(r); lacks >= 0 {
			return fmt.Sprintf("5: n%d is in the ISR without the batch at %d", n, lacks)
		}
	}
	return ""
}

// lacks returns the base of a committed batch that a replica does not have, −1 for none.
func (k *known) lacks(r *replicaLog) int64 {
	has := 0
	for _, e := range r.entries {
		if was, ok := k.committed[e.base]; ok && was == e {
			has++
		}
	}
	if has == len(k.committed) || r.log.StartOffset() > 0 {
		return -1
	}
	for base, e := range k.committed {
		if !slices.Contains(r.entries, e) {
			return base
		}
	}
	return -1
}

// found is invariant 6: what was acknowledged is there, and committed.
func (c *checks) found(_ partitionID, k *known) string {
	k.acked = append(k.acked, c.w.clients.takeAcked(history.Partition{Topic: k.name.Topic, ID: k.name.Partition})...)
	if k.table != nil {
		for _, a := range k.acked {
			if _, lost := k.foundRow(c, a); lost {
				return fmt.Sprintf("6: %q was acknowledged at %d and is not there", a.value, a.offset)
			}
		}
		k.acked = slices.DeleteFunc(k.acked, func(a acknowledged) bool { found, _ := k.foundRow(c, a); return found })
		return ""
	}
	k.acked = slices.DeleteFunc(k.acked, func(a acknowledged) bool { return c.verified(k, a) })
	for _, a := range k.acked {
		if a.offset < k.highest && len(k.replicas) > 0 && c.anyFull(k) {
			other, _ := c.valueAt(k, a)
			return fmt.Sprintf("6: %q was acknowledged at %d and is not there, but %q", a.value, a.offset, other)
		}
	}
	return ""
}

func (c *checks) anyFull(k *known) bool {
	for _, r := range k.replicas {
		if r.end >= k.highest {
			return true
		}
	}
	return false
}

// verified finds the value in a replica's batch that is the committed one.
func (c *checks) verified(k *known, a acknowledged) bool {
	value, found := c.valueAt(k, a)
	return found && value == a.value
}

// valueAt is the committed value where a was acknowledged.
func (c *checks) valueAt(k *known, a acknowledged) (value string, found bool) {
	for _, r := range k.replicas {
		i := slices.IndexFunc(r.entries, func(e entry) bool { return e.base <= a.offset && a.offset <= e.last })
		if i < 0 || k.committed[r.entries[i].base] != r.entries[i] {
			continue
		}
		raw, err := readSome(r.log, a.offset, r.end)
		if err != nil {
			continue
		}
		b, _, err := batch.Next(raw)
		if err != nil {
			continue
		}
		for rec, err := range b.Records() {
			if err == nil && rec.Offset == a.offset {
				return string(rec.Value), true
			}
		}
	}
	return "", false
}

// healed is what must be so in the end: everybody is in sync and has the same, nothing is open, and what clients saw is
// what Kafka promises.
func (c *checks) healed(ctx context.Context) string {
	w := c.w
	if !w.eventually(w.stretch(3*60*1e9), func() bool { return w.allUp() && c.look() == "" && c.unhealed() == "" }) {
		return "healed, and still " + c.unhealed() + w.describe()
	}
	if wrong := w.whatIsWrong(); wrong != "" {
		return wrong
	}
	if err := w.clients.finish(ctx); err != nil {
		return "healed, and clients cannot finish: " + err.Error()
	}
	if wrong := w.look(); wrong != "" {
		return "in the end: " + wrong
	}
	report := history.Check(w.clients.history())
	w.done.Stats = report.Stats
	if !report.OK() {
		return "history: " + report.String()
	}
	return ""
}

func (c *checks) look() string {
	if wrong := c.w.look(); wrong != "" {
		c.w.found("%s", wrong)
	}
	return ""
}

func (c *checks) unhealed() string {
	for _, m := range c.members() {
		if len(m.Peers) != len(c.w.machines) {
			return fmt.Sprintf("n%d sees by gossip %v", m.m.id, m.Peers)
		}
	}
	for t := range c.image.Topics() {
		for i, p := range t.Partitions {
			id := partitionID{t.ID, int32(i)}
			k := c.parts[id]
			if p.Leader < 0 || len(p.ISR) != len(p.Replicas) || k == nil {
				return fmt.Sprintf("%s-%d has leader %d isr %v", t.Name, i, p.Leader, p.ISR)
			}
			first := k.replicas[p.Replicas[0]]
			for _, n := range p.Replicas {
				r := k.replicas[n]
				if r == nil || first == nil || r.end != first.end || k.table == nil && !slices.Equal(r.entries, first.entries) || r.hw != r.end || r.log.LastStableOffset() != r.end {
					return "not the same on all: " + k.name.String() + " " + c.describe(id, k)
				}
			}
		}
	}
	return ""
}
