//go:build race

package qpmap_test

const raceDetector = true
