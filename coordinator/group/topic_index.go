package group

// topicIndex names the groups that have to do with a topic, with the number of reasons of each. A nil index keeps
// nothing: it is that of tables and groups that are not the shard's.
type topicIndex map[string]map[string]int

// add gives a group one reason more. Both strings are kept.
func (x topicIndex) add(topic, groupID string) {
	if x == nil {
		return
	}
	groups := x[topic]
	if groups == nil {
		groups = make(map[string]int)
		x[topic] = groups
	}
	groups[groupID]++
}

func (x topicIndex) remove(topic, groupID string) {
	groups := x[topic]
	if groups == nil {
		return
	}
	if groups[groupID]--; groups[groupID] <= 0 {
		delete(groups, groupID)
	}
	if len(groups) == 0 {
		delete(x, topic)
	}
}

func (x topicIndex) addAll(topics []string, groupID string) {
	for _, topic := range topics {
		x.add(topic, groupID)
	}
}

func (x topicIndex) removeAll(topics []string, groupID string) {
	for _, topic := range topics {
		x.remove(topic, groupID)
	}
}
