//go:build !race

package controller

// raceFactor is how much longer the bounds of CPU time are under the race detector.
const raceFactor = 1
