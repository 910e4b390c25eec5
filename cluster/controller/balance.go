package controller

import (
	"slices"
	"time"

	"grete/cluster/metadata"
)

// electionsPerRound is QuorumController's limit for one round of elections that nobody asked for.
const electionsPerRound = 1000

// round is an election that is held from time to time while this node leads.
type round struct {
	every time.Duration
	elect func(*view) []metadata.Record
	what  string
	at    time.Time // when it is due
}

// newRounds are those of preferred leaders (auto.leader.rebalance.enable), and of leaders for partitions that nobody
// leads and whose topics allow to lose records.
func newRounds(o *Options) []*round {
	all := []*round{{
		every: time.Duration(o.Config.Int("unclean.leader.election.interval.ms")) * time.Millisecond,
		elect: (*view).rescue, what: "partitions that nobody led have a leader again, which may lack records",
	}}
	if o.Config.Bool("auto.leader.rebalance.enable") {
		all = append(all, &round{
			every: time.Duration(o.Config.Int("leader.imbalance.check.interval.seconds")) * time.Second,
			elect: (*view).balance, what: "preferred replicas lead again",
		})
	}
	return all
}

// beginRounds sets the alarm for the first rounds, unless it is set. A lone broker has nothing to elect.
func (d *decider) beginRounds() {
	if d.alarm != nil || d.brokers() < 2 {
		return
	}
	now := d.n.o.Clock.Now()
	for _, r := range d.rounds {
		r.at = now.Add(r.every)
	}
	d.armRounds(now)
}

func (d *decider) armRounds(now time.Time) {
	first := slices.MinFunc(d.rounds, func(a, b *round) int { return a.at.Compare(b.at) })
	d.alarm = d.n.o.Clock.AfterFunc(first.at.Sub(now), func() { poke(d.due) })
}

func (d *decider) brokers() int {
	count := 0
	for range d.pending.Brokers() {
		count++
	}
	return count
}

// holdRounds runs the rounds that are due; the next comes sooner when one was full.
func (d *decider) holdRounds() {
	d.alarm = nil
	if d.pending == nil {
		return
	}
	now := d.n.o.Clock.Now()
	for _, r := range d.rounds {
		if r.at.After(now) {
			continue
		}
		records := r.elect(d.view(0))
		if len(records) > 0 {
			d.n.o.Logger.Info().Int("partitions", len(records)).Msg(r.what)
			if err := d.propose(records); err != nil {
				return // another controller does it
			}
		}
		r.at = now
		if len(records) < electionsPerRound {
			r.at = now.Add(r.every)
		}
	}
	d.armRounds(now)
}
