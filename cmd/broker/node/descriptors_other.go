//go:build !unix

package node

// maxHandles is far below what Windows lets a process open, which has no limit to ask for.
const maxHandles = 1 << 15

func processDescriptors() descriptors { return shareDescriptors(maxHandles) }
