package node

// descriptors is how the process's descriptors are shared, so that neither files nor connections can use up those of
// the other: a broker that cannot open a file is no use to its connections.
type descriptors struct{ files, connections int }

const (
	// maxOpenFiles is more than are ever worth keeping open.
	maxOpenFiles = 4096
	// A part is for what is neither: listeners, admin connections, checkpoints being written, segments being made.
	minSpareDescriptors, maxSpareDescriptors = 16, 512
)

// shareDescriptors divides limit, the number of descriptors that the process may have.
func shareDescriptors(limit uint64) descriptors {
	n := int(min(limit, 1<<30))
	spare := min(max(n/8, minSpareDescriptors), maxSpareDescriptors)
	files := min(n/4, maxOpenFiles)
	return descriptors{files: max(files, 1), connections: max(n-files-spare, 1)}
}
