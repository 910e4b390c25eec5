package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"grete/cluster/controller"
	"grete/cluster/replica"
	"grete/internal/config"
	"grete/logstore"
)

var (
	// errForeign: a log directory is another program's.
	errForeign = errors.New("this is a log directory of Apache Kafka")
	// errStrange: a log directory has what neither this program nor Kafka puts there.
	errStrange = errors.New("neither Grete nor Kafka made what is in this directory")
	// errUnmarked: a log directory has an identity that this program did not write.
	errUnmarked = errors.New("this directory has a meta.properties that Grete did not write")
)

// refuseForeign leaves directories alone that Kafka formatted, whose metadata log says what the partitions in them are
// and is not read here, and directories of others. It comes before anything is written.
func (n *Node) refuseForeign(context.Context) error {
	const kafka = "Grete does not take it over: start it with an empty directory, and copy the topics from Kafka through clients, with MirrorMaker for example"
	for _, dir := range n.o.Config.LogDirs {
		whose := ""
		if m, err := logstore.ReadMetaProperties(n.o.FS, dir); err == nil {
			whose = fmt.Sprintf(" (cluster %s, node.id %d)", m.ClusterID, m.NodeID)
		}
		if known := logstore.OfKafka(n.o.FS, dir); known != "" {
			return fmt.Errorf("%s: %w%s, as its %s shows; nothing in it was changed. %s", dir, errForeign, whose, known, kafka)
		}
		switch known := logstore.OfOthers(n.o.FS, dir); known {
		case "":
		case logstore.MetaPropertiesFile:
			return fmt.Errorf("%s: %w%s; nothing in it was changed. If Kafka's data is there, %s; else name an empty or a new directory (log.dirs, --data-dir)", dir, errUnmarked, whose, kafka)
		default:
			return fmt.Errorf("%s: %w, such as %s; nothing in it was changed. Name an empty or a new directory (log.dirs, --data-dir)", dir, errStrange, known)
		}
	}
	return nil
}

// openStore settles whose the log directories are, and opens the logs in them.
func (n *Node) openStore(ctx context.Context) error {
	cfg := n.o.Config
	clusterID, err := logstore.PrepareDirs(n.o.FS, cfg.LogDirs, logstore.MetaProperties{ClusterID: n.clusterID, NodeID: cfg.NodeID}, n.random, n.beginMetadataLog)
	if err != nil {
		return err
	}
	n.clusterID = clusterID
	n.quorum.Set(clusterID)
	n.formed()
	n.logDefaults = replica.NewTopicConfig(cfg.Topic(nil), cfg.Int("producer.id.expiration.ms")).Log
	n.store, err = logstore.Open(ctx, logstore.Options{
		FS: n.o.FS, Clock: n.o.Clock, Log: n.o.Log, Dirs: cfg.LogDirs, Defaults: n.logDefaults,
		ConfigOf:                      n.configBeforeMetadata,
		RecoveryThreads:               int(cfg.Int("num.recovery.threads.per.data.dir")),
		CheckInterval:                 millis(cfg.Int("log.retention.check.interval.ms")),
		ProducerCheckInterval:         millis(cfg.Int("producer.id.expiration.check.interval.ms")),
		FlushOffsetCheckpointInterval: millis(cfg.Int("log.flush.offset.checkpoint.interval.ms")),
		ProducerMemory:                n.o.Memory.Producers,
		FileMemory:                    n.o.Memory.Files,
		MaxOpenFiles:                  processDescriptors().files,
		OnFlush:                       n.metrics.Flushes.Observe,
		OnDirOffline:                  n.dirOffline,
		OnDamage:                      n.damaged,
		Scrub:                         scrubConfig(cfg.Layers),
		Cleaner:                       n.cleanerConfig(cfg.Layers),
		BrokerEpoch:                   n.registeredEpoch,
	})
	if err != nil {
		return err
	}
	n.onStop("logs", func(context.Context) error { return n.store.Close() })
	return nil
}

// configBeforeMetadata is a log's until the metadata says how its topic is configured: nothing is deleted or compacted
// by then.
func (n *Node) configBeforeMetadata(id logstore.ID) logstore.Config {
	if id == controller.LogID { // it is no topic
		return controller.LogConfig(n.logDefaults)
	}
	c := n.logDefaults
	c.Delete, c.Compact = false, false
	return c
}

// registeredEpoch is the broker epoch of this run, logstore.NoBrokerEpoch before the registration.
func (n *Node) registeredEpoch() int64 {
	if n.lifecycle == nil {
		return logstore.NoBrokerEpoch
	}
	return n.lifecycle.BrokerEpoch()
}

func millis(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }

// dirOffline runs on whoever met the error, possibly before there are replicas. Partitions of the directory answer with
// an error from now on; without the one that has the metadata log the controller stops, and with it the broker, as it
// does without any.
func (n *Node) dirOffline(dir string, reason error) {
	if replicas := n.offlineTo.Load(); replicas != nil {
		replicas.DirOffline(dir, reason)
	}
	if n.registered.Load() { // others are to lead what was led there
		n.lifecycle.Beat()
	}
	if int(n.offlineDirs.Add(1)) == len(n.o.Config.LogDirs) {
		n.fail(errNoDirectory)
	}
}

// damaged runs on the store's scrubber, possibly before there are replicas: it will tell again.
func (n *Node) damaged(d logstore.Damage) {
	if replicas := n.offlineTo.Load(); replicas != nil {
		replicas.Damaged(d)
	}
}

// scrubConfig leaves the metadata log alone, which knows itself what it reads.
func scrubConfig(l config.Layers) logstore.ScrubConfig {
	return logstore.ScrubConfig{
		Interval: millis(l.Int("log.scrub.interval.ms")), MaxBytesPerSecond: l.Float("log.scrub.io.max.bytes.per.second"),
		Skip: func(id logstore.ID) bool { return id == controller.LogID },
	}
}

func (n *Node) startReplicas(context.Context) error {
	rackAware, err := rackAware(n.o.Config.Text("replica.selector.class"))
	if err != nil {
		return err
	}
	configs := replica.NewConfigs(n.o.Config.Layers, n.o.Config.NodeID)
	n.replicas = replica.NewManager(replica.Options{
		NodeID: n.o.Config.NodeID, Store: n.store, Clock: n.o.Clock, Log: n.o.Log,
		TopicConfig: configs.Of, Throttles: configs.Throttles,
		OnLeader: n.lead, OnResign: n.resign, Topics: n.metrics.Topics, Changes: n.metrics.Replicas, Replication: n.replication(),
		RackAware: rackAware, Lend: n.o.Memory.Inflated.Lend,
	})
	n.offlineTo.Store(n.replicas)
	return nil
}
