//go:build race

package controller

const raceFactor = 4
