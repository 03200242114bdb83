//go:build race

package tui

const underRace = true
