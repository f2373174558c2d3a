//go:build !amd64 || race

package qpmap_test

const slow = true
