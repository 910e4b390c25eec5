package replica

import (
	"slices"

	"grete/logstore"
)

// Damaged takes note of records that this broker has lost; it is logstore's OnDamage. A replica whose records others in
// sync have leaves the ISR, and the lead, before anything is cut; then it fetches anew what is lost. One that nobody
// can help keeps what it has: reads of the damaged place fail.
func (m *Manager) Damaged(d logstore.Damage) {
	m.applyMu.Lock()
	defer m.applyMu.Unlock()
	id := d.Log.ID()
	p := m.local(id.Topic).partition(id.Partition)
	if p == nil || p.Log() != d.Log {
		return
	}
	p.noteDamage(d)
	m.settle(p)
}

// noteDamage remembers where the damage begins.
func (p *Partition) noteDamage(d logstore.Damage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.damage == nil || d.From < p.damage.From {
		p.damage = &d
	}
}

// settle does what p's state asks of this broker beside following and leading. m.applyMu is held.
func (m *Manager) settle(p *Partition) {
	cut, err := p.mend()
	switch {
	case err != nil:
		m.o.Log.Error().Err(err).Str("topic", p.Topic).Int32("partition", p.Index).Msg("a damaged log cannot be cut")
	case cut != nil:
		m.o.Log.Warn().Str("topic", p.Topic).Int32("partition", p.Index).Int64("offset", cut.From).
			Msg("a damaged log was cut; what is missing is fetched from the leader")
		p.wake()
	}
	m.assigner.submit(p)
}

// mend cuts the log where its damage begins, once this replica does not count and somebody else leads.
func (p *Partition) mend() (cut *logstore.Damage, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.state.Load()
	if p.damage == nil || s.offline != nil || s.leader < 0 || s.leader == p.nodeID || slices.Contains(s.isr, p.nodeID) {
		return nil, nil
	}
	if err = p.cutTo(s, p.damage.From); err != nil {
		err = p.restartAt(s, s.log.StartOffset()) // the damage is in the way of finding the place
	}
	if err != nil {
		return nil, p.fail(logError(err))
	}
	cut, p.damage = p.damage, nil
	return cut, nil
}
