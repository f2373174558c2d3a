//go:build !race

package fluid

import "testing"

func alone(*testing.T) {}
