package handlers

// internalTopics are the broker's own (Topic.INTERNAL_TOPICS).
var internalTopics = []string{"__consumer_offsets", "__transaction_state", "__share_group_state"}

func isInternal(topic string) bool {
	for _, t := range internalTopics {
		if topic == t {
			return true
		}
	}
	return false
}
