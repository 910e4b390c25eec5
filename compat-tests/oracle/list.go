package oracle

import "fmt"

// versions is the range that Kafka 4.4 serves of a key (and we are to serve).
var versions = map[int16][2]int16{
	0: {3, 13}, 1: {4, 18}, 2: {1, 11}, 3: {0, 13}, 8: {2, 10}, 9: {1, 10}, 10: {0, 6}, 11: {0, 9}, 12: {0, 4}, 13: {0, 5},
	14: {0, 5}, 15: {0, 6}, 16: {0, 5}, 17: {0, 1}, 18: {0, 5}, 19: {2, 7}, 20: {1, 6}, 21: {0, 2}, 22: {0, 5}, 23: {2, 4},
	24: {0, 5}, 25: {0, 4}, 26: {0, 5}, 27: {1, 2}, 28: {0, 6}, 29: {1, 3}, 30: {1, 3}, 31: {1, 3}, 32: {1, 4}, 33: {0, 2}, 35: {1, 5}, 37: {0, 3}, 38: {1, 3}, 39: {1, 2}, 40: {1, 2}, 41: {1, 3}, 42: {0, 3}, 43: {0, 2}, 44: {0, 1}, 45: {0, 1}, 46: {0, 0}, 50: {0, 0}, 51: {0, 0}, 55: {0, 2}, 57: {0, 2}, 60: {0, 2}, 61: {0, 0}, 64: {0, 0}, 65: {0, 0}, 66: {0, 2},
	68: {0, 1}, 69: {0, 1},
	74: {0, 1}, 75: {0, 0}, 80: {0, 1}, 81: {0, 0}, 94: {0, 0},
}

// list collects scenarios.
type list struct{ all []Scenario }

// All is the list of scenarios.
func All() []Scenario {
	l := &list{}
	for _, family := range []func(*list){
		apiVersionsScenarios, framingScenarios, produceScenarios, producerScenarios, fetchScenarios, sessionScenarios,
		listOffsetsScenarios, metadataScenarios, topicScenarios, configScenarios, groupScenarios, groupErrorScenarios,
		offsetScenarios, consumerGroupScenarios, consumerErrorScenarios, conversionScenarios, txnScenarios, txnDataScenarios,
		txnEpochScenarios, internalScenarios, adminScenarios, clusterScenarios, reassignScenarios, clearTokenScenarios, scramScenarios,
	} {
		family(l)
	}
	return l.all
}

// each adds a scenario for every version of key.
func (l *list) each(key int16, name string, run func(*Session, int16)) {
	l.between(key, versions[key][0], versions[key][1], name, run)
}

// between adds a scenario for each version from min to max.
func (l *list) between(key, min, max int16, name string, run func(*Session, int16)) {
	for v := min; v <= max; v++ {
		l.all = append(l.all, Scenario{Name: fmt.Sprintf("%s/v%d", name, v), Key: key, Version: v, Run: func(s *Session) { run(s, v) }})
	}
}

// serial makes what add adds run alone, before the others.
func (l *list) serial(add func()) {
	first := len(l.all)
	add()
	for i := range l.all[first:] {
		l.all[first+i].Serial = true
	}
}

// one adds a single scenario about a key at a version.
func (l *list) one(key, version int16, name string, run func(*Session)) {
	l.all = append(l.all, Scenario{Name: name, Key: key, Version: version, Run: run})
}
