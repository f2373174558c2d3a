package fcn

import (
	"testing"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

// A packet in an SR-MPLS tunnel has no outer IPv6 header, so it has no flow label and
// no ingress address: AppendFor rejects it.
func TestSRMPLS(t *testing.T) {
	const macs = `020000000002 020000000001`
	ipv6 := `60200000 0028 1140 20010db8000100000000000000000001 20010db8000400000000000000000001` +
		`c000 12b7 0028 0000 0400ffff 00000011 00000000 00000000000000000000000000000000 01020304`
	for _, c := range []struct{ name, frame string }{
		{"one label", macs + `8847 03e80140` + ipv6},
		{"two segments", macs + `8847 03e80040 03e90140` + ipv6},
		{"Ethernet, as a VPN", macs + `8847 03e80040 03e90140` + macs + `86dd` + ipv6},
		{"control word", macs + `8847 03e80040 03e90140 00000000` + macs + `86dd` + ipv6},
		{"in UDP over IPv4", macs + `0800 45020070000000004011 0000 c6336401 c6336402 c000 19eb 005c 0000 03e80140` +
			ipv6},
	} {
		t.Run(c.name, func(t *testing.T) {
			var flow rocev2.Frame
			flow.Decode(wiretest.Hex(t, c.frame), rocev2.DecodeOptions{}) // for IP in IP alone, labels are no way
			_, err := flow.FiveTuple()
			require.NoError(t, err)
			_, err = For(&flow, 3)
			require.ErrorIs(t, err, ErrNotTunnelled)
		})
	}
}
