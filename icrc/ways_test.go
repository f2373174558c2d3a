package icrc_test

import (
	"testing"

	"github.com/rocecn/rocecn/icrc"
)

// eachWay runs f in each way that this CPU can compute the ICRC.
func eachWay(t testing.TB, f func()) {
	for i := range icrc.Ways() {
		func() {
			defer icrc.Force(i)()
			f()
		}()
	}
}

// What was tested, for the log.
func TestWays(t *testing.T) {
	t.Log(icrc.Ways())
}
