package icrc_test

import (
	"testing"

	"github.com/rocecn/rocecn/icrc"
)

// eachWay runs f in each way that this CPU can compute the ICRC.
func eachWay(t testing.TB, f func()) {
	for i, name := range icrc.Ways() {
		back := icrc.Force(i)
		t.Log("by", name)
		f()
		back()
	}
}
