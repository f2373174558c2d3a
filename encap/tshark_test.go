package encap

import (
	"fmt"
	"slices"
	"testing"

	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/rocev2"
	"github.com/stretchr/testify/require"
)

// tshark reads every tunnel as it is meant: the outer label and ECN field, both
// source addresses, right lengths and checksums, and the packet inside.
func TestTshark(t *testing.T) {
	inner := roce(t)
	plain := wiretest.Tshark(t, slices.Concat(ethernet[:12], []byte{0x86, 0xDD}, inner))[0]
	for _, tunnel := range tunnels() {
		t.Run(fmt.Sprintf("%T", tunnel), func(t *testing.T) {
			out := wiretest.Must(tunnel.Append(slices.Concat(ethernet[:12], []byte{0x86, 0xDD}), inner, 0xBEEF5))(t)
			row := wiretest.Tshark(t, out)[0]
			require.EqualValues(t, 0xBEEF5, row.Uint("ipv6.flow"))
			require.Equal(t, pe.String(), row.Get("ipv6.src"))
			require.Equal(t, plain.Get("ipv6.src"), row.All("ipv6.src")[1])
			require.Equal(t, plain.Get("ipv6.flow"), row.All("ipv6.flow")[1])
			require.Equal(t, plain.Get("ipv6.tclass.ecn"), row.Get("ipv6.tclass.ecn"))
			require.Equal(t, plain.Get("infiniband.bth.destqp"), row.Get("infiniband.bth.destqp"))
			require.NotEmpty(t, row.Get("infiniband.bth.destqp"))
			require.Empty(t, row.Get("_ws.malformed"))
			for _, status := range row.All("udp.checksum.status") {
				require.NotEqual(t, "0", status, "a bad checksum")
			}
			if s, ok := tunnel.(*SRv6); ok {
				require.Equal(t, []string{"fc00:1::"}, row.All("ipv6.dst")[:1])
				require.Equal(t, "1", row.Get("ipv6.routing.segleft"))
				want := []string{"fc00:2::", "fc00:1::"}
				if s.Reduced {
					want = want[:1]
				}
				require.Equal(t, want, row.All("ipv6.routing.srh.addr"))
			}
		})
	}
}

// roce returns the first RoCEv2 packet of a capture, from its IP header on.
func roce(t *testing.T) []byte {
	for _, captured := range wiretest.Capture(t, "rxe-rping6.pcap") {
		var p rocev2.Packet
		if p.DecodeEthernet(captured.Data) == nil {
			return p.IP
		}
	}
	t.Fatal("no RoCEv2 packet")
	return nil
}
