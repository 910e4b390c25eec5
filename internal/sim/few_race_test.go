//go:build race

package sim

// fewWorlds are played by default; the race detector makes them ten times as slow.
const fewWorlds = 2
