package qpmap_test

import (
	"testing"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/qpmap"
	"github.com/stretchr/testify/require"
)

// Two connections between the same hosts use the same PSNs, and somebody has forged a third one, from the sender of the
// one to the receiver of the other, with requests and answers elsewhere. Where the capture has lost the requests of the
// one, its answers seem to be those of the other's requests. They do not carry the forged connection there: CM says who
// sends these requests, or as many answers speak for the connection that is true.
func TestForgedDoesNotGoOn(t *testing.T) {
	for _, withCM := range []bool{false, true} {
		one := live() // a, b
		other := *one
		other.a, other.b, other.commA, other.commB = one.a+1, one.b+1, one.commA+10, one.commB+10
		forged := *one
		forged.b, forged.commA, forged.commB = other.b, one.commA+20, one.commB+20
		forged.psnA, forged.psnB = one.psnA+1<<20, one.psnB+1<<20
		m := qpmap.New(qpmap.Config{})
		if withCM {
			observe(m, start, one.req(), one.rep(), other.req(), other.rep())
		} else {
			observe(m, start, other.request(0), one.request(0))
		}
		observe(m, start, forged.req(), forged.rep())
		observe(m, start, forged.request(0), forged.ack(0), forged.request(1), forged.ack(1))
		got, err := m.SourceQP(qpmap.Key{FlowKey: forged.forth()}, start)
		require.NoError(t, err)
		require.Equal(t, forged.a, got.SrcQP) // as good as any connection
		for n := range uint32(9) {
			observe(m, start, other.request(n))
			if !withCM && n%2 == 0 {
				observe(m, start, one.request(n))
			}
		}
		for n := range uint32(9) {
			p := packet(one.B, one.A, bth.RCAcknowledge, one.a, one.psnA+n)
			observe(m, start, p)
			if got, err := m.SourceQP(qpmap.Key{FlowKey: one.back()}, start); err == nil {
				require.Equal(t, one.b, got.SrcQP, "CM: %v, answer %d, from %v", withCM, n, got.From)
			}
		}
	}
}
