package load

import (
	"maps"

	"grete/compat-tests/kafka"
)

// ClusterOptions are a cluster's whose brokers are found dead soon, and acknowledge what two replicas have.
func ClusterOptions(brokers int) kafka.ClusterOptions {
	properties := map[string]string{"broker.session.timeout.ms": "2000", "broker.heartbeat.interval.ms": "300", "min.insync.replicas": "2",
		"replica.lag.time.max.ms": "3000"}
	maps.Copy(properties, quick)
	return kafka.ClusterOptions{Brokers: brokers, Properties: properties, Proxied: !kafka.Apache(), Gossip: !kafka.Apache()}
}

// OnCluster has the run work against the nodes of a cluster.
func (c *Config) OnCluster(cluster *kafka.Cluster) (nodes []Node) {
	c.Replication, c.Links, c.Access = 3, cluster.Links, cluster.Access
	for _, n := range cluster.Nodes {
		nodes = append(nodes, n)
	}
	return nodes
}
