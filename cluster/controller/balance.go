package controller

import "time"

// electionsPerBalance is QuorumController's limit for one round of balancing.
const electionsPerBalance = 1000

// armBalance sets the alarm for the next round of preferred leaders (auto.leader.rebalance.enable). A lone broker has nothing to balance.
func (d *decider) armBalance() {
	if d.balance != nil || !d.n.o.Config.Bool("auto.leader.rebalance.enable") || d.brokers() < 2 {
		return
	}
	every := time.Duration(d.n.o.Config.Int("leader.imbalance.check.interval.seconds")) * time.Second
	d.balance = d.n.o.Clock.AfterFunc(every, func() { poke(d.balanced) })
}

func (d *decider) brokers() int {
	count := 0
	for range d.pending.Brokers() {
		count++
	}
	return count
}

// balanceLeaders runs a round; the next comes sooner when this one was full.
func (d *decider) balanceLeaders() {
	d.balance = nil
	if d.pending == nil {
		return
	}
	records := d.view(0).balance()
	if len(records) > 0 {
		d.n.o.Logger.Info().Int("partitions", len(records)).Msg("preferred replicas lead again")
		if err := d.propose(records); err != nil {
			return // another controller does it
		}
	}
	if len(records) == electionsPerBalance {
		poke(d.balanced)
		return
	}
	d.armBalance()
}
