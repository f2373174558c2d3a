//go:build !race

package check

import "testing"

const slow = false

func alone(*testing.T) {}
