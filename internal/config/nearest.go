package config

import "strings"

// hint suggests the property that was meant, "" when none is near.
func hint(name string) string {
	if c, ok := topicSynonyms[name]; ok {
		return ": it is a topic's; the broker's default is " + c[0].name
	}
	if strings.HasPrefix(name, "zookeeper.") {
		return ": Kafka has had no ZooKeeper since 4.0; leave it out"
	}
	if near := nearest(name); near != "" {
		return ", did you mean " + near + "?"
	}
	return ""
}

// nearest returns the known name with the smallest edit distance, if that is within a third of the name's length.
func nearest(name string) string {
	best, bestDistance := "", len(name)/3+1
	for _, defs := range []*Defs{BrokerDefs, OwnDefs} {
		for d := range defs.All() {
			if n := distance(strings.ToLower(name), d.Name); n < bestDistance && !d.Internal {
				best, bestDistance = d.Name, n
			}
		}
	}
	return best
}

// distance is the Levenshtein distance in bytes.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
