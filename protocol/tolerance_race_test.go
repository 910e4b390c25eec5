//go:build race

package protocol

// allocTolerance is how many times the bound a decode may allocate: under the race detector append copies what it is
// given.
const allocTolerance = 3
