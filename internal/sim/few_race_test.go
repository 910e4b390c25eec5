//go:build race

package sim

// What is tried by default under the race detector, which makes worlds ten times as slow.
const fewWorlds, fewMutants = 2, 0
