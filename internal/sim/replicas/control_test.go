package replicas

import (
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"grete/cluster/metadata"
)

const controllerID = int32(-1)

// control is a controller that never fails: the rules of Kafka's about brokers' epochs, leaders and in-sync replicas,
// and the log of what it decided.
type control struct {
	w *world

	mu  sync.Mutex
	im  *metadata.Image
	log [][]metadata.Record // by offset
}

func (c *control) end() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return int64(len(c.log)) - 1
}

func (c *control) image() *metadata.Image {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.im
}

// append decides; c.mu is held.
func (c *control) append(records ...metadata.Record) {
	im, _, err := c.im.Apply(records, int64(len(c.log)), 1)
	c.w.must(err)
	c.im = im
	c.log = append(c.log, records)
	for _, n := range c.w.alive() {
		select {
		case n.news <- struct{}{}:
		default:
		}
	}
}

// next is the image after old as n gets to know it: the next decision, or at times several at once.
func (c *control) next(n *node, old *metadata.Image) (*metadata.Image, metadata.Delta) {
	c.mu.Lock()
	decisions := slices.Clone(c.log[old.Offset()+1:])
	c.mu.Unlock()
	if !c.w.chance(30) {
		decisions = decisions[:1]
	}
	b := metadata.NewBuilder(old)
	for _, records := range decisions {
		for _, r := range c.w.mislead(n, records) {
			c.w.must(b.Apply(r))
		}
	}
	return b.Build(old.Offset()+int64(len(decisions)), 1)
}

// register begins a new life of a broker: it leaves every ISR where another is left, for it may have lost its tail.
func (c *control) register(id int32) (epoch int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.append(c.without(id)...)
	epoch = int64(len(c.log))
	c.append(&metadata.RegisterBrokerRecord{BrokerID: id, BrokerEpoch: epoch})
	c.append(c.elections()...)
	return epoch
}

func (c *control) fence(id int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.im.Broker(id)
	if b == nil || b.Fenced {
		return
	}
	c.append(&metadata.BrokerRegistrationChangeRecord{BrokerID: id, BrokerEpoch: b.Epoch, Fenced: 1})
	c.append(c.without(id)...)
	c.append(c.elections()...)
}

// without takes a broker out of ISRs and leaderships.
func (c *control) without(id int32) (records []metadata.Record) {
	c.eachPartition(func(t *metadata.Topic, index int32, p *metadata.Partition) {
		r := metadata.NewPartitionChange(t.ID, index)
		if slices.Contains(p.ISR, id) && len(p.ISR) > 1 {
			r.ISR = slices.DeleteFunc(slices.Clone(p.ISR), func(x int32) bool { return x == id })
		}
		if p.Leader == id {
			r.Leader = -1
		}
		if r.ISR != nil || p.Leader == id {
			records = append(records, r)
		}
	})
	return records
}

// elections makes leaders where there are none.
func (c *control) elections() (records []metadata.Record) {
	c.eachPartition(func(t *metadata.Topic, index int32, p *metadata.Partition) {
		if leader := c.candidate(p); p.Leader < 0 && leader >= 0 {
			records = append(records, c.leads(t, index, leader))
		}
	})
	return records
}

func (c *control) leads(t *metadata.Topic, index, leader int32) *metadata.PartitionChangeRecord {
	r := metadata.NewPartitionChange(t.ID, index)
	r.Leader = leader
	if !slices.Contains(t.Partitions[index].ISR, leader) { // elected by mutation
		r.ISR = []int32{leader}
	}
	return r
}

// candidate is a member of the ISR in service, not the leader.
func (c *control) candidate(p *metadata.Partition) int32 {
	of := p.ISR
	if c.w.mutation == electAnybody {
		of = p.Replicas
	}
	var able []int32
	for _, id := range of {
		if b := c.im.Broker(id); id != p.Leader && b != nil && !b.Fenced {
			able = append(able, id)
		}
	}
	if len(able) == 0 {
		return -1
	}
	return able[c.w.intN(len(able))]
}

// elect moves one partition's leadership, for no reason.
func (c *control) elect(index int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.im.Topic(topicName)
	p := &t.Partitions[index]
	if leader := c.candidate(p); leader >= 0 {
		r := c.leads(t, index, leader)
		if c.w.mutation == leaderOutOfISR && len(p.ISR) > 1 {
			r.ISR = slices.DeleteFunc(slices.Clone(p.ISR), func(x int32) bool { return x == leader })
		}
		c.append(r)
	}
}

func (c *control) eachPartition(f func(t *metadata.Topic, index int32, p *metadata.Partition)) {
	for t := range c.im.Topics() {
		for i := range t.Partitions {
			f(t, int32(i), &t.Partitions[i])
		}
	}
}

// alterPartition answers with the offset from which on images have the decision.
func (c *control) alterPartition(req *kmsg.AlterPartitionRequest) (*kmsg.AlterPartitionResponse, int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	resp := req.ResponseKind().(*kmsg.AlterPartitionResponse)
	if b := c.im.Broker(req.BrokerID); b == nil || b.Epoch != req.BrokerEpoch || b.Fenced {
		resp.ErrorCode = kerr.StaleBrokerEpoch.Code
		return resp, -1
	}
	for _, t := range req.Topics {
		rt := kmsg.NewAlterPartitionResponseTopic()
		rt.TopidID = t.TopicID
		for i := range t.Partitions {
			rt.Partitions = append(rt.Partitions, c.alterOne(req.BrokerID, t.TopicID, &t.Partitions[i]))
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp, int64(len(c.log)) - 1
}

func (c *control) alterOne(leader int32, id metadata.UUID, p *kmsg.AlterPartitionRequestTopicPartition) kmsg.AlterPartitionResponseTopicPartition {
	a := kmsg.NewAlterPartitionResponseTopicPartition()
	a.Partition = p.Partition
	current := c.im.TopicByID(id).Partitions[p.Partition]
	a.PartitionEpoch = current.PartitionEpoch
	var isr []int32
	eligible := true
	for _, m := range p.NewEpochISR {
		isr = append(isr, m.BrokerID)
		b := c.im.Broker(m.BrokerID)
		fresh := m.BrokerEpoch == b.Epoch || m.BrokerEpoch == -1 || c.w.mutation == forgetBrokerEpochs
		eligible = eligible && !b.Fenced && fresh
	}
	switch {
	case p.LeaderEpoch != current.LeaderEpoch || leader != current.Leader:
		a.ErrorCode = kerr.FencedLeaderEpoch.Code
	case p.PartitionEpoch != current.PartitionEpoch:
		a.ErrorCode = kerr.InvalidUpdateVersion.Code
	case !eligible:
		a.ErrorCode = kerr.IneligibleReplica.Code
	case !slices.Equal(isr, current.ISR):
		r := metadata.NewPartitionChange(id, p.Partition)
		r.ISR = isr
		c.append(r)
		a.PartitionEpoch++
	}
	return a
}
