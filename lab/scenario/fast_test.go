//go:build !race

package scenario

import "testing"

func alone(*testing.T) {}
