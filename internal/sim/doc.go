// Package sim runs a whole cluster in one process, under testing/synctest: real brokers, as cmd/broker/node puts them
// together, on in-memory disks, an in-memory network and clocks that jump, with clients that speak the protocol. Time
// passes at once. A seed chooses what goes wrong and when; after each trouble, with everything at rest, the invariants
// of replication, of the quorum and of transactions are checked, and in the end what clients saw.
package sim
