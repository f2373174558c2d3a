//go:build !race

package lab

import "testing"

func alone(*testing.T) {}
