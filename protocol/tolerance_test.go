//go:build !race

package protocol

// allocTolerance is how many times the bound a decode may allocate; the allocator rounds sizes up.
const allocTolerance = 1.25
