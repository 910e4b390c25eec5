// Package replicas runs brokers' replicas together in one process: real logs on in-memory disks, real servers and
// fetchers over in-memory connections, a small controller of its own, and time that passes at once (testing/synctest).
// A seed chooses crashes, delays, lost and repeated messages and elections; after each step the invariants of
// replication are checked. Faults of the program that the checks are there for are played by mutations of what the
// simulation itself does: each must be found.
package replicas
