package metadata

import "fmt"

func (b *Builder) registerBroker(r *RegisterBrokerRecord) {
	next := &Broker{
		ID: r.BrokerID, Epoch: r.BrokerEpoch, Incarnation: r.Incarnation,
		Endpoints: r.Endpoints, Features: r.Features,
		Fenced: r.Fenced, InControlledShutdown: r.InControlledShutdown,
		LogDirs: r.LogDirs, CordonedLogDirs: r.CordonedLogDirs,
	}
	if r.Rack != nil {
		next.Rack = *r.Rack
	}
	b.im.brokers.set(r.BrokerID, next)
	b.brokers[r.BrokerID] = true
}

// changeBroker applies the records that change or end a registration; they name its epoch.
func (b *Builder) changeBroker(r Record) error {
	switch r := r.(type) {
	case *BrokerRegistrationChangeRecord:
		return b.alterBroker(r)
	case *FenceBrokerRecord:
		return b.alterBroker(&BrokerRegistrationChangeRecord{BrokerID: r.BrokerID, BrokerEpoch: r.BrokerEpoch, Fenced: 1})
	case *UnfenceBrokerRecord:
		return b.alterBroker(&BrokerRegistrationChangeRecord{BrokerID: r.BrokerID, BrokerEpoch: r.BrokerEpoch, Fenced: -1})
	case *UnregisterBrokerRecord:
		if _, err := b.registration(r.BrokerID, r.BrokerEpoch); err != nil {
			return err
		}
		b.im.brokers.delete(r.BrokerID)
		b.brokers[r.BrokerID] = true
	}
	return nil
}

func (b *Builder) registration(id int32, epoch int64) (*Broker, error) {
	old := b.im.brokers.get(id)
	if old == nil || old.Epoch != epoch {
		return nil, fmt.Errorf("%w: no broker %d of epoch %d", ErrUnapplicable, id, epoch)
	}
	return old, nil
}

func (b *Builder) alterBroker(r *BrokerRegistrationChangeRecord) error {
	old, err := b.registration(r.BrokerID, r.BrokerEpoch)
	if err != nil {
		return err
	}
	next := *old
	if r.Fenced != 0 {
		next.Fenced = r.Fenced > 0
	}
	if r.InControlledShutdown != 0 {
		next.InControlledShutdown = r.InControlledShutdown > 0
	}
	if len(r.LogDirs) > 0 {
		next.LogDirs = r.LogDirs
	}
	replace(&next.CordonedLogDirs, r.CordonedLogDirs)
	b.im.brokers.set(next.ID, &next)
	b.brokers[next.ID] = true
	return nil
}
