package congested

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/internal/wiretest"
)

// Tunnels are known by the protocol after the extension headers, or by the UDP port.
func TestIsTunnel(t *testing.T) {
	const addresses = "20010db8000e00000000000000000001 20010db8000e00000000000000000002"
	for _, c := range []struct {
		name, packet string
		want         bool
	}{
		{"ESP", "6020000a 0008 32 40" + addresses + "0000000100000001", true},
		{"AH", "6020000a 0008 33 40" + addresses + "0000000100000001", true},
		{"IPv6", "6020000a 0000 29 40" + addresses, true},
		{"EtherIP", "6020000a 0002 61 40" + addresses + "3000", true},
		{"L2TPv3", "6020000a 0004 73 40" + addresses + "00000001", true},
		{"Ethernet", "6020000a 0000 8f 40" + addresses, true},
		{"TCP", "6020000a 0004 06 40" + addresses + "00b300b3", false},
		{"ICMPv6", "6020000a 0004 3a 40" + addresses + "80000000", false},
		{"ESP in UDP", "6020000a 0008 11 40" + addresses + "1194 1194 0008 0000", true},
		{"VXLAN", "6020000a 0008 11 40" + addresses + "c000 12b5 0008 0000", true},
		{"RoCEv2", "6020000a 0008 11 40" + addresses + "c000 12b7 0008 0000", false},
		{"FCN", "6020000a 0008 11 40" + addresses + "c000 03fd 0008 0000", false},
		{"UDP without a port", "6020000a 0003 11 40" + addresses + "c00012", false},
		{"ESP after a Routing header", "6020000a 0010 2b 40" + addresses + "3200040000000000 0000000100000001", true},
		{"truncated Routing header", "6020000a 0010 2b 40" + addresses + "32010400 00000000", false},
		{"first fragment of ESP", "6020000a 0010 2c 40" + addresses + "3200000100000001 0000000100000001", true},
		{"later fragment of ESP", "6020000a 0010 2c 40" + addresses + "3200000800000001 0000000100000001", true},
		{"first fragment of VXLAN", "6020000a 0010 2c 40" + addresses + "1100000100000001 c00012b500080000", true},
		{"later fragment of UDP", "6020000a 0010 2c 40" + addresses + "1100000800000001 c00012b500080000", false},
		{"IPv4", "4502001c 00000000 40 32 0000 c0000201 c0000202 0000000100000001", false},
		{"header only in part", "6020000a 0008 32", false},
		{"empty", "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, isTunnel(wiretest.Hex(t, c.packet)))
		})
	}
}
