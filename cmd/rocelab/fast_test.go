//go:build !race

package main

import "testing"

func alone(*testing.T) {}
