package group

import "slices"

// assignment is what an assignor decides on: members in order of id, and how many partitions each topic has.
type assignment struct {
	members []assignee
	sizes   map[topicID]int32
}

// assignee is a member with the topics that it subscribes to (sorted; all exist) and the target that it has.
type assignee struct {
	id       string
	instance *string
	topics   []topicID
	held     partitions
}

// assignors are Kafka's server-side ones (group.consumer.assignors).
var assignors = map[string]func(assignment) map[string]partitions{
	"uniform": assignUniform,
	"range":   assignRange,
}

// homogeneous tells whether all members subscribe to the same topics.
func (a *assignment) homogeneous() bool {
	return !slices.ContainsFunc(a.members, func(m assignee) bool { return !slices.Equal(m.topics, a.members[0].topics) })
}
