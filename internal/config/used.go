package config

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
)

// used are the broker properties, beside the defaults of topics and groups, that change something here. Whoever starts
// to read a property adds it, and its warning at start is gone.
var used = []string{
	"add.partitions.to.txn.retry.backoff.max.ms", "admin.listen", "admin.metrics.detail", "admin.pprof.listen", "admin.security.protocol", "admin.token", "advertised.listeners", "allow.everyone.if.no.acl.found", "audit.changes.enable", "authorizer.class.name", "auto.create.topics.enable", "broker.heartbeat.interval.ms", "broker.id", "broker.rack",
	"broker.session.timeout.ms", "broker.silence.patience.ms", "connection.failed.authentication.delay.ms", "connections.max.idle.ms", "controller.listener.names", "controller.quorum.voters", "controller.quorum.auto.join.enable", "controller.quorum.bootstrap.servers",
	"gossip.expect", "gossip.join", "gossip.key", "default.replication.factor", "delegation.token.expiry.check.interval.ms", "delegation.token.expiry.time.ms", "delegation.token.max.lifetime.ms", "delegation.token.secret.key", "delete.topic.enable", "fetch.max.bytes", "group.consumer.assignment.interval.ms", "group.consumer.assignors",
	"group.consumer.heartbeat.interval.ms", "group.consumer.max.assignment.interval.ms", "group.consumer.max.heartbeat.interval.ms",
	"group.consumer.max.session.timeout.ms", "group.consumer.max.size", "group.consumer.migration.policy",
	"group.consumer.min.assignment.interval.ms", "group.consumer.min.heartbeat.interval.ms", "group.consumer.min.session.timeout.ms",
	"group.consumer.regex.refresh.interval.ms", "group.consumer.session.timeout.ms", "group.coordinator.rebalance.protocols",
	"group.initial.rebalance.delay.ms",
	"group.max.session.timeout.ms", "group.max.size", "group.min.session.timeout.ms", "inter.broker.listener.name", "java.security.krb5.conf",
	"listener.security.protocol.map", "listeners", "log.cleaner.backoff.ms",
	"log.cleaner.dedupe.buffer.size", "log.cleaner.enable", "log.cleaner.io.buffer.load.factor", "log.cleaner.io.buffer.size",
	"log.cleaner.io.max.bytes.per.second", "log.cleaner.threads", "log.dir", "log.dirs", "log.flush.offset.checkpoint.interval.ms",
	"log.retention.check.interval.ms", "log.scrub.interval.ms", "log.scrub.io.max.bytes.per.second", "max.connection.creation.rate", "max.connections", "max.connections.per.ip", "max.connections.per.ip.overrides",
	"max.incremental.fetch.session.cache.slots", "max.request.partition.size.limit", "metadata.log.dir", "node.id", "num.partitions",
	"num.replica.fetchers", "org.apache.kafka.sasl.oauthbearer.allowed.urls", "num.recovery.threads.per.data.dir", "offset.metadata.max.bytes", "offsets.commit.timeout.ms", "offsets.load.buffer.size",
	"offsets.retention.check.interval.ms", "offsets.retention.minutes", "offsets.topic.compression.codec",
	"offsets.topic.num.partitions", "offsets.topic.replication.factor", "offsets.topic.segment.bytes", "process.roles",
	"producer.id.expiration.check.interval.ms", "producer.id.expiration.ms", "queued.max.request.bytes", "replica.fetch.backoff.ms", "replica.fetch.max.bytes", "replica.fetch.min.bytes",
	"replica.fetch.response.max.bytes", "replica.fetch.wait.max.ms", "replica.lag.time.max.ms", "replica.selector.class", "replica.socket.timeout.ms", "request.timeout.ms",
	"security.inter.broker.protocol", "socket.receive.buffer.bytes", "socket.request.max.bytes", "socket.send.buffer.bytes",
	"transaction.abort.timed.out.transaction.cleanup.interval.ms", "transaction.max.timeout.ms",
	"transaction.partition.verification.enable", "transaction.remove.expired.transaction.cleanup.interval.ms",
	"transaction.state.log.load.buffer.size", "transaction.state.log.min.isr", "transaction.state.log.num.partitions",
	"transaction.state.log.replication.factor", "transaction.state.log.segment.bytes", "transaction.two.phase.commit.enable",
	"super.users", "transactional.id.expiration.ms",
	"auto.leader.rebalance.enable", "leader.imbalance.check.interval.seconds", "controller.quorum.election.timeout.ms", "controller.quorum.request.timeout.ms", "initial.broker.registration.timeout.ms",
}

// ofListeners are the properties of used that one listener can have its own value of
// (listener.name.<listener>.<property>).
var ofListeners = []string{"max.connection.creation.rate", "max.connections"}

// unused lists what somebody set in vain.
func (st *static) unused() []string {
	inUse := map[string]bool{}
	for _, name := range used {
		inUse[name] = true
	}
	for _, name := range tlsProperties {
		inUse[name] = true
	}
	for _, c := range topicSynonyms {
		for _, l := range c {
			inUse[l.name] = true
		}
	}
	var out []string
	for _, name := range slices.Concat(ofListeners, tlsProperties) {
		for _, listener := range append(parsedNames(st.values["listeners"]), parsedNames(strings.ToLower(st.values["controller.listener.names"]))...) {
			inUse[listenerPrefix+listener+"."+name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(st.values)) {
		if !inUse[name] && !honouredSASL(name) && st.from[name] != fromEmbedded {
			out = append(out, name)
		}
	}
	return out
}

// parsedNames are the names of listeners, in lower case, as properties have them.
func parsedNames(listeners string) (names []string) {
	for _, item := range SplitList(listeners) {
		name, _, _ := strings.Cut(item, "://")
		names = append(names, strings.ToLower(name))
	}
	return names
}

// ConnectionsPerIPOverrides reads max.connections.per.ip.overrides: host:count,... .
func (l Layers) ConnectionsPerIPOverrides() (map[string]int, error) {
	out := map[string]int{}
	for _, item := range l.List("max.connections.per.ip.overrides") {
		i := strings.LastIndex(item, ":")
		if i < 1 {
			return nil, fmt.Errorf("%q is not host:count", item)
		}
		n, err := strconv.Atoi(strings.TrimSpace(item[i+1:]))
		if err != nil || n < 0 {
			return nil, fmt.Errorf("%q is not host:count", item)
		}
		host := strings.Trim(item[:i], "[]")
		if ip := net.ParseIP(host); ip != nil {
			host = ip.String()
		}
		out[host] = n
	}
	return out, nil
}
