package handlers

// fetchAnswers are what a response says: of partitions that are known, and then of those that are not, which cost next
// to nothing.
type fetchAnswers struct {
	known  []fetchAnswer
	absent []absentPartition
	all    []fetchTarget // what absent points into
}

// absentPartition is a partition that is answered with nothing but an error.
type absentPartition struct {
	at   int32 // in fetchAnswers.all
	code int16
}

func (l *fetchAnswers) len() int { return len(l.known) + len(l.absent) }

func (l *fetchAnswers) key(i int) *fetchKey {
	if i < len(l.known) {
		return &l.known[i].key
	}
	return &l.all[l.absent[i-len(l.known)].at].key
}

// at returns the i-th answer, which it makes in room where there is none.
func (l *fetchAnswers) at(i int, room *fetchAnswer) *fetchAnswer {
	if i < len(l.known) {
		return &l.known[i]
	}
	a := l.absent[i-len(l.known)]
	*room = failedFetch(l.all[a.at], a.code)
	return room
}

// sameTopic says whether the i-th and the j-th answer stand under one topic.
func (l *fetchAnswers) sameTopic(i, j int) bool {
	a, b := l.key(i), l.key(j)
	return a.topicID == b.topicID && a.topic == b.topic
}
