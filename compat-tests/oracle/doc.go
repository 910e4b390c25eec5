// Package oracle holds one list of wire scenarios and runs it against any broker. What Apache Kafka answered is
// recorded in testdata, with everything that must differ from run to run masked; a broker of ours has to answer the
// same, field by field. `make oracle` also runs Kafka itself, so that the recording cannot rot.
//
// A scenario is a Go function on a Session: it sends requests, well formed or not, on as many connections as it
// needs, and every answer becomes a step of its transcript: a tree of the decoded response, or the fact that the
// connection was closed or stayed silent. Scenarios share nothing, so that they run side by side.
//
// Environment of the tests: ORACLE_LIVE=1 runs Kafka too; ORACLE_RECORD=1 records its answers anew; ORACLE_ONLY is a pattern
// of the scenarios to run or record; ORACLE_DIFFS names a file for the differences; ORACLE_SHOW is a pattern of scenarios
// whose transcripts TestShow prints, from the broker at ORACLE_ADDR.
package oracle
