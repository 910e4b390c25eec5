package controller

import (
	"slices"
	"strconv"

	"grete/cluster/metadata"
)

// noBroker stands for no broker where a broker id is expected.
const noBroker = int32(-1)

// electionKind says who may lead besides the leader of now and who is in sync (PartitionChangeBuilder.Election).
type electionKind int

const (
	keepOnline  electionKind = iota
	preferFirst              // the first replica leads, if it may, even where another leads
	loseData                 // if nobody in sync lives, any replica
)

// partitionChange is PartitionChangeBuilder: what a partition is to become, from which record makes one record. Its
// lists start as the partition's and are replaced, never changed.
type partitionChange struct {
	topic                      *metadata.Topic
	index                      int32
	was                        *metadata.Partition
	rules                      topicRules
	mayLead                    func(id int32) bool // without its directory, which dirOnline is asked about
	dirOnline                  func(id int32, dir metadata.UUID) bool
	defaultDir                 func(id int32) metadata.UUID
	kind                       electionKind
	uncleanShutdown            int32 // a broker that may have lost the end of its logs, noBroker: none
	isr, elr, lastKnown        []int32
	replicas, removing, adding []int32
	directories                []metadata.UUID // of replicas; nil: as they were
	recovery                   int8
	leader                     int32 // once elected
	leaderSet                  bool  // the record names the leader, and raises its epoch
}

// topicRules is what the configuration says about a topic's elections.
type topicRules struct {
	minISR  int // min.insync.replicas
	unclean bool
	elr     bool // KIP-966
}

func (v *view) rulesOf(t *metadata.Topic) topicRules {
	overrides := v.image.Configs(metadata.TopicResource, t.Name)
	minISR, _ := v.config.TopicText("min.insync.replicas", overrides)
	unclean, _ := v.config.TopicText("unclean.leader.election.enable", overrides)
	least, _ := strconv.Atoi(minISR)
	return topicRules{
		minISR:  least,
		unclean: unclean == "true",
		elr:     v.hasELR(),
	}
}

// hasELR says whether replicas that left the ISR stay eligible (eligible.leader.replicas.version).
func (v *view) hasELR() bool { return v.image.Feature(elrVersionFeature) > 0 }

// election is what the topic's configuration allows to keep a partition online.
func (r topicRules) election() electionKind {
	if r.unclean {
		return loseData
	}
	return keepOnline
}

func (v *view) change(t *metadata.Topic, index int32, rules topicRules) *partitionChange {
	p := &t.Partitions[index]
	return &partitionChange{
		topic: t, index: index, was: p, rules: rules, mayLead: v.active, dirOnline: v.dirOnline, defaultDir: v.defaultDir, uncleanShutdown: noBroker,
		isr: p.ISR, elr: p.ELR, lastKnown: p.LastKnownELR, replicas: p.Replicas, removing: p.Removing, adding: p.Adding,
		recovery: p.LeaderRecoveryState, leader: p.Leader,
	}
}

// record makes the record of the change, nil when nothing changes.
func (c *partitionChange) record() *metadata.PartitionChangeRecord {
	r := metadata.NewPartitionChange(c.topic.ID, c.index)
	c.completeReassignment()
	c.forgetLeader()
	c.gatherELR()
	unclean := c.elect()
	if c.leaderSet || !containsAll(c.replicas, c.was.Replicas) { // followers that leave must not go on under the old epoch
		r.Leader = c.leader
	}
	if unclean || !c.rules.elr {
		c.elr = nil
	}
	setIfChanged(&r.ELR, c.elr, c.was.ELR)
	if unclean || len(c.isr) > 0 || c.rules.elr {
		setIfChanged(&r.ISR, c.isr, c.was.ISR)
	}
	c.rememberLeader(r)
	c.assign(r)
	if c.recovery != c.was.LeaderRecoveryState {
		r.LeaderRecoveryState = c.recovery
	}
	if changesNothing(r) {
		return nil
	}
	return r
}

// setIfChanged leaves field nil, which is no change, when the list stays as it was.
func setIfChanged(field *[]int32, next, was []int32) {
	if !slices.Equal(next, was) {
		*field = append([]int32{}, next...)
	}
}

func changesNothing(r *metadata.PartitionChangeRecord) bool {
	return r.ISR == nil && r.ELR == nil && r.LastKnownELR == nil && r.Leader == metadata.LeaderUnchanged && r.Replicas == nil &&
		r.Removing == nil && r.Adding == nil && r.LeaderRecoveryState == metadata.RecoveryStateUnchanged && r.Directories == nil
}

// gatherELR keeps replicas that leave the ISR eligible to lead while it is below min.insync.replicas: the high
// watermark stands still meanwhile, so that they have all that is committed. Unlike Kafka, which measures by partition
// 0's replicas and may leave brokers eligible that a reassignment has taken the partition from, and that come back
// without its log.
func (c *partitionChange) gatherELR() {
	switch {
	case !c.rules.elr:
		return
	case len(c.isr) >= min(c.rules.minISR, len(c.replicas)):
		c.elr = nil
		return
	}
	var elr []int32
	for _, id := range append(slices.Clone(c.elr), c.was.ISR...) {
		if id != c.uncleanShutdown && slices.Contains(c.replicas, id) && !slices.Contains(c.isr, id) && !slices.Contains(elr, id) {
			elr = append(elr, id)
		}
	}
	slices.Sort(elr)
	c.elr = elr
}

// elect chooses the leader. Who comes from the eligible ones is alone in sync. unclean: committed records may be lost.
func (c *partitionChange) elect() (unclean bool) {
	c.leader, unclean = c.choose()
	if c.leader == c.was.Leader {
		return false
	}
	c.leaderSet = true
	switch {
	case unclean:
		c.isr = []int32{c.leader}
		c.recovery = 1
	case slices.Contains(c.elr, c.leader):
		c.isr, c.elr = []int32{c.leader}, without(c.elr, c.leader)
	}
	return unclean
}

func (c *partitionChange) choose() (leader int32, unclean bool) {
	if c.kind == preferFirst && c.mayLeadCleanly(c.replicas[0]) {
		return c.replicas[0], false
	}
	if c.mayLeadCleanly(c.was.Leader) {
		return c.was.Leader, false
	}
	if i := slices.IndexFunc(c.replicas, c.mayLeadCleanly); i >= 0 {
		return c.replicas[i], false
	}
	if c.mayRecover() {
		return c.lastKnown[0], true
	}
	if c.kind == loseData {
		if i := slices.IndexFunc(c.replicas, c.acceptable); i >= 0 {
			return c.replicas[i], true
		}
	}
	return noBroker, false
}

// mayLeadCleanly: in sync, or eligible when nobody is in sync.
func (c *partitionChange) mayLeadCleanly(id int32) bool {
	return (slices.Contains(c.isr, id) || len(c.isr) == 0 && slices.Contains(c.elr, id)) && c.acceptable(id)
}

// acceptable: it is a replica, its broker may lead, and the directory that has the replica can be used
// (ReplicationControlManager.LeaderAcceptor).
func (c *partitionChange) acceptable(id int32) bool {
	at := slices.Index(c.replicas, id)
	if at < 0 {
		return false
	}
	dir := c.was.Directory(id)
	if c.directories != nil {
		dir = c.directories[at]
	}
	return c.mayLead(id) && c.dirOnline(id, dir)
}

// mayRecover: all replicas in sync and eligible were lost in unclean stops; the last leader comes back and has the most
// there is.
func (c *partitionChange) mayRecover() bool {
	return c.rules.elr && len(c.isr)+len(c.elr) == 0 && len(c.lastKnown) == 1 && c.acceptable(c.lastKnown[0])
}

// rememberLeader keeps, in the field of the last known ELR, which replica led last while nobody leads.
func (c *partitionChange) rememberLeader(r *metadata.PartitionChangeRecord) {
	switch {
	case !c.rules.elr:
	case r.Leader == noBroker && len(c.lastKnown) == 0 && slices.Contains(c.replicas, c.was.Leader):
		c.lastKnown = []int32{c.was.Leader}
	case r.Leader >= 0:
		c.lastKnown = nil
	}
	setIfChanged(&r.LastKnownELR, c.lastKnown, c.was.LastKnownELR)
}

// forgetLeader drops the last known leader when it is no replica any more: it deletes its log.
func (c *partitionChange) forgetLeader() {
	c.lastKnown = slices.DeleteFunc(slices.Clone(c.lastKnown), func(id int32) bool { return !slices.Contains(c.replicas, id) })
}

// assign writes the replicas and what goes with them.
func (c *partitionChange) assign(r *metadata.PartitionChangeRecord) {
	setIfChanged(&r.Removing, c.removing, c.was.Removing)
	setIfChanged(&r.Adding, c.adding, c.was.Adding)
	setIfChanged(&r.Replicas, c.replicas, c.was.Replicas)
	if c.directories != nil {
		if !slices.Equal(c.directories, c.was.Directories) {
			r.Directories = c.directories
		}
		return
	}
	if r.Replicas == nil && len(c.was.Directories) == len(c.was.Replicas) {
		return
	}
	r.Directories = make([]metadata.UUID, len(c.replicas))
	for i, id := range c.replicas {
		if at := slices.Index(c.was.Replicas, id); at >= 0 && at < len(c.was.Directories) {
			r.Directories[i] = c.was.Directories[at]
			continue
		}
		r.Directories[i] = c.defaultDir(id)
	}
}

func without(ids []int32, id int32) []int32 {
	return slices.DeleteFunc(slices.Clone(ids), func(other int32) bool { return other == id })
}

func containsAll(ids, wanted []int32) bool {
	return !slices.ContainsFunc(wanted, func(id int32) bool { return !slices.Contains(ids, id) })
}
