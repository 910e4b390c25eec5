package group

import (
	"slices"
	"strings"
)

// assignRange gives each member a run of neighbouring partitions of each of its topics, so that topics of equal sizes
// and subscribers are joined alike. Static members come first, by instance id: they keep their runs when restarted.
func assignRange(a assignment) map[string]partitions {
	members := slices.Clone(a.members)
	slices.SortFunc(members, func(x, y assignee) int {
		switch {
		case x.instance != nil && y.instance != nil:
			return strings.Compare(*x.instance, *y.instance)
		case x.instance != nil:
			return -1
		case y.instance != nil:
			return 1
		}
		return strings.Compare(x.id, y.id)
	})
	subscribers := make(map[topicID]int32)
	for _, m := range members {
		for _, id := range m.topics {
			subscribers[id]++
		}
	}
	out, served := make(map[string]partitions, len(members)), make(map[topicID]int32)
	for _, m := range members {
		p := make(partitions, len(m.topics))
		for _, id := range m.topics {
			if run := rangeOf(a.sizes[id], subscribers[id], served[id]); len(run) > 0 {
				p[id] = run
			}
			served[id]++
		}
		out[m.id] = p
	}
	return out
}

// rangeOf is the i-th of n runs over size partitions; the first ones are longer by one where it does not come out even.
func rangeOf(size, n, i int32) []int32 {
	quota, extra := size/n, size%n
	start := i*quota + min(i, extra)
	if i < extra {
		quota++
	}
	run := make([]int32, quota)
	for j := range run {
		run[j] = start + int32(j)
	}
	return run
}
