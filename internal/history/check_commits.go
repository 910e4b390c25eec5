package history

import "math"

// offsetCommit is one offset that a member, or a transaction, committed for a group.
type offsetCommit struct {
	op     *Op
	offset int64
}

// groupPartition is a key of committed offsets.
type groupPartition struct {
	group string
	Partition
}

// checkCommits: where a group's member starts is the last commit, or one that is concurrent with it or of unknown fate.
func checkCommits(x *index, r *Report) {
	commits := map[groupPartition][]offsetCommit{}
	for _, op := range x.ops {
		if op.Group == "" || op.Outcome == Fail || op.Kind != Commit && !(op.Kind == End && op.Commit) {
			continue
		}
		for _, p := range op.Offsets {
			k := groupPartition{op.Group, p.Partition}
			commits[k] = append(commits[k], offsetCommit{op, p.Offset})
		}
	}
	for _, op := range x.ops {
		if op.Kind != Assign || op.Group == "" {
			continue
		}
		for _, p := range op.Offsets {
			if all := commits[groupPartition{op.Group, p.Partition}]; !explained(all, op, p.Offset) {
				r.add(LostCommit, "%s of %s starts %v at %d; last commit known before: %d", op.Client, op.Group, p.Partition, p.Offset, lastBefore(all, op))
			}
		}
	}
}

// explained: some commit that no later one surely replaced before the assignment began has the offset; or there is
// no sure one, and the member starts at the beginning.
func explained(all []offsetCommit, assign *Op, offset int64) bool {
	latestBegan := int64(math.MinInt64) // of those that surely were done before the assignment began
	for _, c := range all {
		if c.op.Outcome == OK && c.op.EndedNs < assign.BeganNs {
			latestBegan = max(latestBegan, c.op.BeganNs)
		}
	}
	if latestBegan == math.MinInt64 && offset == 0 {
		return true
	}
	for _, c := range all {
		replaced := c.op.Outcome == OK && c.op.EndedNs < latestBegan
		if c.offset == offset && !replaced && c.op.BeganNs < assign.EndedNs {
			return true
		}
	}
	return false
}

func lastBefore(all []offsetCommit, assign *Op) int64 {
	last, at := int64(-1), int64(math.MinInt64)
	for _, c := range all {
		if c.op.Outcome == OK && c.op.EndedNs < assign.BeganNs && c.op.EndedNs > at {
			last, at = c.offset, c.op.EndedNs
		}
	}
	return last
}
