//go:build linux

package igptest

import (
	"slices"
	"strings"
	"testing"

	"github.com/rocecn/rocecn/internal/wiretest"
)

func TestMain(m *testing.M) { wiretest.OwnNetwork(m) }

// sameSet tells whether two lists have the same elements.
func sameSet(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// contains tells whether a text has all of these parts.
func contains(text string, parts ...string) bool {
	for _, p := range parts {
		if !strings.Contains(text, p) {
			return false
		}
	}
	return true
}
