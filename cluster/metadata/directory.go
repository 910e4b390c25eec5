package metadata

import "slices"

// Ids that stand for no directory of log.dirs (Kafka's DirectoryId).
var (
	MigratingDir  = UUID{}      // that of a replica of before there were directory ids
	UnassignedDir = UUID{15: 1} // its broker has not said yet
	LostDir       = UUID{15: 2} // one that cannot be used
	// FullDir says that a replica stays where it is, has what it had, and takes no more for want of space or
	// descriptors. Brokers tell it to the controller; it is no part of the metadata, and Kafka has no such id.
	FullDir = UUID{15: 99}
)

// HasOnlineDir says whether a replica in directory id can be used. A broker that told of no directories has them all.
func (b *Broker) HasOnlineDir(id UUID) bool {
	switch id {
	case MigratingDir, UnassignedDir:
		return true
	case LostDir, FullDir:
		return false
	}
	return len(b.LogDirs) == 0 || slices.Contains(b.LogDirs, id)
}

// Directory is where broker id has its replica, as far as its broker has said.
func (p *Partition) Directory(id int32) UUID {
	if i := slices.Index(p.Replicas, id); i >= 0 && i < len(p.Directories) {
		return p.Directories[i]
	}
	return MigratingDir
}
