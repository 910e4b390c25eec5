package group

import (
	"cmp"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"

	"grete/coordinator"
)

type classicState int8

const (
	empty classicState = iota
	preparingRebalance
	completingRebalance
	stable
	dead
)

var classicStateNames = [...]string{"Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead"}

func (s classicState) String() string { return classicStateNames[s] }

const consumerProtocolType = "consumer"

// classicGroup is a group whose members join, let their leader assign, and sync (KIP-62, 134, 345, 394). Its record
// holds the last generation that was synced; everything about joining is only here.
type classicGroup struct {
	id           string
	state        classicState
	before       classicState // the state before this one
	sinceMs      int64        // when state began; unknownTimestampMs in very old records
	protocolType string       // "": a simple group, which only commits
	protocol     *string
	generation   int32
	leader       string // member id, "" when none

	members      []*member // in the order of joining
	byID         map[string]*member
	static       map[string]*member            // by group.instance.id
	pendingJoin  map[string]*coordinator.Timer // ids given out and not joined with yet (KIP-394)
	supported    map[string]int                // protocol → members that support it
	awaitingJoin int                           // members with a parked JoinGroup
	pendingSync  int                           // members whose SyncGroup of this generation is missing
	subscribed   map[string]struct{}           // nil: unknown
	memberAdded  bool                          // since the initial rebalance delay was last extended
	joinTimer    coordinator.Timer
	syncTimer    coordinator.Timer
	weight       weight
}

func newClassicGroup(id string) *classicGroup {
	return &classicGroup{
		id: id, before: dead, byID: make(map[string]*member), static: make(map[string]*member),
		pendingJoin: make(map[string]*coordinator.Timer), supported: make(map[string]int),
	}
}

func (g *classicGroup) kind() string             { return "classic" }
func (g *classicGroup) stateName() string        { return g.state.String() }
func (g *classicGroup) protocolTypeName() string { return g.protocolType }
func (g *classicGroup) empty() bool              { return g.state == empty }
func (g *classicGroup) dissolve()                { g.state = dead }

func (g *classicGroup) transition(to classicState, nowMs int64) {
	g.before, g.state, g.sinceMs = g.state, to, nowMs
}

// add makes m a member; the first one sets the protocol type and leads.
func (g *classicGroup) add(m *member) {
	if len(g.members) == 0 && m.protocolType != "" {
		g.protocolType = m.protocolType
	}
	if g.leader == "" {
		g.leader = m.id
	}
	g.members = append(g.members, m)
	g.byID[m.id] = m
	if m.instance != nil {
		g.static[*m.instance] = m
	}
	g.countProtocols(m, 1)
	g.weigh(m)
	delete(g.pendingJoin, m.id)
}

// weigh is called where m takes more or less than it did.
func (g *classicGroup) weigh(m *member) {
	now := m.bytes()
	g.weight.change(now - m.counted)
	m.counted = now
}

// remove takes out a member or a pending one, whose timer it stops; the leadership goes to the one who joined first.
func (g *classicGroup) remove(tx *coordinator.Tx, id string) {
	if t := g.pendingJoin[id]; t != nil {
		tx.Cancel(t)
		delete(g.pendingJoin, id)
	}
	m := g.byID[id]
	if m == nil {
		return
	}
	tx.Cancel(&m.session)
	g.weight.change(-m.counted)
	m.counted = 0
	delete(g.byID, id)
	g.members = without(g.members, m)
	if m.instance != nil {
		delete(g.static, *m.instance)
	}
	g.countProtocols(m, -1)
	g.setJoin(m, nil)
	g.setSyncPending(m, false)
	if g.leader == id {
		g.leader = ""
		if len(g.members) > 0 {
			g.leader = g.members[0].id
		}
	}
}

func without(members []*member, m *member) []*member {
	for i := range members {
		if members[i] == m {
			return append(members[:i:i], members[i+1:]...)
		}
	}
	return members
}

func (g *classicGroup) countProtocols(m *member, by int) {
	for _, p := range m.protocols {
		if g.supported[p.name] += by; g.supported[p.name] == 0 {
			delete(g.supported, p.name)
		}
	}
}

func (g *classicGroup) setJoin(m *member, answer joinAnswer) {
	if m.join != nil {
		g.awaitingJoin--
	}
	if m.join = answer; answer != nil {
		g.awaitingJoin++
	}
}

func (g *classicGroup) setSyncPending(m *member, pending bool) {
	if m.syncPending == pending {
		return
	}
	m.syncPending = pending
	if pending {
		g.pendingSync++
	} else {
		g.pendingSync--
	}
}

func (g *classicGroup) allJoined() bool {
	return len(g.members) == g.awaitingJoin && len(g.pendingJoin) == 0
}

// rebalanceTimeoutMs is the longest of its members', and at least 1: static members are waited for again and again, so
// that time must pass in between.
func (g *classicGroup) rebalanceTimeoutMs() int64 {
	longest := int32(1)
	for _, m := range g.members {
		longest = max(longest, m.rebalanceTimeoutMs)
	}
	return int64(longest)
}

// supports tells whether a member with these protocols fits the group: at least one that every member supports.
func (g *classicGroup) supports(protocolType string, protocols []protocol) bool {
	if g.state == empty {
		return protocolType != "" && len(protocols) > 0
	}
	if g.protocolType != protocolType {
		return false
	}
	for _, p := range protocols {
		if g.supported[p.name] == len(g.members) {
			return true
		}
	}
	return false
}

// selectProtocol lets each member vote for its first protocol that all support; of equal votes the order of Kafka's
// hash map decides.
func (g *classicGroup) selectProtocol() *string {
	votes := make(map[string]int)
	var names []string // in the order of their first votes
	for _, m := range g.members {
		for _, p := range m.protocols {
			if g.supported[p.name] == len(g.members) {
				if votes[p.name]++; votes[p.name] == 1 {
					names = append(names, p.name)
				}
				break
			}
		}
	}
	if len(names) == 0 {
		return nil
	}
	best := slices.MinFunc(names, func(a, b string) int {
		return cmp.Or(votes[b]-votes[a], cmp.Compare(javaBucket(a, len(names)), javaBucket(b, len(names))))
	})
	return &best
}

// javaBucket is where a key is in a java.util.HashMap of so many, which is gone over in this order.
func javaBucket(key string, entries int) uint32 {
	buckets := uint32(16)
	for entries > int(buckets)*3/4 {
		buckets *= 2
	}
	h := uint32(coordinator.JavaHash(key))
	return (h ^ h>>16) & (buckets - 1)
}

// checkMember refuses unknown members (25), and fences a member whose instance id another one has taken over (82).
func (g *classicGroup) checkMember(id string, instance *string) error {
	if instance != nil {
		switch m := g.static[*instance]; {
		case m == nil:
			return kerr.UnknownMemberID
		case m.id != id:
			return kerr.FencedInstanceID
		}
	}
	if g.byID[id] == nil {
		return kerr.UnknownMemberID
	}
	return nil
}

func (g *classicGroup) checkCommit(c commitContext) error {
	if g.state == empty && c.generation < 0 {
		return nil // an admin client, or a consumer that assigns by itself
	}
	if c.generation < 0 && c.memberID == "" && c.instanceID == nil {
		if c.transactional {
			return nil
		}
		return kerr.UnknownMemberID
	}
	if err := g.checkMember(c.memberID, c.instanceID); err != nil {
		return err
	}
	switch {
	case c.generation != g.generation:
		return kerr.IllegalGeneration
	case g.state == completingRebalance && !c.transactional:
		return kerr.RebalanceInProgress
	}
	return nil
}

// checkFetch accepts anyone: a classic group's offsets can be read without membership.
func (g *classicGroup) checkFetch(*string, int32) error { return nil }

func (g *classicGroup) checkOffsetDelete() error {
	if g.state != empty && g.protocolType != consumerProtocolType {
		return kerr.NonEmptyGroup
	}
	return nil
}

func (g *classicGroup) checkDelete() error {
	if g.state != empty {
		return kerr.NonEmptyGroup
	}
	return nil
}

func (g *classicGroup) touch(tx *coordinator.Tx, memberID string) {
	if m := g.byID[memberID]; m != nil && (g.state == stable || g.state == preparingRebalance) {
		m.keepAlive(tx)
	}
}

// expiryBaseMs follows Kafka: an empty group's offsets count from when it became empty, those of topics no longer
// subscribed to by a stable group of consumers and those of simple groups from their commit.
func (g *classicGroup) expiryBaseMs(c *committed) (int64, bool) {
	switch {
	case g.protocolType == "":
		return c.commitMs, true
	case g.state == empty && g.sinceMs != unknownTimestampMs:
		return g.sinceMs, true
	case g.state == empty:
		return c.commitMs, true
	case g.protocolType == consumerProtocolType && g.subscribed != nil && g.state == stable:
		return c.commitMs, true
	}
	return 0, false
}

// checkPartition: the generation has been checked, and holds for all.
func (g *classicGroup) checkPartition(commitContext, topicID, int32) error { return nil }

// cancelTimers stops everything that waits, for a group that is given up.
func (g *classicGroup) cancelTimers(tx *coordinator.Tx) {
	for _, t := range g.pendingJoin {
		tx.Cancel(t)
	}
	for _, m := range g.members {
		tx.Cancel(&m.session)
	}
	tx.Cancel(&g.joinTimer)
	tx.Cancel(&g.syncTimer)
}

func (g *classicGroup) deleteRecords(tx *coordinator.Tx) { tx.Append(groupMetadataKey(g.id), nil) }

func (g *classicGroup) loaded(tx *coordinator.Tx, s *shard) {
	for _, m := range g.members {
		s.watchSession(g, m)
		m.keepAlive(tx)
	}
	if len(g.members) > s.cfg.MaxSize {
		s.prepareRebalance(tx, g) // group.max.size was lowered: some will not get back in
	}
}

func (g *classicGroup) unload(tx *coordinator.Tx) {
	for _, m := range g.members {
		g.answerJoin(tx, m, joinError(m.id, kerr.NotCoordinator))
		g.answerSync(tx, m, syncError(kerr.NotCoordinator))
	}
	g.state = dead
}
