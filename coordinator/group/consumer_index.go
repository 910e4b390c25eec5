package group

import "slices"

// subscribe counts a member in. The shard's index has the group once for all members that subscribe to a topic by name,
// and once for each expression that matches it.
func (g *consumerGroup) subscribe(m *consumerMember) {
	for _, name := range m.topics {
		if g.tally.topics[name] == 0 {
			g.subscribers.add(name, g.id)
		}
	}
	g.tally.count(m, 1)
}

func (g *consumerGroup) unsubscribe(m *consumerMember) {
	g.tally.count(m, -1)
	for _, name := range m.topics {
		if g.tally.topics[name] == 0 {
			g.subscribers.remove(name, g.id)
		}
	}
}

// setRegex keeps what an expression matched; nil: nobody has the expression any more.
func (g *consumerGroup) setRegex(regex string, x *resolvedRegex) {
	if old := g.regexes[regex]; old != nil {
		g.subscribers.removeAll(old.topics, g.id)
	}
	if x == nil {
		delete(g.regexes, regex)
		return
	}
	g.regexes[regex] = x
	g.subscribers.addAll(x.topics, g.id)
}

// index makes the group known to the shard by its topics; unindex takes that back.
func (g *consumerGroup) index(subscribers topicIndex) {
	g.subscribers = subscribers
	for name := range g.tally.topics {
		subscribers.add(name, g.id)
	}
	for _, x := range g.regexes {
		subscribers.addAll(x.topics, g.id)
	}
}

func (g *consumerGroup) unindex() {
	for name := range g.tally.topics {
		g.subscribers.remove(name, g.id)
	}
	for _, x := range g.regexes {
		g.subscribers.removeAll(x.topics, g.id)
	}
	g.subscribers = nil
}

func (g *consumerGroup) subscribedTo(topic string) bool {
	if g.tally.topics[topic] > 0 {
		return true
	}
	for _, x := range g.regexes {
		if _, ok := slices.BinarySearch(x.topics, topic); ok {
			return true
		}
	}
	return false
}
