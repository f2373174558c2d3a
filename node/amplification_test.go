package node_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocecn/rocecn/bth"
	"github.com/rocecn/rocecn/internal/wiretest"
	"github.com/rocecn/rocecn/node"
	"github.com/rocecn/rocecn/node/acl"
	"github.com/rocecn/rocecn/node/congested"
	"github.com/rocecn/rocecn/node/receiver"
	"github.com/rocecn/rocecn/rocev2"
)

// The octets of a notification are at most this multiple of those of the IP packet that causes it. SECURITY.md has
// these numbers.
func TestAmplification(t *testing.T) {
	address := netip.MustParseAddr
	switchWith := func(m congested.Method) node.Role {
		return wiretest.Must(congested.New(congested.Config{
			Enabled: true, Self6: address("2001:db8:ffff::5"),
			Methods: acl.NewMap(acl.Entry[congested.Method]{Prefix: netip.MustParsePrefix("::/0"), Value: m}),
			Proxies: acl.NewMap(acl.Entry[netip.Addr]{Prefix: netip.MustParsePrefix("::/0"),
				Value: address("2001:db8:ffff::9")}),
			Pause: time.Millisecond,
		}))(t)
	}
	for _, c := range []struct {
		name     string
		role     node.Role
		src, dst string
		opcode   bth.Opcode
		in, out  int // octets
	}{
		{"CNP about a datagram", wiretest.Must(receiver.New(receiver.Config{Enabled: true,
			Self4: address("198.51.100.2")}))(t), "198.51.100.1", "198.51.100.2", bth.UDSendOnly, 52, 60}, // 1.15
		{"Fast CNP", switchWith(congested.MethodFastCNP), "2001:db8:1::a", "2001:db8:4::e", bth.RCSendOnly, 64, 104},
		{"PPFC", switchWith(congested.MethodPPFC), "2001:db8:1::a", "2001:db8:4::e", bth.RCSendOnly, 64, 88},
		{"proxy message", switchWith(congested.MethodProxy), "2001:db8:1::a", "2001:db8:4::e", bth.RCSendOnly, 64, 152},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := rocev2.Packet{BTH: bth.Headers{Header: bth.Header{Opcode: c.opcode, DestQP: 17, PKey: 0xFFFF}}}
			p.Src, p.Dst, p.SrcPort, p.DstPort, p.HopLimit = address(c.src), address(c.dst), 49152, rocev2.Port, 64
			p.BTH.DETH.SrcQP, p.TrafficClass = 18, uint8(rocev2.CE)
			in := wiretest.Must(p.AppendBinary(nil))(t)
			var f rocev2.Frame
			f.Decode(in, rocev2.DecodeOptions{Link: rocev2.LinkIP})
			out, d := c.role.Receive(nil, &f, node.Event{Level: 7, Now: time.Unix(1e9, 0)})
			require.Equal(t, node.ActionSent, d.Action, "%v", d.Reason)
			require.Equal(t, []int{c.in, c.out}, []int{len(in), len(out)})
		})
	}
}
