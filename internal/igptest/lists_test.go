//go:build linux

package igptest

import (
	"slices"
	"testing"

	"github.com/rocecn/rocecn/internal/wiretest"
)

func TestMain(m *testing.M) { wiretest.OwnNetwork(m) }

// sameSet tells whether two lists have the same elements.
func sameSet(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}
