//go:build linux

package igptest

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/pnc"
)

func TestMain(m *testing.M) { wiretest.OwnNetwork(m) }

// sameSet reports whether two lists have the same elements.
func sameSet(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// contains reports whether a text has all of these parts.
func contains(text string, parts ...string) bool {
	for _, p := range parts {
		if !strings.Contains(text, p) {
			return false
		}
	}
	return true
}

// lines returns one line for each advertisement of an iterator.
func lines(advertisements iter.Seq2[pnc.Advertisement, error]) (all []string) {
	for a, err := range advertisements {
		if err != nil {
			all = append(all, err.Error())
			continue
		}
		all = append(all, fmt.Sprintf("%v %v %d", a.Prefix, a.Proxy, a.Metric))
	}
	return all
}
