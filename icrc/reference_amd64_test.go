package icrc_test

import (
	"testing"

	"github.com/rocecn/rocecn/icrc"
)

// eachWay runs f with the tables, and with the assembly where the CPU can.
func eachWay(t *testing.T, f func()) {
	if !*icrc.Wide {
		t.Log("no AVX-512 with VPCLMULQDQ here: tables only")
		f()
		return
	}
	f()
	*icrc.Wide = false
	defer func() { *icrc.Wide = true }()
	f()
}
