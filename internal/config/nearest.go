package config

import (
	"slices"
	"strings"
)

// removed are broker properties that Kafka had before 4.0.
var removed = []string{
	"advertised.host.name", "advertised.port", "host.name", "port", "broker.id.generation.enable", "reserved.broker.max.id", "inter.broker.protocol.version",
	"log.message.format.version", "log.message.downconversion.enable", "log.message.timestamp.difference.max.ms", "offsets.commit.required.acks",
	"control.plane.listener.name", "controlled.shutdown.max.retries", "controlled.shutdown.retry.backoff.ms", "leader.imbalance.per.broker.percentage",
	"group.coordinator.new.enable", "auto.include.jmx.reporter", "password.encoder.secret", "password.encoder.old.secret", "password.encoder.keyfactory.algorithm",
	"password.encoder.cipher.algorithm", "password.encoder.key.length", "password.encoder.iterations", "delegation.token.master.key", "quota.producer.default",
	"quota.consumer.default", "unstable.metadata.versions.enable",
}

// hint suggests the property that was meant, "" when none is near.
func hint(name string) string {
	if c, ok := topicSynonyms[name]; ok {
		return ": it is a topic's; the broker's default is " + c[0].name
	}
	if strings.HasPrefix(name, "zookeeper.") {
		return ": Kafka has had no ZooKeeper since 4.0; leave it out"
	}
	if slices.Contains(removed, name) {
		return ": Kafka has not had it since 4.0; leave it out"
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
