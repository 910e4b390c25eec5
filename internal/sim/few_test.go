//go:build !race

package sim

// fewWorlds are played by default.
const fewWorlds = 8
