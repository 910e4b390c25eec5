//go:build !race

package sim

// What is tried by default: worlds, and the first of the mutants. The rest takes minutes (SIM_SEEDS, make mutants).
const fewWorlds, fewMutants = 8, 2
