package group

import (
	"slices"
)

// reconciliation takes one member a step towards its target (Kafka's CurrentAssignmentBuilder): first it gives up what
// it is not to have, then it gets what nobody else has any more.
type reconciliation struct {
	g          *consumerGroup
	m          *consumerMember
	epoch      int32 // of the target
	target     partitions
	subscribed map[topicID]bool
	owned      partitions // what the member says that it has; nil: it does not say
}

// next is the member after the step.
func (r *reconciliation) next(subscriptionChanged bool) *consumerMember {
	switch m := r.m; {
	case m.state == memberStable && m.epoch != r.epoch,
		m.state == memberUnrevoked && !r.stillOwns(m.revoking),
		m.state == memberUnreleased, m.state.unknown():
		return r.advance()
	case subscriptionChanged:
		return r.dropUnsubscribed()
	}
	return r.m
}

// stillOwns tells whether the member has any of these partitions, as far as it says.
func (r *reconciliation) stillOwns(revoked ownership) bool {
	if r.owned == nil {
		return true
	}
	for id, ps := range r.owned {
		if slices.ContainsFunc(ps, func(p int32) bool { return revoked.has(id, p) }) {
			return true
		}
	}
	return false
}

// advance compares what the member has with its target. The member stays in its epoch until it has revoked.
func (r *reconciliation) advance() *consumerMember {
	kept, revoked := make(ownership), make(ownership)
	r.m.assigned.each(func(id topicID, p, since int32) {
		if r.wants(id, p) {
			kept.put(id, p, since)
		} else {
			revoked.put(id, p, since)
		}
	})
	if len(revoked) > 0 && r.stillOwns(revoked) {
		return r.moved(memberUnrevoked, r.m.epoch, kept, revoked)
	}
	state := memberStable
	for id, ps := range r.target {
		for _, p := range ps {
			switch {
			case !r.subscribed[id] || kept.has(id, p):
			case r.free(id, p):
				kept.put(id, p, r.epoch)
			default:
				state = memberUnreleased
			}
		}
	}
	return r.moved(state, r.epoch, kept, nil)
}

func (r *reconciliation) wants(id topicID, p int32) bool {
	if !r.subscribed[id] {
		return false
	}
	_, ok := slices.BinarySearch(r.target[id], p)
	return ok
}

// free tells whether nobody has the partition; what this member was to give up it may take back.
func (r *reconciliation) free(id topicID, p int32) bool {
	owner, taken := r.g.owners[topicPartition{id, p}]
	return !taken || (owner == r.m.id && r.m.revoking.has(id, p))
}

// dropUnsubscribed takes away, within the epoch, the topics that the member does not subscribe to any more.
func (r *reconciliation) dropUnsubscribed() *consumerMember {
	kept, revoked := make(ownership), make(ownership)
	r.m.revoking.each(revoked.put)
	r.m.assigned.each(func(id topicID, p, since int32) {
		if r.subscribed[id] {
			kept.put(id, p, since)
		} else {
			revoked.put(id, p, since)
		}
	})
	switch {
	case kept.equal(r.m.assigned):
		return r.m
	case r.stillOwns(revoked):
		return r.moved(memberUnrevoked, r.m.epoch, kept, revoked)
	}
	return r.moved(r.m.state, r.m.epoch, kept, r.m.revoking)
}

func (r *reconciliation) moved(state memberState, epoch int32, assigned, revoking ownership) *consumerMember {
	next := *r.m
	next.state, next.previousEpoch, next.epoch = state, r.m.epoch, epoch
	next.assigned, next.revoking = assigned, revoking
	return &next
}
