package handlers

// Feature is a range of levels of a cluster feature that this broker supports (KIP-584).
type Feature struct {
	Name     string
	Min, Max int16
	// Level is finalized whatever the metadata says; 0: the metadata says.
	Level int16
}
