package logstore

// producerBytes is what a log remembers of a producer.
const producerBytes = 230

// crowded says whether the log has to make room before it takes another producer: all logs of the process together
// remember as many as the ledger lends for (Options.ProducerMemory), and this log has its even part of them. Then it
// forgets an eighth of its own, as at maxProducers. A log may always have its part, so that one client with many
// producer ids costs other partitions nothing. All together are twice the bound at most, besides producers with open
// transactions, which are never forgotten.
func (p *producerState) crowded() bool {
	return p.lends != nil && p.lends.Crowded(int64(len(p.producers))*producerBytes, producerBytes)
}

// recount tells the ledger how many producers there are now.
func (p *producerState) recount() {
	was, is := p.counted, len(p.producers)
	if p.lends == nil || was == is {
		return
	}
	p.counted = is
	p.lends.Change(int64(is-was) * producerBytes)
	switch {
	case was == 0:
		p.lends.Holders(1)
	case is == 0:
		p.lends.Holders(-1)
	}
}

// leaveCensus ends the counting of a log that is gone.
func (p *producerState) leaveCensus() {
	p.producers = nil
	p.recount()
	p.lends = nil
}
